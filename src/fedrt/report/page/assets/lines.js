// Curves of all lines on the same axes: accuracy, loss, energy and the rest against time or rounds.

const QUANTITIES = {
  accuracy: { say: (v) => sayPercent(v), unit: "%", scale: 100, from: "data" },
  loss: { say: (v) => sayNumber(v), unit: "", from: "data" },
  energy_j_mean: { say: sayJoules, unit: "J", budget: true },
  energy_j_max: { name: "energy of the device that spent most", say: sayJoules, unit: "J" },
  ends_at_s: { name: "simulated time", say: sayTime, unit: "time" },
  time_s: { name: "time of a round", say: sayTime, unit: "time" },
  over_budget_devices: { name: "devices over budget", say: sayNumber, unit: "" },
  over_budget_j: { name: "energy beyond budgets", say: sayJoules, unit: "J" },
  links_kept: { name: "backhaul links kept", say: sayNumber, unit: "" },
  gossip_steps: { name: "gossip steps", say: sayNumber, unit: "" },
  upload_bytes: { name: "sent by devices in a round", say: (v) => saySi(v, "B"), unit: "B" },
  backhaul_bytes: { name: "sent over the backhaul in a round", say: (v) => saySi(v, "B"), unit: "B" },
  zeta: { name: "contraction of a gossip step (zeta)", say: sayNumber, unit: "", from: "data" },
  consensus: { name: "distance of edge models to their average", say: sayNumber, unit: "" },
  distance_error: { name: "error of believed distances", say: sayNumber, unit: "", from: "data" },
  edge_accuracy_min: { name: "accuracy of the worst edge model", say: sayPercent, unit: "%", scale: 100, from: "data" },
  edge_accuracy_max: { name: "accuracy of the best edge model", say: sayPercent, unit: "%", scale: 100, from: "data" },
};

/** Fit the names and units of what is measured of models to the runs of the page. */
function fitMeasure() {
  const { name, is_share: share, more } = page.data.measure;
  const how = share ? { say: sayPercent, unit: "%", scale: 100, from: "data" } : { say: sayNumber, unit: "", scale: 1, from: "data" };
  QUANTITIES.accuracy = { ...how, title: name };
  QUANTITIES.edge_accuracy_min = { ...how, name: `${name} of the ${share ? "worst" : "least"} edge model` };
  QUANTITIES.edge_accuracy_max = { ...how, name: `${name} of the ${share ? "best" : "greatest"} edge model` };
  for (const other of more) QUANTITIES[other] = { name: other, say: sayNumber, unit: "", from: "data" };
  QUANTITIES.ends_at_s.name = timeWords();
  document.querySelector("input[name=axis][value=time_s] + span").textContent = timeWords();
  byId("measure-caption").textContent = `Test ${name} of the average model`;
}

/** What the horizontal axis is, if it is no round: on real devices time is measured. */
const timeWords = () => (page.data.runs.length && page.data.runs.every((run) => run.fleet) ? "measured time" : "simulated time");
const shownLines = () => page.data.lines.filter((line) => !chosen.hidden.has(line.label));
const hasCurve = (name) => page.data.lines.some((line) => line.curves[name]);

/** What is drawn of one quantity, in the units of the axes. */
function curvesOf(name, all, along) {
  const lines = all.filter((line) => line.curves[name]);
  const { scale = 1, unit } = QUANTITIES[name];
  const xs = lines.map((line) => unpack(line.curves[name][along]));
  const [timeName, timeSize] = timeUnit(greatest(xs, 0));
  const size = along === "time_s" ? timeSize : 1;
  const ys = lines.map((line) => unpack(line.curves[name].high || line.curves[name].mean));
  const [yName, ySize] = unit === "time" ? timeUnit(greatest(ys, 0)) : [unit, 1 / scale];
  return { lines, xs, size, timeName, ySize, yName };
}

