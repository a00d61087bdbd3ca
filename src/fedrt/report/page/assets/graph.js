// The backhaul of one round: edge servers and their links, which are kept, pruned or down. Few
// servers stand on a circle; many are rows and columns of a matrix, where lines would cover each other.

const MOST_ON_CIRCLE = 24;
const MOST_ROWS = 300;
const FATES = ["pruned", "kept", "down"];
const LEAST_CELL = 2.5;

/** The links of the chosen round: ends, speed, distance and fate. */
function linksNow() {
  const { links } = theRun().detail;
  if (!links) return [];
  const [a, b] = [unpack(links.edge), unpack(links.edge2)];
  const [bps, distance, kept] = [unpack(links.bps), unpack(links.distance), unpack(links.kept)];
  const first = chosen.round * a.length;
  return Array.from(a, (from, i) => {
    const at = first + i;
    const fate = bps[at] > 0 ? kept[at] : 2;
    return { from, to: b[i], bps: bps[at], distance: distance[at], fate };
  });
}

const onCircle = () => theRun().detail.edges <= MOST_ON_CIRCLE;
const fastestOf = (links) => links.reduce((most, link) => Math.max(most, link.bps), 1);

function graphNodes() {
  const count = theRun().detail.edges;
  const slowest = slowestNow();
  const size = Math.max(14, Math.min(34, 380 / count));
  return Array.from({ length: count }, (_, c) => {
    const angle = (2 * Math.PI * c) / count - Math.PI / 2;
    const last = c === slowest;
    return {
      name: String(c),
      x: 100 * Math.cos(angle),
      y: 100 * Math.sin(angle),
      symbol: last ? "diamond" : "circle",
      symbolSize: last ? size * 1.35 : size,
      itemStyle: { color: last ? WARNING : themed("--accent"), borderColor: themed("--card"), borderWidth: 2 },
      label: { show: true, fontSize: size > 24 ? 12 : 10, color: last || !isDark() ? "#ffffff" : "#14171b", fontWeight: 600 },
    };
  });
}

function graphLinks() {
  const links = linksNow();
  const fastest = fastestOf(links);
  const widest = links.length > 30 ? 2.5 : 4;
  const [solid, faint] = [themed("--text"), themed("--muted")];
  return links.map((link) => {
    const styles = [
      { color: faint, width: 1, type: [2, 4], opacity: links.length > 30 ? 0.45 : 0.75 },
      { color: solid, width: 0.8 + widest * (link.bps / fastest), type: "solid", opacity: 0.8 },
      { color: WARNING, width: 2, type: [8, 5], opacity: 0.9 },
    ];
    return { source: link.from, target: link.to, lineStyle: styles[link.fate], link };
  });
}

/** The colour of a link: shades by speed for those that are kept, else by fate. */
function cellColour({ fate, bps }, fastest) {
  if (fate !== 1) return fate ? WARNING : themed("--line");
  const shades = (isDark() ? DARK_BLUES : BLUES).slice(1);
  return shades[Math.min(shades.length - 1, Math.floor((shades.length * bps) / fastest))];
}

/** The cells of the matrix, both halves; pruned links first, so that no other is covered. */
function matrixCells() {
  const links = linksNow().sort((a, b) => [0, 2, 1][a.fate] - [0, 2, 1][b.fate]);
  const fastest = fastestOf(links);
  return links.flatMap((link) => {
    const itemStyle = { color: cellColour(link, fastest) };
    return [[link.from, link.to], [link.to, link.from]].map((value) => ({ value, itemStyle, link }));
  });
}

/** Lines through the row and the column of the server that the others wait for. */
function matrixSlowest() {
  const slowest = slowestNow();
  return { data: slowest < 0 ? [] : [{ xAxis: slowest }, { yAxis: slowest }] };
}

function matrixOption() {
  const names = Array.from({ length: theRun().detail.edges }, (_, c) => String(c));
  const step = [5, 10, 20, 50, 100].find((size) => names.length / size <= 12) || 500;
  const more = { type: "category", data: names, splitLine: { show: false }, axisTick: { show: false }, axisLabel: { interval: (c) => c % step === 0 } };
  return {
    describe: "which links between edge servers are used in this round: a row and a column for each server; the table below lists them",
    grid: { left: 50, right: 16, top: 34, bottom: 48 },
    xAxis: axis("edge server", more),
    yAxis: upright("edge server", { ...more, inverse: true, nameLocation: "start" }),
    tooltip: { trigger: "item", formatter: graphTip },
    series: [
      {
        id: "graph",
        type: "custom",
        data: matrixCells(),
        renderItem: drawCell,
        markLine: { silent: true, symbol: "none", animation: false, label: { show: false }, lineStyle: { color: WARNING, width: 1.5, type: "solid", opacity: 0.7 }, ...matrixSlowest() },
        emphasis: { disabled: true },
      },
    ],
  };
}

