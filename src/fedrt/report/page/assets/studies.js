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

function sweepOption(study, state) {
  const points = panelPoints(study, state);
  const values = study.values[state.x];
  const numeric = values.every((v) => typeof v === "number");
  const times = points.flatMap((point) => Object.values(point.policies).map((p) => p.total_time_s.mean));
  const [unit, size] = timeUnit(Math.max(...times, 0));
  const logarithmic = numeric && Math.min(...values) > 0 && Math.max(...values) >= 5 * Math.min(...values);
  const series = study.policies.map(({ name, style }) => {
    const own = points.filter((point) => point.policies[name]);
    own.sort((a, b) => (numeric ? a.settings[state.x] - b.settings[state.x] : 0));
    const data = own.map((p) => [numeric ? p.settings[state.x] : String(p.settings[state.x]), p.policies[name].total_time_s.mean / size]);
    const bare = numeric ? {} : { lineStyle: { opacity: 0 } };
    return lineSeries(name, style, data, { symbolSize: 9, ...bare });
  });
  return {
    describe: `total time of ${study.policies.map((p) => p.name).join(", ")} against ${study.labels[state.x]}`,
    grid: { ...GRID, bottom: 76 },
    legend: { bottom: 0, type: "scroll", textStyle: { color: themed("--text") } },
    xAxis: axis(study.labels[state.x], numeric ? { type: logarithmic ? "log" : "value", logBase: 2, scale: true, min: "dataMin", max: "dataMax", nameGap: 26, axisLabel: { formatter: (v) => sayNumber(v, 3) } } : { type: "category", data: values.map(String), nameGap: 26 }),
    yAxis: upright(`total time (${unit})`, { type: "value" }),
    tooltip: {
      trigger: "item",
      formatter: (at) => {
        const x = at.data[0];
        const point = points.find((p) => (numeric ? p.settings[state.x] : String(p.settings[state.x])) === x);
        const rows = study.policies.filter(({ name }) => point.policies[name]).map(({ name, style }) => {
          const of = point.policies[name];
          return [swatch(style), name, make("b", {}, spreadTime(of.total_time_s)), sayJoules(of.energy_j_mean.mean)];
        });
        return tip(`${study.keys[state.x]} = ${x}`, rows);
      },
    },
    series,
  };
}

function frontOption(study) {
  const all = study.points.flatMap((point) => Object.values(point.policies));
  const [unit, size] = timeUnit(Math.max(...all.map((of) => of.total_time_s.mean), 0));
  const series = study.policies.map(({ name, style }) => {
    const own = study.points.filter((point) => point.policies[name]);
    const { colour, symbol } = look(style);
    const data = own.map((point) => {
      const of = point.policies[name];
      const itemStyle = of.efficient ? { color: colour } : { color: themed("--card"), borderColor: colour, borderWidth: 1.5 };
      return { value: [of.energy_j_mean.mean, of.total_time_s.mean / size], itemStyle, of, budget: point.settings[0] };
    });
    return lineSeries(name, style, data, { symbolSize: 9, symbol });
  });
  return {
    describe: "time against energy over budgets; filled points keep every budget and are efficient",
    grid: { ...GRID, bottom: 76 },
    legend: { bottom: 0, type: "scroll", textStyle: { color: themed("--text") } },
    xAxis: axis("energy of a device over the run, mean over devices (J)", { type: "value", scale: true, nameGap: 26 }),
    yAxis: upright(`total time (${unit})`, { type: "value", scale: true }),
    tooltip: {
      trigger: "item",
      formatter: (at) => {
        const { of, budget } = at.data;
        const rows = [
          ["budget of an edge round", make("b", {}, sayJoules(budget))],
          ["total time", make("b", {}, spreadTime(of.total_time_s))],
          ["energy", make("b", {}, sayJoules(of.energy_j_mean.mean))],
          ["", of.efficient ? "efficient: no other point within budgets beats it" : of.over_budget_devices.mean ? "not efficient: over budget" : "beaten by another"],
        ];
        if (of.over_budget_devices.mean) rows.push([marked("▲ devices over budget", "over"), sayCount(of.over_budget_devices)]);
        return tip(at.seriesName, rows);
      },
    },
    series,
  };
}

