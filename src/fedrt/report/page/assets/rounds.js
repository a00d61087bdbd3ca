// One run round by round: where each cluster's time went, and the slider over it and the graph.

const MOST_BARS = 24;
// What fills the sections about one run; each shows its section if the run has data for it.
const RUN_SECTIONS = [];

const detailedRuns = () => page.data.runs.filter((run) => run.detail);
const theRun = () => detailedRuns()[chosen.run];
const runName = (run) => {
  const line = page.data.lines[run.line];
  return line.seeds.length > 1 || page.data.lines.length === 1 ? `${line.label}, seed ${run.seed}` : line.label;
};

/** Seconds of the parts of each cluster, in the chosen round or in all, and the last to finish. */
function clustersNow() {
  const { clusters, edges } = theRun().detail;
  const names = clusters.names || PARTS;
  const size = edges * names.length;
  const whole = chosen.span === "whole";
  const parts = whole ? unpack(clusters.whole) : unpack(clusters.parts).subarray(chosen.round * size, (chosen.round + 1) * size);
  return { names, parts, edges, slowest: leastWaiting(parts, edges) };
}

/** The edge server that waits least; one that was not there has no parts. */
function leastWaiting(parts, edges) {
  let [slowest, least] = [0, Infinity];
  const width = parts.length / edges;
  for (let c = 0; c < edges; c++) {
    const waiting = parts[width * (c + 1) - 1];
    if (waiting < least) [slowest, least] = [c, waiting];
  }
  return slowest;
}

/** The cluster that the others wait for in the chosen round; none if that is not known. */
function slowestNow() {
  const { clusters, edges } = theRun().detail;
  if (!clusters) return -1;
  const size = edges * (clusters.names || PARTS).length;
  return leastWaiting(unpack(clusters.parts).subarray(chosen.round * size, (chosen.round + 1) * size), edges);
}

/** The bars to show: all clusters, or those that take longest where there are many. */
function barsNow() {
  const { names, parts, edges, slowest } = clustersNow();
  const width = names.length;
  let order = Array.from({ length: edges }, (_, c) => c);
  if (edges > MOST_BARS) {
    const waiting = (c) => (Number.isNaN(parts[width * (c + 1) - 1]) ? Infinity : parts[width * (c + 1) - 1]);
    order.sort((a, b) => waiting(a) - waiting(b) || a - b);
    order = order.slice(0, MOST_BARS);
  }
  return { names, width, parts, edges, slowest, order };
}

function clustersContent() {
  const { names, width, parts, edges, slowest, order } = barsNow();
  const total = names.reduce((sum, _, k) => sum + parts[width * slowest + k], 0);
  const [unit, size] = timeUnit(total);
  const whole = chosen.span === "whole";
  return {
    xAxis: { name: `seconds of ${whole ? "the run" : "the round"}`.replace("seconds", unit === "s" ? "seconds" : `time (${unit})`) },
    yAxis: { data: order.map((c) => (c === slowest && edges > 1 ? `▶ ${c}` : String(c))) },
    series: names.map((part, k) => ({ id: part, data: order.map((c) => (Number.isNaN(parts[width * c + k]) ? "-" : parts[width * c + k] / size)) })),
  };
}

function clustersOption() {
  if (!theRun() || !theRun().detail.clusters) return null;
  const content = clustersContent();
  const names = theRun().detail.clusters.names || PARTS;
  return {
    describe: `time of each cluster on ${sayList(names)}`,
    key: names.map(partKey),
    grid: { left: 10, right: 16, top: 24, bottom: 40, containLabel: true },
    xAxis: axis(content.xAxis.name, { type: "value", nameGap: 26 }),
    yAxis: upright("edge server", { type: "category", inverse: true, nameLocation: "start", nameTextStyle: { color: themed("--muted"), align: "left", padding: 0 }, axisLabel: { color: themed("--text") }, data: content.yAxis.data }),
    tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, formatter: clustersTip },
    series: content.series.map(({ id, data }) => ({ id, ...partSeries(id, data) })),
  };
}

function clustersTip(at) {
  const { names, width, parts, order, slowest } = barsNow();
  const c = order[at[0].dataIndex];
  const own = names.map((_, k) => parts[width * c + k]);
  const total = own.reduce((a, b) => a + b, 0);
  const rows = names.map((part, k) => [part, make("b", {}, sayTime(own[k])), sayPercent(own[k] / total, 1)]);
  return tip(`edge server ${c}${c === slowest ? ", the last to finish" : ""}`, rows);
}

