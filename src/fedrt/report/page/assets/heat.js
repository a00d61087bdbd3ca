// Heat maps: rows by columns of colours, in groups where there are more rows than can be told apart.

const MOST_HEAT_ROWS = 120;

/** Consecutive members in at most so many groups: [first, last] places of each. */
function groups(count, most) {
  const size = Math.ceil(count / most);
  return Array.from({ length: Math.ceil(count / size) }, (_, i) => [i * size, Math.min(count, (i + 1) * size) - 1]);
}

/** The colours of a heat map: a scale from `from` to `to`, or one for each of its categories. */
function heatScale({ from, to, sayScale, colours, categories }) {
  const both = { seriesIndex: 0, orient: "horizontal", left: "center", bottom: 4, textStyle: { color: themed("--muted") } };
  if (categories) {
    const pieces = categories.map((label, value) => ({ value, label, color: colours[value] }));
    return { ...both, type: "piecewise", pieces, show: false };
  }
  return {
    ...both,
    type: "continuous",
    min: from,
    max: to > from ? to : from + Math.max(1e-9, Math.abs(from) * 1e-6),
    itemWidth: 12,
    itemHeight: 150,
    calculable: false,
    text: [sayScale(to), sayScale(from)],
    inRange: { color: colours },
  };
}

/** A heat map. `cell(row, column)` gives a value or NaN, `say` the tooltip of a cell.
 * With `categories` a value is the place of its category, and each has one of the colours. */
function heatOption({ rows, columns, cell, say, sayScale, colours, categories, range, xName, yName, marks = [], mark = "", describe }) {
  const data = [];
  let [low, high] = [Infinity, -Infinity];
  for (let c = 0; c < columns.length; c++) {
    for (let r = 0; r < rows.length; r++) {
      const value = cell(r, c);
      if (!Number.isFinite(value)) continue;
      data.push([c, r, value]);
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low > high) [low, high] = [0, 1];
  const [from, to] = range ? range(low, high) : [low, high];
  const names = marks.length ? [...columns, "▲"] : columns;
  return {
    describe,
    key: [
      ...(categories || []).map((name, k) => [box(colours[k]), name]),
      ...(marks.length ? [[marked("▲", "over"), mark]] : []),
    ],
    grid: { left: 58, right: 16, top: 34, bottom: categories ? 48 : 92 },
    xAxis: axis(xName, { type: "category", data: names, nameGap: 28, splitLine: { show: false }, axisLine: { show: false } }),
    yAxis: upright(yName, { type: "category", data: rows, inverse: true, nameLocation: "start", nameTextStyle: { color: themed("--muted"), align: "left", padding: [0, 0, 0, -46] }, splitLine: { show: false }, axisLine: { show: false } }),
    visualMap: heatScale({ from, to, sayScale, colours, categories }),
    tooltip: {
      trigger: "item",
      formatter: (at) => (at.seriesIndex === 0 ? say(at.data[1], at.data[0], at.data[2]) : say(at.data[1], null, null)),
    },
    series: [
      { type: "heatmap", data, emphasis: { itemStyle: { borderColor: themed("--text"), borderWidth: 1.5 } }, progressive: 0 },
      { type: "scatter", data: marks.map((row) => [columns.length, row]), symbol: "triangle", symbolSize: rows.length > 60 ? 5 : 9, color: WARNING },
    ],
  };
}
