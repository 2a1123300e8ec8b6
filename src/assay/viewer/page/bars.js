/* Bars: a mean with its interval, and the shares of verdicts. Small drawings, each with its figures in words. */
((assay) => {
  "use strict";
  const { element, svg } = assay.dom;
  const { formatScore, formatDifference, formatInterval, isNumber, formatPercent, formatCount } = assay.format;
  const WIDTH = 200;
  const HEIGHT = 18;

  /** A mean between `from` and `to` with a line for its interval. */
  function meanBar({ mean, low, high }, [from, to] = [0, 1]) {
    if (!isNumber(mean)) return element("span.note", {}, "no value");
    const xOf = (value) => ((Math.min(to, Math.max(from, value)) - from) / (to - from || 1)) * WIDTH;
    const [zero, end] = [xOf(0), xOf(mean)];
    const label = `${formatScore(mean)}${isNumber(low) ? `, 95 % interval ${formatInterval(low, high)}` : ""}`;
    return svg("svg.mean-bar", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      svg("title", {}, label),
      svg("rect.track", { x: 0, y: 5, width: WIDTH, height: 8, rx: 2 }),
      svg("rect.value", { x: Math.min(zero, end), y: 5, width: Math.max(1, Math.abs(end - zero)), height: 8, rx: 2 }),
      isNumber(low) ? whiskers(xOf(low), xOf(high)) : null);
  }

  /** A difference around zero with its interval. Under a negative weight less is better. */
  function differenceBar({ value, low, high }, reach, weight = 1) {
    if (!isNumber(value)) return element("span.note", {}, "no value");
    const xOf = (number) => WIDTH / 2 + (Math.min(reach, Math.max(-reach, number)) / (reach || 1)) * (WIDTH / 2 - 2);
    const interval = isNumber(low) ? `, 95 % interval ${formatDifference(low)} to ${formatDifference(high)}` : "";
    const label = `${formatDifference(value)}${interval}`;
    const isWorse = weight < 0 ? value > 0 : value < 0;
    return svg("svg.mean-bar.difference", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      svg("title", {}, label),
      svg("rect.track", { x: 0, y: 5, width: WIDTH, height: 8, rx: 2 }),
      svg(isWorse ? "rect.worse" : "rect.better", { x: Math.min(xOf(0), xOf(value)), y: 5, width: Math.max(1, Math.abs(xOf(value) - xOf(0))), height: 8 }),
      svg("line.zero", { x1: xOf(0), x2: xOf(0), y1: 1, y2: 17 }),
      isNumber(low) ? whiskers(xOf(low), xOf(high)) : null);
  }

  /** An interval as a line with an end on both sides. */
  function whiskers(left, right) {
    const line = svg("line.whisker", { x1: left, x2: right, y1: 9, y2: 9 });
    return [line, ...[left, right].map((x) => svg("line.whisker", { x1: x, x2: x, y1: 3, y2: 15 }))];
  }

  /** Shares of a whole as one bar, with a word for each; a part `{word, kind, count, href}` links to its rows. */
  function shares(parts) {
    const total = parts.reduce((sum, part) => sum + part.count, 0);
    const counted = parts.filter((part) => part.count > 0);
    if (!total) return element("span.note", {}, "no answers");
    return element("div.shares", {},
      element("div.share-bar", { "aria-hidden": "true" }, counted.map((part) => element(`span.${part.kind}`, { styles: { "flex-grow": String(part.count) } }))),
      element("div.share-words", {}, counted.map((part) => shareWord(part, total))));
  }

  function shareWord({ word, kind, count, href }, total) {
    const content = [element(`i.swatch.${kind}`, { "aria-hidden": "true" }), `${word} ${formatPercent(count / total)}`];
    const title = formatCount(count, "rollout");
    return href ? element("a", { href, title }, content) : element("span", { title }, content);
  }

  assay.bars = { meanBar, differenceBar, shares };
})((globalThis.Assay ??= {}));