function stackedOption() {
  const run = theRun();
  if (!run || !run.detail.clusters) return null;
  const { bins, stacked } = run.detail.clusters;
  const [first, last, parts] = [unpack(bins.first), unpack(bins.last), unpack(stacked)];
  const all = run.detail.clusters.names || PARTS;
  const [width, names] = [all.length, all.slice(0, -1)];
  const totals = Array.from(first, (_, i) => all.reduce((sum, _, k) => sum + parts[width * i + k], 0));
  const [unit, size] = timeUnit(Math.max(...totals));
  return {
    describe: "time of each round, split into the parts of its slowest cluster",
    key: names.map(partKey),
    grid: GRID,
    xAxis: axis("global round", { type: "category", data: Array.from(first, String), splitLine: { show: false }, nameGap: 26 }),
    yAxis: upright(unit, { type: "value" }),
    tooltip: {
      trigger: "axis",
      axisPointer: { type: "shadow" },
      formatter: (at) => {
        const i = at[0].dataIndex;
        const rows = names.map((part, k) => [part, make("b", {}, sayTime(parts[width * i + k])), sayPercent(parts[width * i + k] / totals[i], 1)]);
        const mean = first[i] === last[i] ? "" : ", mean";
        return tip(`${sayRounds(first[i], last[i])}${mean}: ${sayTime(totals[i])}`, rows);
      },
    },
    series: names.map((part, k) =>
      partSeries(part, Array.from(first, (_, i) => parts[width * i + k] / size), { barMaxWidth: 30, barCategoryGap: first.length > 60 ? 0 : "15%", large: true }),
    ),
  };
}

/** Everything that the slider moves. */
function drawRound() {
  const run = theRun();
  const { detail } = run;
  const rounds = unpack(detail.rounds);
  const [time, ends] = [unpack(detail.round_time_s), unpack(detail.ends_at_s)];
  const t = rounds[chosen.round];
  const some = rounds.length < run.done ? ` (${rounds.length} of ${run.done} are in the page)` : "";
  const text = `round ${t} of ${run.rounds}: ${sayTime(time[chosen.round])}, ends at ${sayTime(ends[chosen.round])}${some}`;
  byId("round-text").textContent = text;
  byId("round").setAttribute("aria-valuetext", text);
  if (detail.links) {
    page.charts["chart-graph"].change(graphContent());
    fillGraphKey();
    fillLinksTable();
  }
}

/** The other half of it, a frame later, so that neither holds up the slider. */
function drawRoundClusters() {
  const { clusters } = theRun().detail;
  if (clusters && chosen.span === "round") page.charts["chart-clusters"].change(clustersContent());
}

function fillClustersKey() {
  const { clusters, edges } = theRun().detail;
  if (!clusters || edges < 2) return;
  const last = unpack(clusters.last);
  let most = 0;
  for (let c = 0; c < edges; c++) if (last[c] > last[most]) most = c;
  const rounds = plural(theRun().done, "round");
  const often = last[most] > 1 || theRun().done === 1
    ? `Over the run, edge server ${most} was the last to finish most often: in ${last[most]} of ${rounds}.`
    : `Over the run no edge server was the last to finish more than once in ${rounds}.`;
  const cut = edges > MOST_BARS ? ` The ${MOST_BARS} slowest of ${edges} are shown.` : "";
  byId("clusters-key").textContent =
    `▶ all others wait for this one. ${often}${cut}`;
}

let sliding = false;

function slideTo(place) {
  const most = unpack(theRun().detail.rounds).length - 1;
  chosen.round = Math.max(0, Math.min(most, place));
  byId("round").value = chosen.round;
  if (sliding) return;
  sliding = true;
  requestAnimationFrame(slideOn);
}

/** Draw the chosen round in two frames, and again if another one has been chosen meanwhile. */
function slideOn() {
  const { round } = chosen;
  drawRound();
  requestAnimationFrame(() => {
    drawRoundClusters();
    sliding = chosen.round !== round;
    if (sliding) requestAnimationFrame(slideOn);
  });
}

function setUpRounds() {
  new Chart("chart-graph", graphOption);
  new Chart("chart-clusters", clustersOption);
  new Chart("chart-stacked", stackedOption);
  byId("round").addEventListener("input", (event) => slideTo(Number(event.target.value)));
  byId("back").addEventListener("click", () => slideTo(chosen.round - 1));
  byId("forth").addEventListener("click", () => slideTo(chosen.round + 1));
  byId("run").addEventListener("change", (event) => {
    chosen.run = Number(event.target.value);
    chosen.cluster = "all";
    fillRun();
  });
  byId("links-details").addEventListener("toggle", fillLinksTable);
  for (const input of document.querySelectorAll("input[name=span]")) {
    input.addEventListener("change", () => {
      chosen.span = input.value;
      page.charts["chart-clusters"].update();
    });
  }
}

/** Fit the controls to the data; a slider at its end stays there as rounds are added. */
function fillRounds() {
  const runs = detailedRuns();
  show(byId("rounds"), runs.length > 0);
  if (!runs.length) return;
  chosen.run = Math.min(chosen.run, runs.length - 1);
  byId("run").replaceChildren(...runs.map((run, i) => make("option", { value: i }, runName(run))));
  byId("run").value = chosen.run;
}

/** Show the chosen run in every chart that is about one run. */
function fillRun() {
  const run = theRun();
  if (!run) return;
  const most = unpack(run.detail.rounds).length - 1;
  const slider = byId("round");
  const atEnd = chosen.round >= Number(slider.max);
  slider.max = most;
  chosen.round = atEnd ? most : Math.min(chosen.round, most);
  slider.value = chosen.round;
  show(byId("graph-figure"), Boolean(run.detail.links));
  show(byId("clusters-figure"), Boolean(run.detail.clusters));
  show(byId("stacked-figure"), Boolean(run.detail.clusters));
  for (const id of ["chart-graph", "chart-clusters", "chart-stacked"]) page.charts[id].update();
  drawRound();
  fillClustersKey();
  for (const fillSection of RUN_SECTIONS) fillSection(run);
}
