// The backhaul of one round: edge servers on a circle, their links kept, pruned or down.

const MOST_FAINT = 600;
const MOST_ROWS = 300;
const FATES = ["pruned", "kept", "down"];

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

function graphNodes() {
  const count = theRun().detail.edges;
  const slowest = slowestNow();
  const size = Math.max(9, Math.min(34, 700 / count));
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
      label: { show: size >= 14, color: last || !isDark() ? "#ffffff" : "#14171b", fontWeight: 600 },
    };
  });
}

function graphLinks() {
  const links = linksNow();
  const fastest = links.reduce((most, link) => Math.max(most, link.bps), 1);
  const [solid, faint] = [themed("--text"), themed("--muted")];
  const shown = links.length > MOST_FAINT ? links.filter((link) => link.fate !== 0) : links;
  return shown.map((link) => {
    const styles = [
      { color: faint, width: 1, type: [2, 4], opacity: 0.75 },
      { color: solid, width: 1 + 4 * (link.bps / fastest), type: "solid", opacity: 0.8 },
      { color: WARNING, width: 2, type: [8, 5], opacity: 0.9 },
    ];
    return { source: link.from, target: link.to, lineStyle: styles[link.fate], link };
  });
}

function graphOption() {
  if (!theRun() || !theRun().detail.links) return null;
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
        emphasis: { disabled: true },
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
  if (!byId("links-details").open) return;
  const links = linksNow();
  const rows = links.slice(0, MOST_ROWS).map(({ from, to, bps, distance, fate }) => [`${from} – ${to}`, FATES[fate], saySi(bps, "bit/s"), sayNumber(distance)]);
  if (links.length > MOST_ROWS) rows.push([`and ${links.length - MOST_ROWS} more`, "", "", ""]);
  fillTable(byId("links-table"), ["edge servers", "", "speed", "consensus distance"], rows);
}

function fillGraphKey([pruned, kept, down]) {
  const hidden = pruned + kept + down > MOST_FAINT ? " (not drawn)" : "";
  byId("graph-key").replaceChildren(
    make("span", {}, stroke(themed("--text"), 3), `${kept} kept, wider is faster`),
    make("span", {}, stroke(themed("--muted"), 1, [2, 4]), `${pruned} pruned${hidden}`),
    make("span", {}, stroke(WARNING, 2, [8, 5]), `${down} down`),
    make("span", {}, make("b", { style: `color: ${WARNING}` }, "◆"), "the last to finish"),
  );
}
