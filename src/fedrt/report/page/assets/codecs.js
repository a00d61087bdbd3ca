// The codecs of one run's updates: which device used which, their shares, and what was sent.

const NO_CODEC = 255;
const SENT_DASHES = [null, [7, 4], [2, 3]];

/** A colour for each codec of the run, from few bits to many. */
function codecColours(names) {
  const last = Math.max(1, names.length - 1);
  return names.map((_, k) => VIRIDIS[Math.round((k / last) * (VIRIDIS.length - 1))]);
}

/** The codec that most of some devices used most in a column, or none. */
function usualCodec(members, codec, start, count) {
  const votes = new Array(count).fill(0);
  for (const n of members) if (codec[start + n] !== NO_CODEC) votes[codec[start + n]]++;
  const most = Math.max(...votes);
  return most > 0 ? votes.indexOf(most) : NaN;
}

function heatCodecs() {
  const run = theRun();
  if (!run || !run.detail.codecs) return null;
  const { names, by_device: by, stepped_up: ups, stepped_up_last: upAfter } = run.detail.codecs;
  const [codec, bits, first, last] = [by.codec, by.bits, by.bins.first, by.bins.last].map(unpack);
  const [times, after] = [unpack(ups), unpack(upAfter)];
  const devices = times.length;
  const rows = groups(devices, MOST_HEAT_ROWS).map(([a, b]) => Array.from({ length: b - a + 1 }, (_, i) => a + i));
  const sayCell = (r, c, value) => {
    const members = rows[r];
    const lines = [];
    if (c !== null) {
      const own = members.map((n) => bits[c * devices + n]).filter((b) => !Number.isNaN(b));
      const one = first[c] === last[c] && members.length === 1;
      lines.push([`${one ? "codec" : "codec used most"}, ${sayRounds(first[c], last[c])}`, make("b", {}, names[value])]);
      if (own.length) lines.push(["bits of a number, mean", make("b", {}, sayNumber(own.reduce((a, b) => a + b, 0) / own.length, 3))]);
    }
    for (const n of members.filter((each) => times[each] > 0)) {
      const again = times[n] > 1 ? ` (${times[n]} times)` : "";
      lines.push([marked(`▲ device ${n} stepped up after round ${after[n]}${again}`, "over"), ""]);
    }
    return tip(members.length === 1 ? `device ${rowName(members)}` : `devices ${rowName(members)}`, lines);
  };
  return heatOption({
    rows: rows.map(rowName),
    columns: Array.from(first, String),
    cell: (r, c) => usualCodec(rows[r], codec, c * devices, names.length),
    say: sayCell,
    categories: names,
    colours: codecColours(names),
    xName: "global round",
    yName: rows.some((members) => members.length > 1) ? "devices, several to a row" : "device",
    marks: rows.flatMap((members, r) => (members.some((n) => times[n] > 0) ? [r] : [])),
    mark: "stepped up to more bits, since its messages left too much out",
    describe: "codec of each device's update over rounds; a triangle marks devices that were stepped up",
  });
}

function codecShares() {
  const run = theRun();
  if (!run || !run.detail.codecs) return null;
  const { names, bins, shares: packed } = run.detail.codecs;
  const [first, last, shares] = [bins.first, bins.last, packed].map(unpack);
  const colours = codecColours(names);
  const share = (i, k) => shares[i * names.length + k];
  return {
    describe: "share of the updates that each codec carried, by round",
    key: names.map((name, k) => [box(colours[k]), name]),
    grid: GRID,
    xAxis: axis("global round", { type: "category", data: Array.from(first, String), splitLine: { show: false }, nameGap: 26 }),
    yAxis: upright("% of updates", { type: "value", max: 100 }),
    tooltip: {
      trigger: "axis",
      axisPointer: { type: "shadow" },
      formatter: (at) => {
        const i = at[0].dataIndex;
        const rows = names.map((name, k) => [name, make("b", {}, sayPercent(share(i, k), 1))]);
        return tip(sayRounds(first[i], last[i]), rows.reverse());
      },
    },
    series: names.map((name, k) => ({
      type: "bar",
      name,
      stack: "codecs",
      data: Array.from(first, (_, i) => 100 * share(i, k)),
      color: colours[k],
      barCategoryGap: first.length > 60 ? 0 : "15%",
      emphasis: { disabled: true },
      large: true,
    })),
  };
}

function bytesSent() {
  const run = theRun();
  if (!run || !run.detail.codecs) return null;
  const { bins, upload_bytes: up, backhaul_bytes: over, model_bytes: whole } = run.detail.codecs;
  const [first, last] = [bins.first, bins.last].map(unpack);
  const parts = [["updates", up, "#0072B2"], ["gossip", over, "#009E73"], ["whole models", whole, "--text"]]
    .filter(([, packed]) => packed)
    .map(([name, packed, colour]) => ({ name, values: unpack(packed), colour: colour.startsWith("--") ? themed(colour) : colour }));
  const [size, prefix] = prefixOf(greatest(parts.map((part) => part.values), 1));
  const points = ({ values }) => Array.from(values, (value) => (Number.isNaN(value) ? "-" : value / size));
  return {
    describe: "bytes that devices and edge servers sent in each round, against whole models",
    key: parts.map(({ name, colour }, k) => [stroke(colour, 2, SENT_DASHES[k]), name]),
    grid: GRID,
    xAxis: axis("global round", { type: "category", data: Array.from(first, String), splitLine: { show: false }, nameGap: 26 }),
    yAxis: upright(`${prefix}B a round`, { type: "value", min: 0 }),
    tooltip: {
      trigger: "axis",
      axisPointer: { type: "line", lineStyle: { color: themed("--muted") } },
      formatter: (at) => {
        const i = at[0].dataIndex;
        const rows = parts.map(({ name, values }) => [name, make("b", {}, saySi(values[i], "B"))]);
        return tip(`${sayRounds(first[i], last[i])}${first[i] === last[i] ? "" : ", mean"}`, rows);
      },
    },
    series: parts.map((part, k) => ({
      type: "line",
      name: part.name,
      data: points(part),
      color: part.colour,
      symbol: ["circle", "rect", "none"][k],
      showSymbol: first.length < 30,
      lineStyle: { width: 2, type: SENT_DASHES[k] || "solid" },
      emphasis: { disabled: true },
    })),
  };
}

function setUpCodecs() {
  new Chart("chart-codecs", heatCodecs);
  new Chart("chart-codec-shares", codecShares);
  new Chart("chart-bytes", bytesSent);
}

RUN_SECTIONS.push(fillCodecs);

function fillCodecs(run) {
  const { codecs } = run.detail;
  show(byId("codecs"), Boolean(codecs));
  if (!codecs) return;
  const sum = (packed) => unpack(packed).reduce((a, b) => a + b, 0);
  const stepped = unpack(codecs.stepped_up).filter((times) => times > 0).length;
  const words = [];
  if (codecs.model_bytes) words.push(`updates are ${sayPercent(sum(codecs.upload_bytes) / sum(codecs.model_bytes), 1)} of whole models of float32; `);
  words.push(stepped ? marked(`▲ ${plural(stepped, "device")} stepped up`, "over") : "no device was stepped up");
  byId("codecs-text").replaceChildren(...words);
  byId("codecs-run").textContent = `of ${runName(run)}`;
  for (const id of ["chart-codecs", "chart-codec-shares", "chart-bytes"]) page.charts[id].update();
}