function drawCell(at, api) {
  const [x, y] = api.coord([api.value(0), api.value(1)]);
  const [width, height] = api.size([1, 1]).map((size) => Math.max(LEAST_CELL, 0.86 * size));
  return { type: "rect", shape: { x: x - width / 2, y: y - height / 2, width, height }, style: { fill: api.visual("color") } };
}

/** What the slider changes in the graph or matrix. */
function graphContent() {
  if (onCircle()) return { series: [{ id: "graph", data: graphNodes(), links: graphLinks() }] };
  return { series: [{ id: "graph", data: matrixCells(), markLine: matrixSlowest() }] };
}

function graphOption() {
  if (!theRun() || !theRun().detail.links) return null;
  if (!onCircle()) return matrixOption();
  return {
    describe: "which links between edge servers are used in this round; the table below lists them",
    tooltip: { trigger: "item", formatter: graphTip },
    series: [
      {
        id: "graph",
        type: "graph",
        layout: "none",
        preserveAspect: "contain",
        left: 40,
        right: 40,
        top: 34,
        bottom: 34,
        data: graphNodes(),
        links: graphLinks(),
        emphasis: { focus: "adjacency", scale: false },
        blur: { lineStyle: { opacity: 0.06 }, itemStyle: { opacity: 0.35 } },
        silent: false,
      },
    ],
  };
}

function graphTip(at) {
  if (at.dataType === "node") {
    const c = Number(at.name);
    const { clusters } = theRun().detail;
    if (!clusters) return tip(`edge server ${c}`, []);
    const parts = unpack(clusters.parts);
    const names = clusters.names || PARTS;
    const first = names.length * (chosen.round * theRun().detail.edges + c);
    return tip(`edge server ${c}`, names.map((part, k) => [part, make("b", {}, sayTime(parts[first + k]))]));
  }
  const { from, to, bps, distance, fate } = at.data.link;
  return tip(`edge server ${from} and ${to}: ${FATES[fate]}`, [
    ["speed", make("b", {}, saySi(bps, "bit/s"))],
    ["consensus distance", make("b", {}, sayNumber(distance))],
  ]);
}

function fillLinksTable() {
  if (!theRun() || !byId("links-details").open) return;
  const links = linksNow();
  const rows = links.slice(0, MOST_ROWS).map(({ from, to, bps, distance, fate }) => [`${from} – ${to}`, FATES[fate], saySi(bps, "bit/s"), sayNumber(distance)]);
  if (links.length > MOST_ROWS) rows.push([`and ${links.length - MOST_ROWS} more`, "", "", ""]);
  fillTable(byId("links-table"), ["edge servers", "link", "speed", "consensus distance"], rows);
}

/** How many links are kept at a server: the least, the most and the mean. */
function sayDegrees(links) {
  const degrees = new Array(theRun().detail.edges).fill(0);
  for (const { from, to, fate } of links) if (fate === 1) [degrees[from], degrees[to]] = [degrees[from] + 1, degrees[to] + 1];
  const [least, most] = [Math.min(...degrees), Math.max(...degrees)];
  const mean = degrees.reduce((a, b) => a + b, 0) / degrees.length;
  return least === most ? `${plural(least, "link")} kept at every edge server` : `${least} to ${most} links kept at an edge server, ${sayNumber(mean, 3)} on average`;
}

function fillGraphKey() {
  const links = linksNow();
  const [pruned, kept, down] = [0, 1, 2].map((fate) => links.filter((link) => link.fate === fate).length);
  const signs = onCircle()
    ? [stroke(themed("--text"), 3), stroke(themed("--muted"), 1, [2, 4]), stroke(WARNING, 2, [8, 5])]
    : [1, 0, 2].map((fate) => box(cellColour({ fate, bps: 1 }, 1)));
  byId("graph-key").replaceChildren(
    make("span", {}, signs[0], `${kept} kept, ${onCircle() ? "wider" : isDark() ? "brighter" : "darker"} is faster`),
    make("span", {}, signs[1], `${pruned} pruned`),
    make("span", {}, signs[2], `${down} down`),
    make("span", {}, onCircle() ? make("b", { style: `color: ${WARNING}` }, "◆") : stroke(WARNING, 1.5), "the last to finish"),
    make("span", {}, sayDegrees(links)),
  );
}
