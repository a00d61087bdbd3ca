// A run on real devices: who is there, what was predicted and measured, and what has been learned.

const MOST_DEVICE_ROWS = 200;
const RECENT_ROUNDS = 10;
const MEASURED_COLOUR = "#0072B2";
const PREDICTED_COLOUR = "#D55E00";

/** The middle of some numbers. */
function median(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  if (!sorted.length) return NaN;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** By how much of what was measured a prediction is above it; below if negative. */
const predictionError = (measured, planned) => (measured > 0 ? (planned - measured) / measured : NaN);
const sayError = (share) => (Number.isFinite(share) ? `${share > 0 ? "+" : ""}${(100 * share).toFixed(Math.abs(share) < 0.1 ? 1 : 0)} %` : "–");
const sayMeasured = (measured, planned, say) => `${say(measured)} (${say(planned)})`;
const sayShort = (seconds) => (Number.isFinite(seconds) ? saySi(seconds, "s", 3) : "–");

/** Measured and predicted seconds of the rounds: by the clock, where the run has it. */
const roundTimes = (measured) => (measured.clock_s ? [unpack(measured.clock_s), unpack(measured.planned_clock_s)] : [unpack(measured.time_s), unpack(measured.planned_time_s)]);

function roundErrors(of) {
  const [measured, planned] = roundTimes(of);
  return Array.from(planned, (value, i) => predictionError(measured[i], value));
}

function measuredOption() {
  const run = theRun();
  if (!run || !run.detail.measured) return null;
  const at = unpack(run.detail.measured.rounds);
  const [time, planned] = roundTimes(run.detail.measured);
  const parts = [["measured", time, MEASURED_COLOUR, null, "circle"], ["predicted", planned, PREDICTED_COLOUR, [7, 4], "rect"]];
  return {
    describe: "time of each global round, measured and predicted",
    key: parts.map(([name, , colour, dash]) => [stroke(colour, 2, dash), name]),
    grid: GRID,
    xAxis: axis("global round", { type: "category", data: Array.from(at, String), splitLine: { show: false }, nameGap: 26 }),
    yAxis: upright("seconds", { type: "log" }),
    tooltip: {
      trigger: "axis",
      axisPointer: { type: "line", lineStyle: { color: themed("--muted") } },
      formatter: (points) => {
        const i = points[0].dataIndex;
        const rows = parts.map(([name, values]) => [name, make("b", {}, sayShort(values[i]))]);
        rows.push(["error", sayError(predictionError(parts[0][1][i], parts[1][1][i]))]);
        return tip(`round ${at[i]}`, rows);
      },
    },
    series: parts.map(([name, values, colour, dash, symbol]) => ({
      type: "line",
      name,
      data: Array.from(values, (value) => (value > 0 ? value : "-")),
      color: colour,
      symbol,
      showSymbol: at.length < 30,
      lineStyle: { width: 2, type: dash || "solid" },
      emphasis: { disabled: true },
    })),
  };
}

function errorOption() {
  const run = theRun();
  if (!run || !run.detail.measured) return null;
  const at = unpack(run.detail.measured.rounds);
  const errors = roundErrors(run.detail.measured);
  return {
    describe: "error of the predicted time of each global round, in percent of the measured time",
    grid: GRID,
    xAxis: axis("global round", { type: "category", data: Array.from(at, String), splitLine: { show: false }, nameGap: 26, axisLine: { onZero: false } }),
    yAxis: upright("% of the measured time", { type: "value" }),
    tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, formatter: (points) => tip(`round ${at[points[0].dataIndex]}`, [["error", make("b", {}, sayError(errors[points[0].dataIndex]))]]) },
    series: [{ type: "bar", name: "error", data: errors.map((share) => (Number.isFinite(share) ? 100 * share : "-")), color: PREDICTED_COLOUR, emphasis: { disabled: true } }],
  };
}

/** Who is there, in words. */
function fleetWords(run) {
  const { fleet } = run;
  if (fleet.waiting) return ["The coordinator has not heard of any device yet"];
  const words = [];
  if (run.ended) words.push("The run has ended. When it did, ");
  words.push(`${fleet.connected.length} of ${plural(fleet.devices, "device")} ${run.ended ? "were" : "are"} connected`);
  const silent = fleet.answering.flatMap((answers, c) => (answers ? [] : [c]));
  if (silent.length) words.push("; ", marked(`▲ no answer from edge ${silent.length > 1 ? "servers" : "server"} ${silent.join(", ")}`, "over"));
  else words.push("; no edge server is silent");
  if (fleet.late.length) words.push("; ", marked(`▲ late in the last round: device ${sayFew(fleet.late)}`, "over"));
  else words.push("; nobody was late in the last round");
  if (fleet.refused && fleet.refused.length) words.push("; ", marked(`▲ updates refused in the last round: device ${sayFew(fleet.refused)}`, "over"));
  if (fleet.left_out && fleet.left_out.length) words.push("; ", marked(`▲ left out as their updates were refused: device ${sayFew(fleet.left_out)}`, "over"));
  return words;
}

