// The bench: how far above the bound each policy is on each world, and what training says of others.

const sayAbove = (share) => (share === null ? "–" : `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)} %`);

/** How strongly a cell of the matrix is coloured: more, the further above the bound. */
const shadeOf = (share) => Math.min(0.4, 0.16 * Math.log10(1 + 100 * Math.max(0, share)));

/** One point for every policy on every world, worlds from top to bottom. */
function benchOption(study) {
  const worlds = study.worlds.filter((world) => world.scores.some(Boolean));
  const names = worlds.map((world) => (world.bounded ? world.name : `${world.name} *`));
  const least = 0.01;
  const over = [];
  const series = study.policies.map(({ name, style }, i) => {
    const { colour, symbol } = look(style);
    const data = worlds.flatMap((world, k) =>
      world.scores[i] ? [{ value: [Math.max(least, 100 * world.scores[i].mean), names[k]], score: world.scores[i], world }] : [],
    );
    over.push(...data.filter(({ score }) => score.over).map(({ value }) => value));
    return { type: "scatter", name, data, symbol, symbolSize: 11, itemStyle: { color: colour, borderColor: themed("--card"), borderWidth: 1 } };
  });
  return {
    describe: `percent above the bound of ${study.policies.map((p) => p.name).join(", ")} on ${plural(worlds.length, "world")}`,
    key: [...study.policies.map(({ name, style }) => [swatch(style), name]), ...(over.length ? [OVER_KEY("some device over its energy limit")] : [])],
    grid: { left: 112, right: 22, top: 12, bottom: 48 },
    xAxis: axis("percent above the bound", { type: "log", min: least, axisLabel: { formatter: (v) => sayNumber(v, 2) } }),
    yAxis: axis("", { type: "category", data: names, inverse: true, axisLabel: { hideOverlap: false } }),
    tooltip: {
      trigger: "item",
      formatter: (at) => {
        const { score, world } = at.data;
        const rows = [[world.bounded ? "above the bound" : "above the quickest", sayAbove(score.mean)], ["by seed", `${sayAbove(score.least)} to ${sayAbove(score.most)}`], ["place", String(score.rank)]];
        if (score.over) rows.push(["▲", "over an energy limit"]);
        return tip(`${at.seriesName}, ${world.name}`, rows);
      },
    },
    series: [...series, overSeries(over)],
  };
}

function benchSummary(study) {
  const table = make("table", { class: "cards" });
  const rows = study.policies.map((each) => [
    make("span", {}, swatch(each.style), each.name),
    sayAbove(each.mean), sayAbove(each.most), each.most_on ?? "–", each.worlds, each.first,
    each.over_worlds ? marked(`▲ on ${plural(each.over_worlds, "world")}`, "over") : "none",
    each.energy === null ? "–" : sayAbove(each.energy - 1),
  ]);
  fillTable(table, ["policy", "above the bound, mean", "most", "on", "worlds", "first on", "over budget", "energy against fedrt"], rows);
  return table;
}

/** The matrix of worlds and policies; the further above the bound, the stronger a cell's colour. */
function benchMatrix(study) {
  const table = make("table", { class: "bench cards" });
  const rows = study.worlds.map((world) => [
    make("span", { title: world.description }, world.bounded ? world.name : `${world.name} *`),
    ...world.scores.map((score) => {
      if (!score) return marked("–", "muted");
      const text = `${(100 * score.mean).toFixed(1)}${score.over ? " ▲" : ""}`;
      const cell = make("span", { class: score.over ? "over" : score.rank === 1 ? "best" : "" }, text);
      cell.style.setProperty("--shade", `${Math.round(100 * shadeOf(score.mean))}%`);
      return cell;
    }),
  ]);
  fillTable(table, ["world", ...study.policies.map((each) => each.name)], rows);
  return table;
}

function benchNumbers(study) {
  const table = make("table", { class: "cards" });
  const rows = study.worlds.flatMap((world) =>
    world.rows.map((each) => [
      world.name, each.name, each.above === null ? "–" : sayAbove(each.above), sayJoules(each.energy_j),
      each.over_j ? marked(`▲ ${sayNumber(each.over_devices, 3)} devices, ${sayJoules(each.over_j)}`, "over") : "none",
      each.work.join(", ") || "the same",
    ]),
  );
  fillTable(table, ["world", "policy", "above", "energy of a device", "over budget", "work"], rows);
  return table;
}

