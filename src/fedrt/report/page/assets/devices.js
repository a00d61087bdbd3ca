// The devices of one run: what they got and have left, over rounds, and the data they hold.

const HEATS = {
  bandwidth_hz: { name: "bandwidth", say: (v) => saySi(v, "Hz"), colours: VIRIDIS },
  cpu_hz: { name: "CPU frequency", say: (v) => saySi(v, "Hz"), colours: VIRIDIS },
  left_j: { name: "energy left", say: sayJoules, colours: VIRIDIS },
  trains: { name: "share of edge rounds that it trains in", say: (v) => sayPercent(v, 0), colours: VIRIDIS },
};

/** The devices shown: those of one edge server, or all; in rows, several to a row if need be. */
function deviceRows() {
  const { devices } = theRun().detail;
  const edge = unpack(devices.edge);
  const all = Array.from(edge, (_, n) => n);
  const members = chosen.cluster === "all" ? all : all.filter((n) => edge[n] === Number(chosen.cluster));
  return groups(members.length, MOST_HEAT_ROWS).map(([first, last]) => members.slice(first, last + 1));
}

const rowName = (members) => (members.length === 1 ? `${members[0]}` : `${members[0]}–${members[members.length - 1]}`);

function heatDevices() {
  const run = theRun();
  if (!run || !run.detail.devices) return null;
  const { devices } = run.detail;
  // Only of runs whose plans leave devices out is it told who trains.
  const heat = devices[chosen.heat] ? chosen.heat : "bandwidth_hz";
  const { name, say, colours } = HEATS[heat];
  const rows = deviceRows();
  const values = unpack(devices[heat]);
  const [first, last] = [unpack(devices.bins.first), unpack(devices.bins.last)];
  const [edge, over, budget, spent] = ["edge", "over", "budget_j", "spent_j"].map((key) => unpack(devices[key]));
  const mean = (members, column) => {
    // Devices that sit out a round have no value in it.
    let [sum, count] = [0, 0];
    for (const n of members) {
      const value = values[column * edge.length + n];
      if (!Number.isNaN(value)) [sum, count] = [sum + value, count + 1];
    }
    return count ? sum / count : NaN;
  };
  const below = heat === "left_j" && values.some((value) => value < 0);
  const sayCell = (r, c, value) => {
    const members = rows[r];
    const who = members.length === 1 ? `device ${rowName(members)}` : `devices ${rowName(members)}, mean`;
    const late = members.filter((n) => over[n]);
    const lines = [];
    if (c !== null) {
      const when = heat === "left_j" ? `after round ${last[c]}` : sayRounds(first[c], last[c]);
      lines.push([`${name}, ${when}`, make("b", {}, say(value))]);
    }
    if (members.length === 1) {
      const n = members[0];
      lines.push(["edge server", String(edge[n])], ...sayClass(devices, n), ["spent of budget", `${sayJoules(spent[n])} of ${sayJoules(budget[n])}`]);
    }
    if (late.length) lines.push([marked(members.length === 1 ? "▲ over budget" : `▲ ${late.length} over budget`, "over"), ""]);
    return tip(who, lines);
  };
  return heatOption({
    rows: rows.map(rowName),
    columns: Array.from(first, String),
    cell: (r, c) => mean(rows[r], c),
    say: sayCell,
    sayScale: say,
    colours: below ? AROUND_ZERO : colours,
    range: heat === "trains" ? () => [0, 1] : below ? (low, high) => [-Math.max(-low, high), Math.max(-low, high)] : null,
    xName: "global round",
    yName: rows.some((members) => members.length > 1) ? "devices, several to a row" : "device",
    marks: rows.flatMap((members, r) => (members.some((n) => over[n]) ? [r] : [])),
    mark: "over its budget at the end of the run",
    describe: `${name} of devices over rounds; a triangle marks devices over budget`,
  });
}

// The class of a device, in fleets that have classes.
function sayClass(devices, n) {
  return devices.class_names ? [["class", devices.class_names[unpack(devices.class)[n]]]] : [];
}