/** One quantity of some lines along "time_s" or "round"; `level` is one more dashed line across. */
function curveOption(name, all = shownLines(), along = chosen.axis, level = null) {
  const { say, budget, from } = QUANTITIES[name];
  const title = QUANTITIES[name].title || QUANTITIES[name].name || name;
  const { lines, xs, size, timeName, ySize, yName } = curvesOf(name, all, along);
  const series = [];
  lines.forEach((line, i) => {
    const curve = line.curves[name];
    const x = Array.from(xs[i], (value) => value / size);
    const scaled = (packed) => Array.from(unpack(packed), (value) => value / ySize);
    const mean = scaled(curve.mean);
    if (curve.low) {
      series.push(bandSeries(`${line.label} range`, line.style, x, scaled(curve.low), scaled(curve.high)));
    }
    series.push(lineSeries(line.label, line.style, x.map((value, k) => [value, mean[k]]), { z: 3 }, line.dash));
  });
  const over = overPoints(name, lines, xs, size, ySize);
  if (over.length) series.push(overSeries(over));
  if (budget) series.push(...budgetSeries(lines));
  if (level) series.push(levelSeries("level", level.value / ySize, level.text));
  const onTime = along === "time_s";
  return {
    describe: `${title} of ${lines.map((line) => line.label).join(", ")} against ${onTime ? timeWords() : "rounds"}`,
    grid: GRID,
    xAxis: axis(onTime ? `${timeWords()} (${timeName})` : "global round", { type: "value", min: 0, max: "dataMax", splitLine: { show: false }, axisLabel: { showMaxLabel: false, formatter: (v) => sayNumber(v, 4) } }),
    yAxis: upright(yName, { type: "value", scale: from === "data", axisLabel: { formatter: (v) => sayNumber(v, 4) } }),
    tooltip: {
      trigger: "axis",
      axisPointer: { type: "line", lineStyle: { color: themed("--muted") } },
      formatter: (at) => curveTip(name, lines, xs, at[0].axisValue * size, say, onTime),
    },
    series,
  };
}

/** Where each line is in the round in which its first device goes over its whole budget. */
function overPoints(name, lines, xs, size, ySize) {
  return lines.flatMap((line, i) => {
    const counts = line.curves.over_budget_devices;
    if (!counts || name === "over_budget_devices" || name === "over_budget_j") return [];
    const first = unpack(counts.high || counts.mean).findIndex((devices) => devices > 0);
    if (first < 0) return [];
    const k = nearest(unpack(line.curves[name].round), unpack(counts.round)[first]);
    return [[xs[i][k] / size, unpack(line.curves[name].mean)[k] / ySize]];
  });
}

/** Every line's value nearest to a place on the axis, each with its own round and time. */
function curveTip(name, lines, xs, x, say, onTime) {
  const rows = lines.map((line, i) => {
    const curve = line.curves[name];
    const k = nearest(xs[i], x);
    const low = curve.low ? unpack(curve.low)[k] : null;
    const range = curve.low ? ` (${say(low)} to ${say(unpack(curve.high)[k])})` : "";
    const where = `round ${unpack(curve.round)[k]}, ${sayTime(unpack(curve.time_s)[k])}`;
    return [swatch(line.style, line.dash), line.label, make("b", {}, say(unpack(curve.mean)[k]) + range), make("span", { class: "muted" }, where)];
  });
  const heading = onTime ? `at ${sayTime(x)}` : `round ${Math.round(x)}`;
  return tip(heading, rows);
}

/** A dashed line at each budget, with the range over devices where they differ. */
function budgetSeries(lines) {
  const budgets = new Map();
  for (const { budget_j: budget } of lines) if (budget) budgets.set(budget.join(), budget);
  return Array.from(budgets.values(), ([low, mean, high]) => ({
    ...levelSeries("budget", mean, low === high ? `budget ${sayJoules(mean)}` : `mean budget ${sayJoules(mean)}`),
    markArea: low === high ? undefined : { silent: true, itemStyle: { color: themed("--muted"), opacity: 0.12 }, data: [[{ yAxis: low }, { yAxis: high }]] },
  }));
}

/** A dashed line across the chart, with words on it. */
function levelSeries(name, value, text) {
  const colour = themed("--muted");
  return {
    type: "line",
    name,
    data: [[0, value]],
    silent: true,
    symbol: "none",
    markLine: {
      silent: true,
      symbol: "none",
      data: [{ yAxis: value }],
      lineStyle: { color: colour, type: [6, 4], width: 1.5 },
      label: { position: "insideStartTop", color: colour, formatter: text },
    },
  };
}

/** Seconds of each part of every line that has ended, as stacked bars. */
function partsOption() {
  const lines = shownLines().filter((line) => line.parts);
  if (!lines.length) return null;
  const totals = lines.map((line) => line.parts.reduce((a, b) => a + b, 0));
  const [unit, size] = timeUnit(Math.max(...totals));
  const names = ALL_PARTS.filter((part) => lines.some((line) => (line.part_names || PARTS).includes(part)));
  const seconds = (line, part) => line.parts[(line.part_names || PARTS).indexOf(part)] || 0;
  return {
    describe: `time spent on ${sayList(names)} by each line`,
    key: names.map(partKey),
    grid: { ...GRID, left: 8, top: 8, bottom: 40, containLabel: true },
    xAxis: axis(`${timeWords()} (${unit})`, { type: "value", nameGap: 26 }),
    yAxis: axis("", { type: "category", inverse: true, data: lines.map((line) => (isOver(line) ? `▲ ${line.label}` : line.label)), axisLabel: { color: themed("--text"), width: 130, overflow: "truncate" } }),
    tooltip: {
      trigger: "axis",
      axisPointer: { type: "shadow" },
      formatter: (at) => {
        const i = at[0].dataIndex;
        const rows = names.map((part) => [part, make("b", {}, sayTime(seconds(lines[i], part))), sayPercent(seconds(lines[i], part) / totals[i], 1)]);
        return tip(`${lines[i].label}: ${sayTime(totals[i])}`, rows);
      },
    },
    series: names.map((part) => partSeries(part, lines.map((line) => seconds(line, part) / size))),
  };
}

