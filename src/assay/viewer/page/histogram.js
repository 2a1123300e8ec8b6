/* Histogram: the distribution of a number over the rollouts. uPlot draws it; the same figures are below it as a table. */
((assay) => {
  "use strict";
  const { element, fill } = assay.dom;
  const { formatNumber, formatCount, formatScore } = assay.format;
  const HEIGHT = 220;

  /** A chart of `{edges, counts}` in `unit`. `onrange(low, high, last)` is called with the bars that the reader picks. */
  function histogram({ edges, counts }, { unit, mean, low, high, onrange }) {
    const plotElement = element("div.plot", { role: "img", "aria-label": describe(edges, counts, unit, mean) });
    const caption = element("p.caption", { "aria-hidden": "true" });
    const setCaption = (text) => fill(caption, text);
    const hint = "Point at a bar for its count; click it, or drag over several, to see the rows.";
    setCaption(hint);
    const figure = element("figure.chart", {}, plotElement, caption, makeTable(edges, counts, unit, onrange));
    const draw = () => drawPlot(plotElement, { edges, counts, unit, mean, low, high, onrange, setCaption, hint });
    // The chart needs a width, which it has only when it is in the page.
    const observer = new ResizeObserver(draw);
    observer.observe(plotElement);
    document.addEventListener("themechange", function redraw() {
      if (plotElement.isConnected) draw();
      else document.removeEventListener("themechange", redraw);
    });
    return figure;
  }

  function describe(edges, counts, unit, mean) {
    const most = counts.indexOf(Math.max(...counts));
    const total = counts.reduce((sum, one) => sum + one, 0);
    return `Histogram of ${unit} over ${formatCount(total, "rollout")}, from ${formatScore(edges[0])} to ${formatScore(edges.at(-1))}. ` +
      `Mean ${formatScore(mean)}. Most, ${formatNumber(counts[most])}, lie between ${formatScore(edges[most])} and ${formatScore(edges[most + 1])}.`;
  }

  function makeTable(edges, counts, unit, onrange) {
    const rows = counts.map((number, index) => {
      const range = `${formatScore(edges[index])} to ${formatScore(edges[index + 1])}`;
      const pick = () => onrange(edges[index], edges[index + 1], index === counts.length - 1);
      return number ? element("tr", {}, element("td", {}, assay.dom.button(range, pick, { class: "link" })), element("td.number", {}, formatNumber(number))) : null;
    });
    return element("details", {}, element("summary", {}, "Show as a table"),
      element("table.plain", {}, element("thead", {}, element("tr", {}, element("th", {}, unit), element("th.number", {}, "rollouts"))), element("tbody", {}, rows)));
  }

  function drawPlot(plotElement, settings) {
    const width = Math.floor(plotElement.clientWidth);
    if (!width || (plotElement.plot && plotElement.drawnAt === `${width} ${assay.theme.isDark()}`)) return;
    plotElement.plot?.destroy();
    plotElement.drawnAt = `${width} ${assay.theme.isDark()}`;
    plotElement.plot = new globalThis.uPlot(makeOptions(width, settings), [settings.edges.slice(0, -1), settings.counts], plotElement);
    plotElement.plot.over.addEventListener("click", () => pickBar(plotElement.plot, settings));
  }

  function makeOptions(width, settings) {
    const { edges, unit } = settings;
    const { colour } = assay.theme;
    const axis = { stroke: colour("muted"), font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 18, labelGap: 2 };
    const line = { stroke: colour("line"), width: 1 };
    return {
      width, height: HEIGHT, legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: false, range: [edges[0], edges.at(-1)] }, y: { range: (_, __, most) => [0, most * 1.08 || 1] } },
      series: [{}, {
        paths: globalThis.uPlot.paths.bars({ align: 1, size: [1, Infinity], gap: 2, radius: 0.15 }),
        fill: colour("chart"), stroke: colour("chart"), width: 0, points: { show: false },
      }],
      axes: [
        { ...axis, label: unit, size: 30, grid: { show: false }, ticks: line },
        { ...axis, label: "rollouts", size: 46, grid: line, ticks: line, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000] },
      ],
      hooks: { draw: [(plot) => drawMean(plot, settings)], setCursor: [(plot) => showCount(plot, settings)], setSelect: [(plot) => pickRange(plot, settings)] },
    };
  }

  /** The mean as a line, with its interval as a band. */
  function drawMean(plot, { mean, low, high }) {
    if (!assay.format.isNumber(mean)) return;
    const { ctx, bbox } = plot;
    const at = (value) => plot.valToPos(value, "x", true);
    ctx.save();
    ctx.fillStyle = ctx.strokeStyle = assay.theme.colour("accent");
    if (assay.format.isNumber(low)) {
      ctx.globalAlpha = 0.15;
      ctx.fillRect(at(low), bbox.top, Math.max(1, at(high) - at(low)), bbox.height);
      ctx.globalAlpha = 1;
    }
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.moveTo(at(mean), bbox.top);
    ctx.lineTo(at(mean), bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  function barAt(plot, { edges, counts }) {
    const value = plot.posToVal(plot.cursor.left, "x");
    return Math.min(counts.length - 1, Math.max(0, edges.findLastIndex((edge) => edge <= value)));
  }

  function showCount(plot, settings) {
    if (plot.cursor.left < 0) return settings.setCaption(settings.hint);
    const bar = barAt(plot, settings);
    settings.setCaption(`${settings.unit} ${formatScore(settings.edges[bar])} to ${formatScore(settings.edges[bar + 1])}: ${formatCount(settings.counts[bar], "rollout")}`);
  }

  function pickBar(plot, settings) {
    if (plot.select.width > 4) return;
    const bar = barAt(plot, settings);
    settings.onrange(settings.edges[bar], settings.edges[bar + 1], bar === settings.counts.length - 1);
  }

  function pickRange(plot, settings) {
    const { left, width } = plot.select;
    if (width > 4) settings.onrange(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"), false);
  }

  assay.histogram = histogram;
})((globalThis.Assay ??= {}));