function sizeOption(study) {
  const ran = study.tried.filter((each) => each.times_s.length);
  const [unit, size] = timeUnit(study.deadline_s);
  const { style, name } = study.policies[0];
  const data = ran.map((each) => [each.value, Math.max(...each.times_s) / size]);
  return {
    describe: `total time of ${name} against ${study.labels[0]}, with the deadline`,
    grid: GRID,
    xAxis: axis(study.labels[0], { type: "value", scale: true, axisLabel: { formatter: (v) => sayNumber(v, 4) } }),
    yAxis: upright(`total time, slowest seed (${unit})`, { type: "value", scale: true }),
    tooltip: {
      trigger: "item",
      formatter: (at) => {
        const each = ran[at.dataIndex];
        return tip(`${study.keys[0]} = ${sayNumber(each.value, 7)}`, each.times_s.map((time, i) => [`seed no. ${i + 1}`, make("b", {}, sayTime(time))]));
      },
    },
    series: [
      lineSeries(name, style, data, {
        symbolSize: 8,
        markLine: { silent: true, symbol: "none", data: [{ yAxis: study.deadline_s / size }], lineStyle: { color: WARNING, type: [6, 4] }, label: { position: "insideEndTop", color: themed("--text"), formatter: `deadline ${sayTime(study.deadline_s)}` } },
        markPoint: { silent: true, symbol: "circle", symbolSize: 20, data: [{ coord: data.find(([value]) => value === study.answer) || data[0] }], itemStyle: { color: "transparent", borderColor: themed("--text"), borderWidth: 2 } },
      }),
    ],
  };
}

const STUDY_OPTIONS = { sweep: sweepOption, front: frontOption, size: sizeOption };
const STUDY_WORDS = { sweep: "Sweep", front: "Time against energy", size: "Sizing" };

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

function studyTable(study) {
  const table = make("table");
  if (study.kind === "size") {
    const rows = study.tried.map((each) => {
      const best = each.value === study.answer;
      const over = each.over_devices ? marked(`▲ ${sayNumber(each.over_devices, 3)} devices, ${sayJoules(each.over_j)}`, "over") : each.problem ? "" : "none";
      return [best ? marked(sayNumber(each.value, 7), "best") : sayNumber(each.value, 7), each.times_s.map(sayTime).join(", "), over, each.verdict];
    });
    fillTable(table, [study.keys[0], "time on each seed", "over budget", "makes the deadline"], rows);
    return table;
  }
  const rows = study.points.flatMap((point) => {
    const settings = point.settings.map((value) => (typeof value === "number" ? sayNumber(value, 6) : value));
    const ran = Object.entries(point.policies).map(([name, of]) => [
      ...settings, name, spreadTime(of.total_time_s), sayJoules(of.energy_j_mean.mean),
      of.over_budget_devices.mean ? marked(`${sayCount(of.over_budget_devices)} devices, ${sayJoules(of.over_budget_j.mean)}`, "over") : "–",
      ...(study.kind === "front" ? [of.efficient ? "efficient" : ""] : []),
    ]);
    return [...ran, ...Object.entries(point.infeasible).map(([name, why]) => [...settings, name, why, "", ""])];
  });
  const head = [...study.keys, "policy", "time", "energy", "over budget", ...(study.kind === "front" ? [""] : [])];
  fillTable(table, head, rows.slice(0, MOST_STUDY_ROWS));
  return table;
}

/** A section for each study; those that were there keep what was chosen in them. */
function fillStudies() {
  const charts = [];
  const sections = page.data.studies.flatMap((study, number) => {
    const id = `chart-study-${number}`;
    if (study.kind === "reproduced") return reproducedSections(study, number, charts);
    if (study.kind === "bench") return benchSections(study, number, charts);
    charts.push([id, () => STUDY_OPTIONS[study.kind](study, chosen.studies[number])]);
    const state = (chosen.studies[number] ??= { x: study.kind === "sweep" ? axisKeys(study)[0] : 0, others: {} });
    const heading = make("h2", {}, `${STUDY_WORDS[study.kind]}: ${study.scenario}${study.kind === "size" ? `, ${study.policies[0].name}` : ""} `, make("span", { class: "muted" }, study.folder));
    const chart = make("div", { id, class: "chart tall" });
    const figure = make("figure", {}, chart);
    const section = make("section", { id: `study-${number}`, "data-name": STUDY_WORDS[study.kind] }, heading);
    if (study.kind === "sweep" && study.keys.length > 1) section.append(sweepControls(study, state, () => page.charts[id].update()));
    if (study.sentence) section.append(make("p", { class: study.over ? "answer over" : "answer" }, study.sentence));
    section.append(figure);
    if (study.note) section.append(make("p", { class: "problems" }, study.note));
    section.append(make("details", {}, make("summary", {}, "all numbers"), make("div", { class: "scroll" }, studyTable(study))));
    if (study.command) section.append(make("p", { class: "muted" }, "the command:"), make("pre", { class: "command" }, study.command));
    if (study.config) section.append(make("details", {}, make("summary", {}, "the config it starts from"), make("pre", {}, study.config)));
    return section;
  });
  for (const [id, chart] of Object.entries(page.charts)) if (id.startsWith("chart-study")) chart.dispose();
  byId("studies").replaceChildren(...sections);
  for (const [id, option] of charts) new Chart(id, option);
}