const partKey = (part) => [box(PART_COLOURS[part], part), part];
/** Whether some device of a line's runs is over its budget at the end. */
const isOver = ({ over, row }) => Boolean(over || (row && row.over_budget_devices && row.over_budget_devices.mean));

/** One part of the time as a piece of stacked bars, by colour and by pattern. */
function partSeries(part, data, more = {}) {
  return {
    type: "bar",
    name: part,
    stack: "time",
    data,
    color: PART_COLOURS[part],
    itemStyle: { decal: { color: "rgba(255,255,255,0.55)", ...PART_DECALS[part] } },
    barMaxWidth: 34,
    emphasis: { disabled: true },
    ...more,
  };
}

/** A button for each line that takes it away and brings it back; at the mouse or the keyboard's
 * focus it brings the line out in these charts. */
function fillLegend(element, lines, hidden, changed, charts) {
  const light = (name) => charts.forEach((id) => page.charts[id] && page.charts[id].light(name));
  const buttons = lines.map((line, i) => {
    const shown = !hidden.has(line.label);
    const button = make("button", { type: "button", "aria-pressed": shown }, swatch(line.style, line.dash), line.label, isOver(line) ? marked("▲", "over") : null);
    button.addEventListener("click", () => {
      if (shown) hidden.add(line.label);
      else hidden.delete(line.label);
      fillLegend(element, lines, hidden, changed, charts);
      changed();
      element.children[i].focus();
    });
    for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => light(line.label));
    for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => light(null));
    return button;
  });
  element.replaceChildren(...buttons);
}

function drawLegend() {
  const over = page.data.lines.some(isOver);
  show(byId("curves-key"), over);
  byId("curves-key").replaceChildren(
    make("span", {}, marked("▲", "over"), "some device is over its budget at the end"),
    make("span", {}, ring(), "the round in which the first device goes over its budget for the whole run"),
  );
  fillLegend(byId("legend"), page.data.lines, chosen.hidden, () => {
    for (const id of LINE_CHARTS) page.charts[id].update();
  }, LINE_CHARTS.slice(0, -1));
}

const LINE_CHARTS = ["chart-accuracy", "chart-loss", "chart-energy", "chart-more", "chart-parts"];

function setUpLines() {
  new Chart("chart-accuracy", () => (hasCurve("accuracy") ? curveOption("accuracy") : null));
  new Chart("chart-loss", () => (hasCurve("loss") ? curveOption("loss") : null));
  new Chart("chart-energy", () => (hasCurve("energy_j_mean") ? curveOption("energy_j_mean") : null));
  new Chart("chart-more", () => (chosen.more ? curveOption(chosen.more) : null));
  new Chart("chart-parts", partsOption);
  for (const input of document.querySelectorAll("input[name=axis]")) {
    input.addEventListener("change", () => {
      chosen.axis = input.value;
      for (const id of LINE_CHARTS) page.charts[id].update();
    });
  }
  byId("more").addEventListener("change", (event) => {
    chosen.more = event.target.value;
    page.charts["chart-more"].update();
  });
}

/** Fit controls and figures to the data. */
function fillLines() {
  const begun = page.data.lines.some((line) => line.done);
  fitMeasure();
  show(byId("curves"), begun);
  if (!begun) return;
  for (const figure of document.querySelectorAll("figure[data-needs]")) {
    show(figure, hasCurve(figure.dataset.needs));
  }
  show(byId("parts-figure"), page.data.lines.some((line) => line.parts));
  byId("chart-parts").style.height = `${Math.max(110, 60 + (page.data.lines.length > 12 ? 24 : 34) * page.data.lines.length)}px`;
  const names = Object.keys(QUANTITIES).filter((name) => QUANTITIES[name].name && hasCurve(name));
  if (!names.includes(chosen.more)) chosen.more = names[0] || null;
  byId("more").replaceChildren(...names.map((name) => make("option", { value: name }, QUANTITIES[name].name)));
  byId("more").value = chosen.more || "";
  drawLegend();
}
