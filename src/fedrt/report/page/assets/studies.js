// Sweeps, fronts and sizings: total time against what was varied, with every number in a table.

const MOST_STUDY_ROWS = 400;

/** The settings that hold numbers can be the horizontal axis; else the first one. */
function axisKeys(study) {
  const numeric = study.keys.map((_, i) => i).filter((i) => study.values[i].every((v) => typeof v === "number"));
  return numeric.length ? numeric : [0];
}

/** The points of a sweep that agree with the values chosen for all settings but the axis. */
function panelPoints(study, state) {
  return study.points.filter((point) =>
    point.settings.every((value, i) => i === state.x || value === study.values[i][state.others[i] || 0]),
  );
}

/** The policies of a study that the viewer has not taken away. */
const shownPolicies = (study, state) => study.policies.filter(({ name }) => !state.hidden.has(name));
// Earlier markers are larger, so that those of equal values show around the later ones.
const markerSize = (place, count) => 8 + Math.min(6, 1.2 * (count - 1 - place));
const OVER_KEY = (words = "some device over its budget") => [ring(), words];

function sweepOption(study, state) {
  const points = panelPoints(study, state);
  const values = study.values[state.x];
  const numeric = values.every((v) => typeof v === "number");
  const policies = shownPolicies(study, state);
  const times = points.flatMap((point) => policies.flatMap(({ name }) => (point.policies[name] ? [point.policies[name].total_time_s.mean] : [])));
  const [unit, size] = timeUnit(Math.max(...times, 0));
  const logarithmic = numeric && Math.min(...values) > 0 && Math.max(...values) >= 5 * Math.min(...values);
  const over = [];
  const place = (point) => (numeric ? point.settings[state.x] : String(point.settings[state.x]));
  const series = policies.map(({ name, style }, i) => {
    const own = points.filter((point) => point.policies[name]);
    own.sort((a, b) => (numeric ? a.settings[state.x] - b.settings[state.x] : 0));
    const data = own.map((point) => [place(point), point.policies[name].total_time_s.mean / size]);
    own.forEach((point, k) => point.policies[name].over_budget_devices.mean && over.push(data[k]));
    const bare = numeric ? {} : { lineStyle: { opacity: 0 } };
    return lineSeries(name, style, data, { symbolSize: markerSize(i, policies.length), ...bare });
  });
  return {
    describe: `total time of ${policies.map((p) => p.name).join(", ")} against ${study.labels[state.x]}`,
    key: over.length ? [OVER_KEY()] : [],
    grid: GRID,
    xAxis: axis(study.labels[state.x], numeric ? { type: logarithmic ? "log" : "value", logBase: 2, scale: true, min: "dataMin", max: "dataMax", nameGap: 26, axisLabel: { formatter: (v) => sayNumber(v, 3) } } : { type: "category", data: values.map(String), nameGap: 26 }),
    yAxis: upright(`total time (${unit})`, { type: "value" }),
    tooltip: { trigger: "item", formatter: (at) => sweepTip(study, state, points.find((point) => place(point) === at.data[0])) },
    series: [...series, overSeries(over)],
  };
}

function sweepTip(study, state, point) {
  const rows = shownPolicies(study, state).filter(({ name }) => point.policies[name]).map(({ name, style }) => {
    const of = point.policies[name];
    return [swatch(style), name, make("b", {}, spreadTime(of.total_time_s)), sayJoules(of.energy_j_mean.mean), sayOver(of, "")];
  });
  return tip(`${study.keys[state.x]} = ${point.settings[state.x]}`, rows);
}

/** The devices over budget at a point and their joules beyond it, or other words if there are none. */
const sayOver = (of, none) =>
  of.over_budget_devices.mean ? marked(`▲ ${sayDevices(of.over_budget_devices)}, ${sayJoules(of.over_budget_j.mean)}`, "over") : none;
const sayDevices = (of) => `${sayCount(of)} device${of.least === 1 && of.most === 1 ? "" : "s"}`;

function frontOption(study, state) {
  const policies = shownPolicies(study, state);
  const all = policies.flatMap(({ name }) => study.points.flatMap((point) => (point.policies[name] ? [point.policies[name]] : [])));
  const [unit, size] = timeUnit(Math.max(...all.map((of) => of.total_time_s.mean), 0));
  const over = [];
  const series = policies.map(({ name, style }, i) => {
    const own = study.points.filter((point) => point.policies[name]);
    const { colour } = look(style);
    const data = own.map((point) => {
      const of = point.policies[name];
      const itemStyle = of.efficient ? { color: colour } : { color: themed("--card"), borderColor: colour, borderWidth: 1.5 };
      return { value: [of.energy_j_mean.mean, of.total_time_s.mean / size], itemStyle, of, budget: point.settings[0] };
    });
    over.push(...data.filter(({ of }) => of.over_budget_devices.mean).map(({ value }) => value));
    return lineSeries(name, style, data, { symbolSize: markerSize(i, policies.length) });
  });
  return {
    describe: "time against energy over budgets; filled points keep every budget and are efficient",
    key: [["●", "efficient: every device within its budget, and no such point is better in time and energy"], ["○", "not efficient"], ...(over.length ? [OVER_KEY()] : [])],
    grid: GRID,
    xAxis: axis("energy of a device over the run, mean over devices (J)", { type: "value", scale: true, nameGap: 26 }),
    yAxis: upright(`total time (${unit})`, { type: "value", scale: true }),
    tooltip: { trigger: "item", formatter: frontTip },
    series: [...series, overSeries(over)],
  };
}

