// The paper's table and figures made again: our numbers beside the paper's, and the curves.

const fixed = (value, digits) => (value === null || value === undefined ? "" : value.toFixed(digits));
const ours = (of, digits, scale = 1) =>
  fixed(of.mean * scale, digits) + (of.n > 1 ? ` ± ${fixed(of.std * scale, digits)}` : "");
const ratio = (of) => (of.paper === null ? "" : fixed(of.mean / of.paper, 2));

/** Whether the paper's accuracy was reached, and when. */
function sayReached(row) {
  const { reached } = row;
  if (!reached) return "";
  if (!reached.seeds) return "never";
  const of = row.seeds.length;
  const some = reached.seeds < of ? ` (${reached.seeds} of ${plural(of, "seed")})` : "";
  return `${fixed(reached.time_h, 2)} h, ${fixed(reached.energy_j, 1)} J${some}`;
}

/** The cells of one row: time, energy, accuracy and saving, each with the paper's before ours.
 *  A row of fewer seeds than the column's says so. */
function reproducedCells(row, column) {
  const fewer = row.seeds.length < column.seeds.length;
  const name = fewer ? `${row.policy} (${row.seeds.length > 1 ? "seeds" : "seed"} ${row.seeds.join(" ")})` : row.policy;
  const { time_h: time, energy_j: energy, accuracy_percent: accuracy, saving } = row;
  const apart = accuracy.paper === null ? NaN : accuracy.mean - accuracy.paper;
  return [
    make("span", {}, swatch(row.style), name),
    fixed(time.paper, 2), ours(time, 2), ratio(time),
    fixed(energy.paper, 1), ours(energy, 1), ratio(energy),
    fixed(accuracy.paper, 2), ours(accuracy, 2),
    Number.isNaN(apart) ? "" : `${apart < 0 ? "−" : "+"}${fixed(Math.abs(apart), 2)}`,
    saving && saving.paper !== null ? `${fixed(100 * saving.paper, 1)} %` : "",
    saving ? `${ours(saving, 1, 100)} %` : "",
    sayReached(row),
  ];
}

// The names of the numbers in a row, where it is a card and its column has no head.
const REPRODUCED = ["method", "hours in the paper", "hours, ours", "ratio", "joules in the paper", "joules, ours", "ratio", "accuracy in the paper", "accuracy, ours", "apart", "FedRT saves in the paper", "FedRT saves, ours", "to the paper's accuracy"];

function reproducedTable(study) {
  const table = make("table", { class: "reproduced cards" });
  const th = (text, span = {}) => make("th", span, text);
  const wide = (text, columns) => th(text, { colspan: columns, scope: "colgroup", class: "group" });
  table.append(
    make("thead", {},
      make("tr", {}, th("method", { rowspan: 2 }), wide("time (h)", 3), wide("energy (J)", 3), wide("best accuracy (%)", 3), wide("FedRT saves", 2), th("to the paper's accuracy", { rowspan: 2 })),
      make("tr", {}, ...["paper", "ours", "ratio", "paper", "ours", "ratio", "paper", "ours", "apart", "paper", "ours"].map((text) => th(text))),
    ),
  );
  for (const column of study.columns) {
    const title = `${column.title}: ${plural(column.rounds, "round")}, ${plural(column.seeds.length, "seed")}`;
    const rows = column.rows.map((row) => make("tr", {}, ...reproducedCells(row, column).map((cell, i) => make("td", { "data-label": REPRODUCED[i] }, cell))));
    table.append(make("tbody", {}, make("tr", {}, th(title, { colspan: 13, scope: "rowgroup", class: "title" })), ...rows));
  }
  return table;
}

/** Radio buttons in a row; `changed` gets the value chosen. */
function choice(label, name, options, value, changed) {
  const inputs = options.map(([each, text]) => {
    const input = make("input", { type: "radio", name, value: each });
    input.checked = each === value;
    input.addEventListener("change", () => changed(each));
    return make("label", {}, input, make("span", {}, text));
  });
  return make("div", { class: "choice", role: "radiogroup", "aria-label": label }, ...inputs);
}

const figureOf = (id, caption, wide = false) =>
  make("figure", wide ? { class: "wide" } : {}, make("figcaption", {}, caption), make("div", { id, class: "chart" }));