const sayFew = (numbers) => `${numbers.slice(0, 12).join(", ")}${numbers.length > 12 ? ` and ${numbers.length - 12} more` : ""}`;

function sayLearned(of, n) {
  if (!of || of.age[n] === null || of.age[n] < 0) return "–";
  return `${sayNumber(of.value[n], 3)}, spread ${sayNumber(of.spread[n], 2)}, ${of.age[n] <= 1 ? "new" : `${of.age[n]} edge rounds old`}`;
}

function fillDeviceTable({ devices }, fleet) {
  const columns = Object.fromEntries(Object.entries(devices).map(([name, packed]) => [name, unpack(packed)]));
  const connected = new Set(fleet && fleet.connected ? fleet.connected : []);
  const late = new Set(fleet && fleet.late ? fleet.late : []);
  const pair = (name, say, n) => sayMeasured(columns[name][n], columns[`planned_${name}`][n], say);
  const rows = [];
  for (let n = 0; n < Math.min(columns.asked.length, MOST_DEVICE_ROWS); n++) {
    const state = late.has(n) ? marked("▲ late", "over") : fleet && !connected.has(n) ? "away" : "connected";
    rows.push([
      `device ${n}`, state, `${columns.arrived[n]} of ${columns.asked[n]}`, pair("compute_s", sayShort, n), pair("upload_s", sayShort, n),
      `${pair("energy_j", sayJoules, n)}, ${columns.metered[n] ? "metered" : "modelled"}`,
    ]);
  }
  fillTable(byId("measured-table"), ["", "now", "updates", "training (predicted)", "upload (predicted)", "energy (predicted)"], rows);
}

function fillLearnedTable(fleet) {
  const rows = [];
  for (let n = 0; n < Math.min(fleet.devices, MOST_DEVICE_ROWS); n++) {
    rows.push([`device ${n}`, sayLearned(fleet.cycles, n), sayLearned(fleet.upload, n), ""]);
  }
  for (let c = 0; c < fleet.edges; c++) rows.push([`edge server ${c}`, "", "", sayLearned(fleet.backhaul, c)]);
  fillTable(byId("learned-table"), ["", "cycles of training", "time of an upload", "time of gossip"], rows);
}

function setUpMeasured() {
  new Chart("chart-measured", measuredOption);
  new Chart("chart-error", errorOption);
}

RUN_SECTIONS.push(fillMeasured);

function fillMeasured(run) {
  const fleet = run && run.fleet;
  const measured = run && run.detail && run.detail.measured;
  show(byId("measured"), Boolean(fleet || measured));
  if (!fleet && !measured) return;
  byId("measured-run").textContent = `of ${runName(run)}`;
  const words = fleet ? fleetWords(run) : [];
  if (measured) {
    const errors = roundErrors(measured).slice(-RECENT_ROUNDS);
    words.push(`${words.length ? ". " : ""}Predicted round times are off by ${sayPercent(median(errors.map(Math.abs)), 0)}, median of the last ${plural(errors.length, "round")}.`);
  }
  byId("measured-text").replaceChildren(...words);
  show(byId("measured-charts"), Boolean(measured));
  if (!measured) return;
  fillDeviceTable(measured, fleet);
  show(byId("learned-table").closest("figure"), Boolean(fleet && fleet.cycles));
  if (fleet && fleet.cycles) fillLearnedTable(fleet);
  const metered = unpack(measured.devices.metered).filter(Boolean).length;
  const joules = metered ? `Joules of ${plural(metered, "device")} are read from meters, those of others are` : "All joules are";
  const more = unpack(measured.devices.asked).length > MOST_DEVICE_ROWS ? ` The first ${MOST_DEVICE_ROWS} devices are listed.` : "";
  byId("measured-note").textContent = `${joules} modelled from measured seconds by the scenario's laws. Errors are of the prediction, in percent of what was measured.${more}`;
  for (const id of ["chart-measured", "chart-error"]) page.charts[id].update();
}