function budgetsOption() {
  const run = theRun();
  if (!run || !run.detail.devices) return null;
  const { devices } = run.detail;
  const [spent, budget, over, edge] = ["spent_j", "budget_j", "over", "edge"].map((key) => unpack(devices[key]));
  const limited = Array.from(budget, (value, n) => [n, value]).filter(([, value]) => Number.isFinite(value));
  const width = Math.max(2, Math.min(16, 900 / spent.length));
  const bars = (late) => Array.from(spent, (value, n) => (Boolean(over[n]) === late ? value : "-"));
  // Patterns are slow to draw, and thin bars show none; the tick of the budget is a cue too.
  const pattern = spent.length > 200 ? {} : { itemStyle: { decal: { color: "rgba(255,255,255,0.6)", ...PART_DECALS.upload } } };
  const bar = { type: "bar", stack: "spent", barCategoryGap: "20%", emphasis: { disabled: true } };
  return {
    describe: "energy spent by every device and its budget",
    key: [
      [box("#0072B2"), "spent, within budget"],
      [box(WARNING, "upload"), "▲ spent, over budget"],
      [box(themed("--text"), "tick"), "budget"],
    ],
    grid: GRID,
    xAxis: axis("device", { type: "category", data: Array.from(spent, (_, n) => String(n)), nameGap: 26, splitLine: { show: false } }),
    yAxis: upright("J", { type: "value" }),
    tooltip: {
      trigger: "axis",
      axisPointer: { type: "shadow" },
      formatter: (at) => {
        const n = at[0].dataIndex;
        const rows = [...sayClass(devices, n), ["spent", make("b", {}, sayJoules(spent[n]))], ["budget", make("b", {}, sayJoules(budget[n]))]];
        if (over[n]) rows.push([marked("▲ over by", "over"), make("b", {}, sayJoules(spent[n] - budget[n]))]);
        return tip(`device ${n}, edge server ${edge[n]}`, rows);
      },
    },
    series: [
      { ...bar, name: "spent, within budget", data: bars(false), color: "#0072B2" },
      { ...bar, name: "spent, over budget", data: bars(true), color: WARNING, ...pattern },
      { type: "scatter", name: "budget", data: limited, symbol: "rect", symbolSize: [width, 3], color: themed("--text"), z: 5 },
    ],
  };
}

function partitionOption() {
  const run = theRun();
  const held = run && run.detail.partition;
  if (!held) return null;
  const [samples, edge] = [unpack(held.samples), unpack(held.edge)];
  const columns = groups(edge.length, MOST_HEAT_ROWS);
  const count = (r, [first, last]) => {
    let sum = 0;
    for (let n = first; n <= last; n++) sum += samples[r * edge.length + n];
    return sum;
  };
  return heatOption({
    rows: Array.from({ length: held.classes }, (_, label) => String(label)),
    columns: columns.map(([first, last]) => (first === last ? String(first) : `${first}–${last}`)),
    cell: (r, c) => count(r, columns[c]) || NaN,
    say: (r, c, value) => {
      const [first, last] = columns[c];
      const who = first === last ? `device ${first}, edge server ${edge[first]}` : `devices ${first} to ${last}`;
      return tip(who, [[`class ${r}`, make("b", {}, plural(value, "sample"))]]);
    },
    sayScale: (v) => sayNumber(v),
    colours: isDark() ? DARK_BLUES : BLUES,
    range: (low, high) => [0, high],
    xName: "device, in the order of edge servers",
    yName: "class",
    describe: "samples of each class on each device; empty where it holds none",
  });
}

function setUpDevices() {
  new Chart("chart-heat", heatDevices);
  new Chart("chart-budgets", budgetsOption);
  new Chart("chart-partition", partitionOption);
  for (const input of document.querySelectorAll("input[name=heat]")) {
    input.addEventListener("change", () => {
      chosen.heat = input.value;
      page.charts["chart-heat"].update();
    });
  }
  byId("cluster").addEventListener("change", (event) => {
    chosen.cluster = event.target.value;
    page.charts["chart-heat"].update();
  });
}

RUN_SECTIONS.push(fillDevices);

function fillDevices(run) {
  const { devices, partition, edges } = run.detail;
  show(byId("devices"), Boolean(devices));
  show(byId("partition"), Boolean(partition));
  if (partition) page.charts["chart-partition"].update();
  if (!devices) return;
  show(byId("heat-trains"), Boolean(devices.trains));
  const options = [make("option", { value: "all" }, "of all edge servers")];
  for (let c = 0; c < edges; c++) options.push(make("option", { value: c }, `of edge server ${c}`));
  byId("cluster").replaceChildren(...options);
  byId("cluster").value = chosen.cluster;
  const over = unpack(devices.over).reduce((sum, flag) => sum + flag, 0);
  const count = unpack(devices.over).length;
  const text = over ? marked(`▲ ${over} of ${count} devices over budget`, "over") : "no device over budget";
  byId("devices-text").replaceChildren(text);
  byId("devices-run").textContent = `of ${runName(run)}`;
  for (const id of ["chart-heat", "chart-budgets"]) page.charts[id].update();
}