function frontTip(at) {
  const { of, budget } = at.data;
  const rows = [
    ["budget of an edge round", make("b", {}, sayJoules(budget))],
    ["total time", make("b", {}, spreadTime(of.total_time_s))],
    ["energy", make("b", {}, sayJoules(of.energy_j_mean.mean))],
    ["", of.efficient ? "efficient: no other point within budgets beats it" : of.over_budget_devices.mean ? "not efficient: over budget" : "beaten by another"],
  ];
  if (of.over_budget_devices.mean) rows.push([marked("▲ over budget", "over"), sayDevices(of.over_budget_devices)]);
  return tip(at.seriesName, rows);
}

function sizeOption(study) {
  const ran = study.tried.filter((each) => each.times_s.length);
  const [unit, size] = timeUnit(study.deadline_s);
  const { style, name } = study.policies[0];
  const data = ran.map((each) => [each.value, Math.max(...each.times_s) / size]);
  const over = data.filter((_, i) => ran[i].over_devices);
  const deadline = study.deadline_s / size;
  const answer = data.find(([value]) => value === study.value);
  return {
    describe: `total time of ${name} against ${study.labels[0]}, with the deadline`,
    key: [[swatch(style), name], ...(answer ? [[circle(), `the answer, ${sayNumber(study.value, 7)}`]] : []), ...(over.length ? [OVER_KEY()] : [])],
    grid: GRID,
    xAxis: axis(study.labels[0], { type: "value", scale: true, axisLabel: { formatter: (v) => sayNumber(v, 4) } }),
    // The deadline is always in the picture, however far the times are from it.
    yAxis: upright(`total time, slowest seed (${unit})`, { type: "value", scale: true, min: ({ min }) => (min > deadline ? Math.floor(deadline) : null), max: ({ max }) => (max < deadline ? roundUp(1.1 * deadline) : null) }),
    tooltip: {
      trigger: "item",
      formatter: (at) => {
        const each = ran[at.dataIndex];
        const rows = each.times_s.map((time, i) => [`seed no. ${i + 1}`, make("b", {}, sayTime(time))]);
        if (each.over_devices) rows.push([marked("▲ over budget", "over"), plural(each.over_devices, "device")]);
        return tip(`${study.keys[0]} = ${sayNumber(each.value, 7)}`, rows);
      },
    },
    series: [
      lineSeries(name, style, data, {
        symbolSize: 8,
        markLine: { silent: true, symbol: "none", data: [{ yAxis: deadline }], lineStyle: { color: WARNING, type: [6, 4] }, label: { position: "insideEndTop", color: themed("--text"), formatter: `deadline ${sayTime(study.deadline_s)}` } },
        markPoint: { silent: true, symbol: "circle", symbolSize: 24, data: answer ? [{ coord: answer }] : [], itemStyle: { color: "transparent", borderColor: themed("--text"), borderWidth: 2 }, label: { show: false } },
      }),
      overSeries(over),
    ],
  };
}

/** What there is of each kind of study: the name of its section, its chart and its table. */
const STUDY_KINDS = {
  sweep: { words: "Sweep", option: sweepOption, table: pointsTable, several: true },
  front: { words: "Time against energy", option: frontOption, table: pointsTable, several: true },
  size: { words: "Sizing", option: sizeOption, table: sizeTable },
  bound: { words: "Bound", option: boundOption, table: boundTable },
};

/** A select for each varied setting that is not on the axis, and one for the axis itself. */
function sweepControls(study, state, redraw) {
  const pick = (label, options, value, changed) => {
    const select = make("select", {}, ...options.map(([v, text]) => make("option", { value: v }, text)));
    select.value = value;
    select.addEventListener("change", () => changed(Number(select.value)));
    return make("label", {}, `${label} `, select);
  };
  const bar = make("div", { class: "bar" });
  const fill = () => {
    const keys = axisKeys(study);
    const controls = [];
    if (keys.length > 1) controls.push(pick("against", keys.map((i) => [i, study.keys[i]]), state.x, (i) => { state.x = i; fill(); redraw(); }));
    study.keys.forEach((key, i) => {
      if (i === state.x) return;
      const options = study.values[i].map((value, k) => [k, String(value)]);
      controls.push(pick(key, options, state.others[i] || 0, (k) => { state.others[i] = k; redraw(); }));
    });
    bar.replaceChildren(...controls);
  };
  fill();
  return bar;
}

