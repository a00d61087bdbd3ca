// The table of outcomes, configs and commands, figures, problems, and how far a run has come.

/** Less time than a baseline is what one wants to see: a minus sign and a percentage. */
const sayAgainst = (saving) => {
  if (saving === undefined) return "";
  const text = sayPercent(Math.abs(saving), 1);
  return Number.parseFloat(text) === 0 ? text : `${saving > 0 ? "−" : "+"}${text}`;
};

function fillSummary() {
  const { lines, baselines, notes } = page.data;
  show(byId("summary"), lines.length > 0);
  const trained = lines.some((line) => line.row.best_accuracy);
  const head = ["policy", "seeds", "rounds", "time", ...baselines.map((name) => `vs ${name}`)];
  const { measure } = page.data;
  if (trained) head.push(`best ${measure.name}`, `final ${measure.name}`);
  head.push("energy", "over budget");
  const times = lines.map((line) => (line.row.total_time_s ? line.row.total_time_s.mean : Infinity));
  const fastest = Math.min(...times);
  const rows = lines.map((line, i) => {
    const { row } = line;
    const done = row.ended === row.of ? String(line.rounds) : marked(`${line.done} of ${line.rounds}, unfinished`, "over");
    const time = spreadTime(row.total_time_s);
    const over = row.over_budget_devices && row.over_budget_devices.mean
      ? marked(`▲ ${sayCount(row.over_budget_devices)} devices, ${saySi(row.over_budget_j.mean, "J", 3)}`, "over")
      : row.over_budget_devices ? "none" : "–";
    const cells = [
      make("span", {}, swatch(line.style), line.label),
      line.seeds.join(", "),
      done,
      lines.length > 1 && times[i] === fastest && Number.isFinite(fastest) ? marked(time, "best") : time,
      ...baselines.map((name) => sayAgainst(row.against[name])),
    ];
    const say = measure.is_share ? spreadPercent : spreadNumber;
    if (trained) cells.push(say(row.best_accuracy), say(row.final_accuracy));
    return [...cells, spreadJoules(row.energy_j_mean), over];
  });
  fillTable(byId("summary-table"), head, rows);
  byId("answer").textContent = page.data.answer;
  show(byId("answer"), Boolean(page.data.answer));
  const words = [`Time is ${timeWords() === "measured time" ? "measured" : "simulated"}; energy is a device's total, mean over devices.`];
  if (baselines.length) words.push("“vs” compares times, paired by seed.");
  if (lines.some((line) => line.row.of > 1)) words.push("± is the deviation over seeds; bands span all seeds.");
  if (lines.some(isOver)) words.push("▲ over budget: how many devices spent more than their budgets for the whole run, and the joules beyond these in all.");
  byId("summary-note").textContent = words.join(" ");
  byId("notes").replaceChildren(...notes.map((note) => make("p", {}, note)));
}

function fillProblems() {
  const { problems } = page.data;
  show(byId("problems"), problems.length > 0);
  byId("problems").replaceChildren(...problems.map((line) => make("p", {}, line)));
}

function sayEnvironment(of) {
  const libraries = Object.entries(of.libraries || {}).map(([name, version]) => `${name} ${version}`);
  const parts = [of.fedrt && `fedrt ${of.fedrt}`, of.commit && `commit ${of.commit}`, of.python && `Python ${of.python}`, ...libraries, of.system, of.processor, of.cores && `${of.cores} cores`];
  return parts.filter(Boolean).map(String).join(", ");
}

function fillConfigs() {
  const { configs, differences } = page.data;
  show(byId("configs"), configs.length > 0);
  const several = configs.length > 1;
  const blocks = configs.map((config) => {
    const block = make("div", {});
    if (several) block.append(make("h3", {}, config.labels.join(", ")));
    if (config.typed.length) block.append(make("p", { class: "muted" }, "as it was typed:"), make("pre", { class: "command" }, config.typed.join("\n")));
    block.append(make("p", { class: "muted" }, "the same from the saved config:"), make("pre", { class: "command" }, config.again));
    const details = make("details", several ? {} : { open: "" }, make("summary", {}, "config.toml"), make("pre", {}, config.text));
    block.append(details, make("p", { class: "muted" }, sayEnvironment(config.environment)));
    return block;
  });
  if (differences) {
    const table = make("table", { class: "texts" });
    const rows = differences.more ? [...differences.rows, [`and ${differences.more} more`]] : differences.rows;
    fillTable(table, ["setting", ...differences.labels], rows);
    blocks.unshift(make("div", {}, make("p", {}, "Where the configs differ:"), make("div", { class: "scroll" }, table)));
  }
  byId("configs-list").replaceChildren(...blocks);
}

function fillFigures() {
  const { figures } = page.data;
  show(byId("figures"), figures.length > 0);
  const stems = new Map();
  for (const { name, address } of figures) {
    const [, stem, kind] = name.match(/^(.*)\.([^.]*)$/);
    const link = make("a", { href: address }, kind);
    stems.set(stem, [...(stems.get(stem) || [`${stem}: `]), link, " "]);
  }
  byId("figures-list").replaceChildren(...Array.from(stems.values(), (parts) => make("li", {}, ...parts)));
}

function fillNav() {
  const sections = Array.from(document.querySelectorAll("section[data-name]")).filter((section) => !section.hidden);
  byId("nav").replaceChildren(...sections.map((section) => make("a", { href: `#${section.id}` }, section.dataset.name)));
}

/** How far the runs are; `age` is the seconds since anything was written, for a page that follows. */
function fillProgress(age) {
  const { progress } = page.data;
  const unfinished = progress.ended < progress.runs;
  show(byId("progress"), progress.runs > 0 && (unfinished || age !== null));
  byId("progress-bar").value = progress.total ? progress.done / progress.total : 0;
  const words = [`${progress.done} of ${progress.total} rounds`];
  const quiet = age !== null && age > Math.max(20, 5 * (progress.round_s || 0));
  if (!unfinished) words.push("ended");
  else if (age === null) words.push("unfinished");
  else if (quiet) words.push(`nothing new for ${sayTime(Math.round(age))}: stopped? fedrt run --resume goes on`);
  else if (progress.left_s !== null && progress.done) words.push(`about ${sayTime(Math.ceil(progress.left_s))} left`);
  byId("progress-text").textContent = words.join(", ");
  const waiting = progress.done === 0 && page.data.studies.length === 0;
  show(byId("empty"), waiting);
  byId("empty").textContent = "No round has been saved yet.";
}