/** Loss, accuracy and energy of all policies in the chosen column. */
function convergence(study, number, state, charts) {
  const ids = ["accuracy", "loss", "energy"].map((name) => `chart-study-${number}-${name}`);
  const redraw = () => ids.forEach((id) => page.charts[id].update());
  const column = () => study.columns[state.column];
  const lines = () => column().lines.filter((line) => !state.hidden.has(line.label));
  const level = () =>
    column().paper_accuracy === null ? null : { value: column().paper_accuracy, text: "FedRT's in the paper" };
  charts.push(
    [ids[0], () => curveOption("accuracy", lines(), state.axis, level())],
    [ids[1], () => curveOption("loss", lines(), state.axis)],
    [ids[2], () => curveOption("energy_j_mean", lines(), "round")],
  );
  const legend = make("div", { class: "legend", role: "group", "aria-label": "lines shown" });
  const fill = () => fillLegend(legend, column().lines, state.hidden, redraw, ids);
  fill();
  const select = make("select", {}, ...study.columns.map((each, i) => make("option", { value: i }, each.title)));
  select.value = state.column;
  select.addEventListener("change", () => {
    state.column = Number(select.value);
    fill();
    redraw();
  });
  const axes = [["time_s", "simulated time"], ["round", "rounds"]];
  const along = choice("horizontal axis", `axis-${number}`, axes, state.axis, (axis) => {
    state.axis = axis;
    redraw();
  });
  return make("section", { id: `study-${number}-curves`, "data-name": "Convergence" },
    make("h2", {}, "Convergence and energy"),
    make("div", { class: "bar" }, make("label", {}, "setting ", select), legend, along),
    make("div", { class: "grid" },
      figureOf(ids[0], "Test accuracy of the average model"),
      figureOf(ids[1], "Training loss"),
      figureOf(ids[2], "Energy spent by a device, mean over devices", true),
    ),
  );
}

/** Accuracy by round in a panel for each data set, with one legend for all. */
function accuracyGroup(group, place, number, state, charts) {
  const hidden = (state.groups[place] ??= new Set());
  const ids = group.panels.map((_, i) => `chart-study-${number}-${place}-${i}`);
  const all = new Map(group.panels.flatMap((panel) => panel.lines.map((line) => [line.label, line])));
  const legend = make("div", { class: "legend", role: "group", "aria-label": "lines shown" });
  fillLegend(legend, Array.from(all.values()), hidden, () => ids.forEach((id) => page.charts[id].update()), ids);
  group.panels.forEach((panel, i) => {
    charts.push([ids[i], () => curveOption("accuracy", panel.lines.filter((line) => !hidden.has(line.label)), "round")]);
  });
  return make("section", { id: `study-${number}-group-${place}`, "data-name": group.title },
    make("h2", {}, group.title),
    make("div", { class: "bar" }, legend),
    make("div", { class: "grid" }, ...group.panels.map((panel, i) => figureOf(ids[i], `Test accuracy: ${panel.title}`))),
  );
}

/** Which cells are there and which are missing, and where they were trained. */
function stockSection(study, number) {
  const { policies, rows, missing, of, again, seeds } = study.stock;
  const table = make("table", { class: "cards" });
  const cell = (row, i) => {
    const [there, lacking] = [row.seeds[i], seeds.filter((seed) => !row.seeds[i].includes(seed))];
    if (!row.needed[i] || !lacking.length) return there.join(", ");
    return make("span", {}, there.join(", "), marked(there.length ? ` not ${lacking.join(", ")}` : "none", "over"));
  };
  fillTable(table, ["seeds of", ...policies], rows.map((row) => [row.title, ...policies.map((_, i) => cell(row, i))]));
  const section = make("section", { id: `study-${number}-cells`, "data-name": "Cells" }, make("h2", {}, "What has been trained, and where"));
  const words = missing.length ? `${missing.length} of ${of} cells are missing; this trains them:` : `All ${of} cells are there; this shows them again:`;
  section.append(make("div", { class: "scroll" }, table), make("p", {}, words), make("pre", { class: "command" }, again));
  if (missing.length) section.append(make("details", {}, make("summary", {}, "the missing cells"), make("pre", {}, missing.join("\n"))));
  for (const origin of study.origins) {
    const shared = origin.shared ? `, and ${plural(origin.shared, "cell")} whose training is the same` : "";
    section.append(
      make("p", {}, make("b", {}, origin.device), `: ${plural(origin.trained, "cell")} trained in ${sayTime(origin.wall_s)}${shared}`),
      make("p", { class: "muted" }, sayEnvironment(origin.environment)),
    );
    if (origin.commands.length) section.append(make("details", {}, make("summary", {}, "as it was typed"), make("pre", { class: "command" }, origin.commands.join("\n"))));
  }
  return section;
}

/** Every section of a reproduction; what is to be drawn in them goes to `charts`. */
function reproducedSections(study, number, charts) {
  const state = (chosen.studies[number] ??= { column: 0, axis: "time_s", hidden: new Set(), groups: {} });
  state.column = Math.min(state.column, Math.max(0, study.columns.length - 1));
  const sections = [];
  if (study.columns.length) {
    const words = "Time is simulated; energy is a device's total, mean over devices; accuracy is the best of the average model. FedRT saves: the part of the method's time. ± is the deviation over seeds, bands span all seeds, and lines beside each other are of the seeds that all of them have.";
    sections.push(
      make("section", { id: `study-${number}`, "data-name": "Table" },
        make("h2", {}, "The paper's table beside ours ", make("span", { class: "muted" }, study.folder)),
        make("div", { class: "scroll" }, reproducedTable(study)),
        make("p", { class: "muted" }, words),
      ),
      convergence(study, number, state, charts),
    );
  }
  study.groups.forEach((group, place) => sections.push(accuracyGroup(group, place, number, state, charts)));
  return [...sections, stockSection(study, number)];
}
