// Numbers and elements as people read them. Text from data only ever becomes text nodes.

const TIME_UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"]];

/** The unit that suits a time in seconds, and its length. */
function timeUnit(seconds) {
  return TIME_UNITS.find(([, size]) => seconds >= 2 * size) || ["s", 1];
}

function sayNumber(value, digits = 5) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "no limit" : "–∞";
  if (value !== 0 && (Math.abs(value) >= 1e7 || Math.abs(value) < 1e-4)) {
    return value.toExponential(digits - 1);
  }
  return String(Number(value.toPrecision(digits)));
}

/** The next greater number with a single digit before its zeros. */
function roundUp(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return size * Math.ceil(value / size);
}

function sayTime(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const [unit, size] = timeUnit(seconds);
  return `${sayNumber(seconds / size, 4)} ${unit}`;
}

const prefixOf = (value) => PREFIXES.find(([least]) => Math.abs(value) >= least) || [1, ""];

function saySi(value, unit, digits = 4) {
  if (!Number.isFinite(value)) return sayNumber(value);
  const [size, prefix] = prefixOf(value);
  return `${sayNumber(value / size, digits)} ${prefix}${unit}`;
}

const sayList = (names) => `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;
const sayPercent = (share, digits = 2) =>
  Number.isFinite(share) ? `${(100 * share).toFixed(digits)} %` : "–";
const sayJoules = (value) => (Number.isFinite(value) ? saySi(value, "J") : sayNumber(value));

/** Mean and deviation of several seeds in one unit, or the value of a single one. */
function saySpread(of, [unit, size]) {
  const mean = sayNumber(of.mean / size, 4);
  return of.n > 1 ? `${mean} ± ${sayNumber(of.std / size, 2)} ${unit}` : `${mean} ${unit}`;
}
const spreadTime = (of) => (of ? saySpread(of, timeUnit(of.mean)) : "–");
/** A number of things over seeds: the one they share, or the least and the greatest. */
const sayCount = (of) => (of.least === of.most ? sayNumber(of.least) : `${sayNumber(of.least)} to ${sayNumber(of.most)}`);
const spreadJoules = (of) => {
  if (!of) return "–";
  const [size, prefix] = prefixOf(of.mean);
  return saySpread(of, [`${prefix}J`, size]);
};
const spreadPercent = (of) => {
  if (!of) return "–";
  return (100 * of.mean).toFixed(2) + (of.n > 1 ? ` ± ${(100 * of.std).toFixed(2)} %` : " %");
};
const spreadNumber = (of) => {
  if (!of) return "–";
  return sayNumber(of.mean, 4) + (of.n > 1 ? ` ± ${sayNumber(of.std, 2)}` : "");
};
const sayRounds = (first, last) => (first === last ? `round ${first}` : `rounds ${first}–${last}`);
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** An element with attributes and children; strings become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const byId = (id) => document.getElementById(id);

function show(element, visible) {
  element.hidden = !visible;
}

/** A table from a head and rows of cells; a cell is text or an element. */
function fillTable(table, head, rows) {
  const cell = (tag, content, place) => {
    const plain = !(content instanceof Node);
    const label = tag === "td" && head[place] ? { "data-label": head[place] } : {};
    const element = make(tag, label, plain ? String(content ?? "") : content);
    if (!plain && content.dataset && content.dataset.class) element.className = content.dataset.class;
    return element;
  };
  table.replaceChildren(
    make("thead", {}, make("tr", {}, ...head.map((name, place) => cell("th", name, place)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((c, place) => cell("td", c, place))))),
  );
}

/** Text with a class, for a table's cell. */
const marked = (text, name) => make("span", { class: name }, text);

/** What a tooltip shows: a heading and rows of cells, as an element. */
function tip(heading, rows) {
  const table = make("table");
  for (const row of rows) table.append(make("tr", {}, ...row.map((c) => make("td", {}, c))));
  return make("div", {}, make("strong", {}, heading), table);
}
