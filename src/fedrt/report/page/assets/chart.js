// Charts that are drawn when they come into view, and again when data, size or theme change.

const MARKERS_PER_LINE = 7;

class Chart {
  /** `option` gives the chart's whole content, or null for nothing to show. */
  constructor(id, option) {
    this.id = id;
    this.element = byId(id);
    this.option = option;
    this.chart = null;
    this.inView = false;
    this.stale = true;
    page.charts[id] = this;
    this.element.setAttribute("role", "img");
    this.viewed = new IntersectionObserver(
      (entries) => {
        this.inView = entries[entries.length - 1].isIntersecting;
        if (this.inView && this.stale) this.draw();
      },
      { rootMargin: "200px" },
    );
    this.viewed.observe(this.element);
    this.sized = new ResizeObserver(() => this.chart && this.chart.resize());
    this.sized.observe(this.element);
  }

  dispose() {
    this.viewed.disconnect();
    this.sized.disconnect();
    if (this.chart) this.chart.dispose();
    delete page.charts[this.id];
  }

  /** Draw anew, at once or when it comes into view. */
  update() {
    this.stale = true;
    if (this.inView) this.draw();
  }

  draw() {
    const option = this.option();
    if (!option) return;
    this.stale = false;
    if (!this.chart) this.chart = echarts.init(this.element, null, { renderer: "canvas" });
    this.chart.setOption(withDefaults(option), { notMerge: true });
    this.element.setAttribute("aria-label", option.describe || "");
    this.fillKey(option.key || []);
  }

  /** Bring out one line among the others, or none. */
  light(name) {
    if (!this.chart || !this.inView) return;
    this.chart.dispatchAction({ type: "downplay" });
    if (name !== null) this.chart.dispatchAction({ type: "highlight", seriesName: name });
  }

  /** The key under the chart, which takes as many lines as it needs: [sign, words] for each entry. */
  fillKey(entries) {
    if (!this.key && entries.length) {
      this.key = make("p", { class: "key" });
      this.element.after(this.key);
    }
    if (this.key) this.key.replaceChildren(...entries.map(([sign, words]) => make("span", {}, make("span", { class: "sign" }, sign), make("span", {}, words))));
  }

  /** Change a part of what is drawn; quick enough for a slider. */
  change(option) {
    if (this.chart && this.inView && !this.stale) this.chart.setOption(option, { lazyUpdate: true, silent: true });
    else this.stale = true;
  }
}

function updateAll() {
  for (const chart of Object.values(page.charts)) chart.update();
}

// What a sheet of A4 leaves a chart inside margins and frames, in pixels, and how fine it is drawn.
const PAPER_WIDTH = 640;
const PAPER_RATIO = 2;

/** Draw every chart once more at the width of paper, those too that have not come into view yet.
 * In one go: a chart itself is drawn in several frames, and paper waits for none. */
function drawForPaper() {
  clearPaper();
  for (const chart of Object.values(page.charts)) {
    if (!chart.element.offsetParent) continue;
    if (chart.stale) chart.draw();
    if (!chart.chart) continue;
    chart.chart.resize({ width: PAPER_WIDTH, height: chart.element.offsetHeight });
    const drawn = chart.chart.renderToCanvas({ pixelRatio: PAPER_RATIO });
    chart.chart.resize({ width: "auto", height: "auto" });
    drawn.className = "paper";
    chart.element.append(drawn);
  }
}

function clearPaper() {
  for (const drawn of document.querySelectorAll(".paper")) drawn.remove();
}

/** What all charts have in common. */
function withDefaults(option) {
  const { describe, tooltip, key, ...rest } = option;
  return {
    animation: false,
    backgroundColor: "transparent",
    textStyle: { color: themed("--text"), fontFamily: getComputedStyle(document.body).fontFamily },
    tooltip: {
      className: "tip",
      confine: true,
      transitionDuration: 0,
      backgroundColor: themed("--card"),
      borderColor: themed("--line"),
      textStyle: { color: themed("--text"), fontSize: 13 },
      ...tooltip,
    },
    ...rest,
  };
}

/** An axis in the page's colours. */
function axis(name, more = {}) {
  const { axisLabel, ...rest } = more;
  return {
    name,
    nameLocation: "middle",
    nameGap: 30,
    nameTextStyle: { color: themed("--muted") },
    axisLabel: { color: themed("--muted"), hideOverlap: true, ...axisLabel },
    axisLine: { lineStyle: { color: themed("--line") } },
    axisTick: { lineStyle: { color: themed("--line") } },
    splitLine: { lineStyle: { color: themed("--grid") } },
    ...rest,
  };
}

/** An upright axis with its name above it, where narrow screens have room. */
function upright(name, more = {}) {
  return axis(name, {
    nameLocation: "end",
    nameGap: 12,
    nameTextStyle: { color: themed("--muted"), align: "left", padding: [0, 0, 0, -36] },
    ...more,
  });
}

const GRID = { left: 58, right: 22, top: 34, bottom: 48, containLabel: false };

/** A line through points [x, y] in a line's own look, with a few markers on it. */
function lineSeries(name, style, points, more = {}, own = null) {
  const { colour, symbol, dash } = look(style, own);
  const step = Math.max(1, Math.floor(points.length / MARKERS_PER_LINE));
  const offset = Math.floor((style % 5) * step * 0.2);
  return {
    type: "line",
    name,
    data: points,
    color: colour,
    symbol,
    showSymbol: true,
    showAllSymbol: true,
    symbolSize: (value, at) => ((at.dataIndex - offset) % step === 0 ? 8 : 0),
    lineStyle: { color: colour, width: 2, type: dash },
    emphasis: { focus: "series", scale: false, lineStyle: { width: 3.5 } },
    blur: { lineStyle: { opacity: 0.15 }, itemStyle: { opacity: 0.15 } },
    ...more,
  };
}

/** Rings around points [x, y] at which some device is over its budget. */
function overSeries(points) {
  return {
    type: "scatter",
    name: "over budget",
    data: points,
    silent: true,
    symbol: "circle",
    symbolSize: 22,
    itemStyle: { color: "transparent", borderColor: WARNING, borderWidth: 2 },
    tooltip: { show: false },
    z: 4,
  };
}

/** The area between two curves, drawn as one shape. */
function bandSeries(name, style, xs, low, high) {
  const { colour } = look(style);
  return {
    type: "custom",
    name,
    silent: true,
    clip: true,
    z: 1,
    data: Array.from(xs, (x, i) => [x, low[i], high[i]]),
    encode: { x: 0, y: [1, 2] },
    tooltip: { show: false },
    renderItem: (at, api) => {
      if (at.dataIndexInside > 0) return null;
      const up = Array.from(xs, (x, i) => api.coord([x, high[i]]));
      const down = Array.from(xs, (x, i) => api.coord([x, low[i]])).reverse();
      return {
        type: "polygon",
        shape: { points: [...up, ...down] },
        style: { fill: colour, opacity: isDark() ? 0.25 : 0.16 },
      };
    },
  };
}
