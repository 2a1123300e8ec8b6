/* Histogram: how a number is spread over the rollouts. uPlot draws it; the same figures stand below it as a table. */
((assay) => {
  "use strict";
  const { element, fill } = assay.dom;
  const { count, plural, score } = assay.words;
  const HEIGHT = 220;

  /** A chart of `{edges, counts}` in `unit`. `onrange(low, high, last)` is told of the bars that are picked. */
  function histogram({ edges, counts }, { unit, mean, low, high, onrange }) {
    const place = element("div.plot", { role: "img", "aria-label": described(edges, counts, unit, mean) });
    const caption = element("p.caption", { "aria-hidden": "true" });
    const say = (text) => fill(caption, text);
    const hint = "Point at a bar for its count; click it, or drag over several, to see the rows.";
    say(hint);
    const figure = element("figure.chart", {}, place, caption, asTable(edges, counts, unit, onrange));
    const draw = () => drawn(place, { edges, counts, unit, mean, low, high, onrange, say, hint });
    // It needs a width, and has one only when it is in the page.
    const watched = new ResizeObserver(draw);
    watched.observe(place);
    document.addEventListener("themechange", function again() {
      if (place.isConnected) draw();
      else document.removeEventListener("themechange", again);
    });
    return figure;
  }

  function described(edges, counts, unit, mean) {
    const most = counts.indexOf(Math.max(...counts));
    const total = counts.reduce((sum, one) => sum + one, 0);
    return `Histogram of ${unit} over ${plural(total, "rollout")}, from ${score(edges[0])} to ${score(edges.at(-1))}. ` +
      `Mean ${score(mean)}. Most, ${count(counts[most])}, lie between ${score(edges[most])} and ${score(edges[most + 1])}.`;
  }

  function asTable(edges, counts, unit, onrange) {
    const rows = counts.map((number, place) => {
      const words = `${score(edges[place])} to ${score(edges[place + 1])}`;
      const pick = () => onrange(edges[place], edges[place + 1], place === counts.length - 1);
      return number ? element("tr", {}, element("td", {}, assay.dom.button(words, pick, { class: "link" })), element("td.number", {}, count(number))) : null;
    });
    return element("details", {}, element("summary", {}, "The same as a table"),
      element("table.plain", {}, element("thead", {}, element("tr", {}, element("th", {}, unit), element("th.number", {}, "rollouts"))), element("tbody", {}, rows)));
  }

  function drawn(place, given) {
    const width = Math.floor(place.clientWidth);
    if (!width || (place.plot && place.drawnAt === `${width} ${assay.theme.isDark()}`)) return;
    place.plot?.destroy();
    place.drawnAt = `${width} ${assay.theme.isDark()}`;
    place.plot = new globalThis.uPlot(options(width, given), [given.edges.slice(0, -1), given.counts], place);
    place.plot.over.addEventListener("click", () => pickOne(place.plot, given));
  }

  function options(width, given) {
    const { edges, unit } = given;
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
      hooks: { draw: [(plot) => drawMean(plot, given)], setCursor: [(plot) => point(plot, given)], setSelect: [(plot) => pickSome(plot, given)] },
    };
  }

  /** The mean as a line, with its interval as a band. */
  function drawMean(plot, { mean, low, high }) {
    if (!assay.words.isNumber(mean)) return;
    const { ctx, bbox } = plot;
    const at = (value) => plot.valToPos(value, "x", true);
    ctx.save();
    ctx.fillStyle = ctx.strokeStyle = assay.theme.colour("accent");
    if (assay.words.isNumber(low)) {
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

  function point(plot, given) {
    if (plot.cursor.left < 0) return given.say(given.hint);
    const bar = barAt(plot, given);
    given.say(`${given.unit} ${score(given.edges[bar])} to ${score(given.edges[bar + 1])}: ${plural(given.counts[bar], "rollout")}`);
  }

  function pickOne(plot, given) {
    if (plot.select.width > 4) return;
    const bar = barAt(plot, given);
    given.onrange(given.edges[bar], given.edges[bar + 1], bar === given.counts.length - 1);
  }

  function pickSome(plot, given) {
    const { left, width } = plot.select;
    if (width > 4) given.onrange(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"), false);
  }

  assay.histogram = histogram;
})((globalThis.Assay ??= {}));