function sizeTable(study, table) {
  const rows = study.tried.map((each) => {
    const best = each.value === study.value;
    const over = each.over_devices ? marked(`▲ ${plural(each.over_devices, "device")}, ${sayJoules(each.over_j)}`, "over") : each.problem ? "" : "none";
    return [best ? marked(sayNumber(each.value, 7), "best") : sayNumber(each.value, 7), each.times_s.map(sayTime).join(", "), over, each.verdict];
  });
  fillTable(table, [study.keys[0], "time on each seed", "over budget", "makes the deadline"], rows);
}

function pointsTable(study, table) {
  const styles = new Map(study.policies.map(({ name, style }) => [name, style]));
  const rows = study.points.flatMap((point) => {
    const settings = point.settings.map((value) => (typeof value === "number" ? sayNumber(value, 6) : value));
    const who = (name) => make("span", {}, swatch(styles.get(name)), name);
    const ran = Object.entries(point.policies).map(([name, of]) => [
      who(name), ...settings, spreadTime(of.total_time_s), sayJoules(of.energy_j_mean.mean), sayOver(of, "–"),
      ...(study.kind === "front" ? [of.efficient ? "efficient" : ""] : []),
    ]);
    return [...ran, ...Object.entries(point.infeasible).map(([name, why]) => [who(name), ...settings, why, "", ""])];
  });
  const head = ["policy", ...study.keys, "time", "energy", "over budget", ...(study.kind === "front" ? [""] : [])];
  fillTable(table, head, rows.slice(0, MOST_STUDY_ROWS));
}

/** The section of one study: its answer in words, its chart, every number, how it was made. */
function studySection(study, number, id) {
  const { words, table: fill, several } = STUDY_KINDS[study.kind];
  const state = chosen.studies[number];
  const redraw = () => page.charts[id].update();
  const policies = study.policies.map((policy) => policy.name);
  const heading = make("h2", {}, `${words}: ${study.scenario}${policies.length === 1 ? `, ${policies[0]}` : ""} `, make("span", { class: "muted" }, study.folder));
  const section = make("section", { id: `study-${number}`, "data-name": words }, heading);
  section.append(make("p", { class: study.over ? "answer over" : "answer" }, study.answer));
  if (study.kind === "sweep" && study.keys.length > 1) section.append(sweepControls(study, state, redraw));
  if (several) {
    const legend = make("div", { class: "legend bar", role: "group", "aria-label": "lines shown" });
    const isOverspent = ({ name }) => study.points.some((point) => point.policies[name] && point.policies[name].over_budget_devices.mean);
    const lines = study.policies.map((policy) => ({ label: policy.name, style: policy.style, over: isOverspent(policy) }));
    fillLegend(legend, lines, state.hidden, redraw, [id]);
    section.append(legend);
    if (lines.some((line) => line.over)) section.append(make("p", { class: "key" }, make("span", {}, marked("▲", "over"), "some device is over its budget at some point")));
  }
  section.append(make("figure", {}, make("div", { id, class: "chart tall" })));
  if (study.note) section.append(make("p", { class: "problems" }, study.note));
  const table = make("table", { class: "cards" });
  fill(study, table);
  section.append(make("details", {}, make("summary", {}, "all numbers"), make("div", { class: "scroll" }, table)));
  if (study.command) section.append(make("p", { class: "muted" }, "the command:"), make("pre", { class: "command" }, study.command));
  if (study.config) section.append(make("details", {}, make("summary", {}, "the config it starts from"), make("pre", {}, study.config)));
  return section;
}

/** A section for each study; those that were there keep what was chosen in them. */
function fillStudies() {
  const charts = [];
  const sections = page.data.studies.flatMap((study, number) => {
    const id = `chart-study-${number}`;
    if (study.kind === "reproduced") return reproducedSections(study, number, charts);
    if (study.kind === "bench") return benchSections(study, number, charts);
    chosen.studies[number] ??= { x: study.kind === "sweep" ? axisKeys(study)[0] : 0, others: {}, hidden: new Set() };
    charts.push([id, () => STUDY_KINDS[study.kind].option(study, chosen.studies[number])]);
    return studySection(study, number, id);
  });
  for (const [id, chart] of Object.entries(page.charts)) if (id.startsWith("chart-study")) chart.dispose();
  byId("studies").replaceChildren(...sections);
  for (const [id, option] of charts) new Chart(id, option);
}
