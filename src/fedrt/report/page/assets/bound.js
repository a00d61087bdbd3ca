// A bound: a time that no plan of the same work and limits undercuts, and each policy's time beside it.

function boundOption(study) {
  const times = [...study.bounds, ...study.policies].map((each) => each.time_s.mean);
  const [unit, size] = timeUnit(Math.max(...times));
  const names = study.policies.map(({ name, outside }) => (outside ? `▲ ${name}` : name));
  const lines = study.bounds.map(({ name, time_s: time }, i) => ({
    xAxis: time.mean / size,
    lineStyle: { color: themed("--text"), type: BOUND_DASHES[i], width: 2 },
  }));
  const key = study.bounds.map(({ name, time_s: time }, i) => [stroke(themed("--text"), 2, BOUND_DASHES[i]), `${name}, ${spreadTime(time)}${i ? ": of policies that choose codecs" : ""}`]);
  if (study.policies.some((policy) => policy.outside)) key.push([marked("▲", "over"), "outside the bound's limits: the bound does not hold for it"]);
  return {
    describe: `total time of ${study.policies.map((policy) => policy.name).join(", ")} and the bound`,
    key,
    grid: { ...GRID, left: 8, top: 12, bottom: 44, containLabel: true },
    xAxis: axis(`total time (${unit})`, { type: "value", min: 0 }),
    yAxis: axis("", { type: "category", inverse: true, data: names, axisLabel: { color: themed("--text"), width: 130, overflow: "truncate" } }),
    tooltip: {
      trigger: "item",
      formatter: (at) => {
        const policy = study.policies[at.dataIndex];
        const rows = [["time", make("b", {}, spreadTime(policy.time_s))], ["above its bound", make("b", {}, sayAboveBound(policy))], ["energy", sayJoules(policy.energy_j.mean)]];
        if (policy.outside) rows.push([marked("▲ outside the limits", "over"), policy.outside]);
        return tip(policy.name, rows);
      },
    },
    series: [
      {
        type: "bar",
        name: "total time",
        data: study.policies.map(({ style, time_s: time }) => ({ value: time.mean / size, itemStyle: { color: look(style).colour } })),
        barMaxWidth: 30,
        emphasis: { disabled: true },
        markLine: { silent: true, symbol: "none", label: { show: false }, data: lines },
      },
    ],
  };
}

const BOUND_DASHES = [[6, 4], [2, 3]];
const sayAboveBound = ({ above }) => spreadPercent(above);

function boundTable(study, table) {
  const rows = study.bounds.map(({ name, time_s: time }) => [marked(name, "best"), spreadTime(time), "", "", ""]);
  for (const policy of study.policies) {
    rows.push([
      make("span", {}, swatch(policy.style), policy.name), spreadTime(policy.time_s), sayAboveBound(policy), sayJoules(policy.energy_j.mean),
      policy.outside ? marked(`▲ ${policy.outside}`, "over") : "–",
    ]);
  }
  fillTable(table, ["policy", "time", "above its bound", "energy", "outside the limits"], rows);
}