/** The trained time of a policy to an accuracy: its mean over seeds, or why there is none. */
function sayTrained(found) {
  if (!found) return "not trained";
  const reached = found.time_s.filter((time) => time !== null);
  if (!reached.length) return "never";
  if (reached.length < found.time_s.length) return `on ${reached.length} of ${plural(found.time_s.length, "seed")} only`;
  return sayTime(reached.reduce((sum, time) => sum + time, 0) / reached.length);
}

function benchOthers(study, number) {
  const table = make("table", { class: "texts cards" });
  const head = ["policy", "what is different", ...study.subsets.map(({ name, accuracy }) => `${name} to ${sayNumber(100 * accuracy, 3)} %`)];
  fillTable(table, head, study.others.map((each) => [each.name, each.work.join(", ") || "nothing", ...each.times.map(sayTrained)]));
  return make("section", { id: `study-${number}-others`, "data-name": "Other work" },
    make("h2", {}, "Policies that do other work on some world"),
    make("p", {}, "They leave devices, steps or links out, or send fewer bits. A bound on all the work is not about them: they are ranked by the simulated time that training took to reach an accuracy, beside trained policies that do the same work."),
    make("div", { class: "scroll" }, table),
  );
}

function benchLearned(study, number) {
  const table = make("table", { class: "cards" });
  const rows = study.learned.map((each) => [
    each.name, `${each.world}, ${plural(each.seeds, "unseen seed")}`, sayTime(each.time_s),
    each.over_j ? marked(`▲ ${sayJoules(each.over_j)}${"fedrt-plus" in each.over_beside ? ` (fedrt-plus ${sayJoules(each.over_beside["fedrt-plus"])})` : ""}`, "over") : "none",
    Object.entries(each.against).map(([name, share]) => `${sayAbove(share)} against ${name}`).join(", "),
  ]);
  fillTable(table, ["policy", "world", "time", "over budget", "time against others"], rows);
  return make("section", { id: `study-${number}-learned`, "data-name": "Learned" },
    make("h2", {}, "Learned policies"),
    make("p", {}, "Each on a world and on seeds of its own, which it had not seen in training."),
    make("div", { class: "scroll" }, table),
  );
}

/** What the bench says of `fedrt-plus`, in a sentence. */
function benchSentence(study) {
  if (!study.standing.length) return "";
  const behind = study.standing.filter((each) => !each.near);
  const words = `fedrt-plus is first or within 1 % of the first among policies of the same work on ${study.standing.length - behind.length} of ${plural(study.standing.length, "world")}`;
  return behind.length ? `${words}; not on ${behind.map((each) => `${each.world} (${sayAbove(each.behind)} behind ${each.first})`).join(", ")}.` : `${words}.`;
}

/** Every section of a bench; what is to be drawn in them goes to `charts`. */
function benchSections(study, number, charts) {
  const id = `chart-study-${number}`;
  const section = make("section", { id: `study-${number}`, "data-name": "Bench" },
    make("h2", {}, "Bench ", make("span", { class: "muted" }, study.folder)),
    make("p", { class: "answer" }, benchSentence(study)),
    make("div", { class: "scroll" }, benchSummary(study)),
  );
  if (study.policies.length) {
    charts.push([id, () => benchOption(study)]);
    section.append(
      make("figure", {}, make("figcaption", {}, "Time above a bound that no plan of the same work undercuts within fedrt's contraction and energy"), make("div", { id, class: "chart tall" })),
      make("p", { class: "muted" }, `Means of ${plural(study.seeds, "seed")}. * has no bound to hold policies against: ${study.worlds.filter((w) => !w.bounded).map((w) => `${w.name}, ${w.why}`).join("; ") || "none"}; its scores are above the quickest policy. ▲ spends more on some device than its budget, or than fedrt where that cannot keep it. – did other work there. Points below 0.01 % are drawn there.`),
      make("div", { class: "scroll" }, benchMatrix(study)),
    );
  }
  section.append(make("details", {}, make("summary", {}, "all numbers"), make("div", { class: "scroll" }, benchNumbers(study))));
  if (study.command) section.append(make("p", { class: "muted" }, "the command:"), make("pre", { class: "command" }, study.command));
  return [section, ...(study.others.length ? [benchOthers(study, number)] : []), ...(study.learned.length ? [benchLearned(study, number)] : [])];
}
