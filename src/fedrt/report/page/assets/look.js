// Colours that people with any colour vision can tell apart, and a second cue beside each.

const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "--black", "#56B4E9"];
const SYMBOLS = ["circle", "rect", "triangle", "diamond", "plus", "roundRect", "arrow"];
// Users' own policies have numbers from FIRST_OWN on, and colours and markers that no other has.
const FIRST_OWN = 100;
const OWN_COLOURS = ["--own-0", "--own-1", "--own-2", "--own-3", "--own-4", "--own-5"];
const OWN_SYMBOLS = ["star", "cross", "down", "hourglass", "bowtie", "dome"];
const DASHES = ["solid", [7, 4], [8, 3, 2, 3], [2, 3], [9, 2, 2, 2, 2, 2], [12, 4], [2, 5]];
// The parts of a round that every run has; data with others name theirs, waiting always the last.
const PARTS = ["compute", "upload", "backhaul", "waiting"];
const ALL_PARTS = ["download", "compute", "upload", "overhead", "backhaul", "waiting"];
const PART_COLOURS = { download: "#56B4E9", compute: "#0072B2", upload: "#E69F00", overhead: "#CC79A7", backhaul: "#009E73", waiting: "#9AA3AD" };
const WARNING = "#D55E00";
const VIRIDIS = ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"];
const BLUES = ["#dbe9f6", "#9ecae1", "#4292c6", "#08519c", "#08306b"];
const DARK_BLUES = ["#173a5e", "#1f6aa5", "#4aa3dd", "#a5d5f5", "#eef7ff"];
const AROUND_ZERO = ["#8c2d04", "#D55E00", "#fdd0a2", "#f2f2f2", "#b3d6ee", "#56B4E9", "#0072B2"];
const PART_DECALS = {
  download: { symbol: "rect", symbolSize: 1, dashArrayX: [1, 0], dashArrayY: [2, 6], rotation: Math.PI / 2 },
  compute: { symbol: "none" },
  upload: { symbol: "rect", symbolSize: 1, dashArrayX: [1, 0], dashArrayY: [2, 5], rotation: Math.PI / 4 },
  overhead: { symbol: "rect", symbolSize: 1, dashArrayX: [1, 0], dashArrayY: [3, 3] },
  backhaul: { symbol: "circle", symbolSize: 0.7, dashArrayX: [[6, 6], [0, 6, 6, 0]], dashArrayY: [6, 0] },
  waiting: { symbol: "rect", symbolSize: 1, dashArrayX: [1, 0], dashArrayY: [1, 7], rotation: -Math.PI / 4 },
};

// Asking the browser costs a layout of the page, which a slider cannot afford.
const themedColours = new Map();

/** The value of one of the page's own colours in the present theme. */
function themed(name) {
  if (!themedColours.has(name)) {
    const style = getComputedStyle(document.documentElement);
    themedColours.set(name, style.getPropertyValue(name).trim());
  }
  return themedColours.get(name);
}

/** Colour, marker and dash of a line. Where the colours begin again, the markers are one place on.
 * A dash given takes the place of its own, and one that is not solid goes with hollow markers. */
function look(style, dash = null) {
  const own = style >= FIRST_OWN;
  const [colours, symbols] = own ? [OWN_COLOURS, OWN_SYMBOLS] : [COLOURS, SYMBOLS];
  const place = own ? style - FIRST_OWN : style;
  const turn = Math.floor(place / colours.length);
  const colour = colours[place % colours.length];
  const shape = symbols[(place + turn) % symbols.length];
  const hollow = Array.isArray(dash);
  return {
    colour: colour.startsWith("--") ? themed(colour) : colour,
    shape,
    hollow,
    symbol: `path://${SHAPES[shape]}`,
    dash: dash || DASHES[(place + 3 * turn) % DASHES.length],
  };
}

const SHAPES = {
  circle: "M12.5 7a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
  rect: "M13 3.5h7v7h-7z",
  roundRect: "M14 3.5h5l1 1v5l-1 1h-5l-1 -1v-5z",
  triangle: "M16 2.5l4.3 8h-8.6z",
  diamond: "M16 2l4.5 5l-4.5 5l-4.5 -5z",
  plus: "M14.5 2h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
  arrow: "M16 2l4 10l-4 -3l-4 3z",
  star: "M16 1.5l1.6 3.7l4 .4l-3 2.7l.9 3.9l-3.5 -2.1l-3.5 2.1l.9 -3.9l-3 -2.7l4 -.4z",
  cross: "M13 2.5l3 3l3 -3l1.5 1.5l-3 3l3 3l-1.5 1.5l-3 -3l-3 3l-1.5 -1.5l3 -3l-3 -3z",
  down: "M16 11.5l-4.3 -8h8.6z",
  hourglass: "M12 2.5h8l-3.2 4.5l3.2 4.5h-8l3.2 -4.5z",
  bowtie: "M11.5 3l4.5 3.2l4.5 -3.2v8l-4.5 -3.2l-4.5 3.2z",
  dome: "M11.5 10.5a4.5 7 0 0 1 9 0z",
};

/** A short piece of a line as it is drawn, for legends and tables. */
function swatch(style, own = null) {
  const { colour, shape: name, dash, hollow } = look(style, own);
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  for (const [name, value] of [["width", 32], ["height", 14], ["aria-hidden", "true"]]) {
    svg.setAttribute(name, value);
  }
  const line = document.createElementNS(space, "path");
  line.setAttribute("d", "M0 7H32");
  line.setAttribute("stroke", colour);
  line.setAttribute("stroke-width", "2");
  if (dash !== "solid") line.setAttribute("stroke-dasharray", dash.join(" "));
  const shape = document.createElementNS(space, "path");
  shape.setAttribute("d", SHAPES[name]);
  shape.setAttribute("fill", hollow ? themed("--card") : colour);
  shape.setAttribute("stroke", colour);
  svg.append(line, shape);
  return svg;
}

/** A short straight line for the key under the graph. */
function stroke(colour, width, dash) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("width", 32);
  svg.setAttribute("height", 10);
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(space, "path");
  line.setAttribute("d", "M0 5H32");
  line.setAttribute("stroke", colour);
  line.setAttribute("stroke-width", width);
  if (dash) line.setAttribute("stroke-dasharray", dash.join(" "));
  svg.append(line);
  return svg;
}

/** The ring around points at which some device is over its budget, for a key. */
function ring() {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  for (const [name, value] of [["width", 18], ["height", 18], ["aria-hidden", "true"]]) svg.setAttribute(name, value);
  const circle = document.createElementNS(space, "circle");
  for (const [name, value] of [["cx", 9], ["cy", 9], ["r", 7], ["fill", "none"], ["stroke", WARNING], ["stroke-width", 2]]) circle.setAttribute(name, value);
  svg.append(circle);
  return svg;
}

/** The circle around the answer of a sizing, for a key. */
function circle() {
  const svg = ring();
  svg.firstChild.setAttribute("stroke", themed("--text"));
  return svg;
}

/** A box in a colour and the pattern of that class, for a key. */
const box = (colour, pattern = "") => make("i", { class: `box ${pattern}`, style: `background-color: ${colour}` });

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

/** Follow the system's theme until the viewer chooses one. */
function setUpTheme(changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  let own = false;
  const set = (dark) => {
    root.dataset.theme = dark ? "dark" : "light";
    themedColours.clear();
    changed();
  };
  root.dataset.theme = system.matches ? "dark" : "light";
  system.addEventListener("change", () => own || set(system.matches));
  byId("theme").addEventListener("click", () => {
    own = true;
    set(!isDark());
  });
}
