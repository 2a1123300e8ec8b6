/* Bars: a mean with its interval, and the shares of verdicts. Small drawings, each with its figures in words. */
((assay) => {
  "use strict";
  const { element, drawn } = assay.dom;
  const { score, interval, isNumber, percent, plural } = assay.words;
  const WIDTH = 200;
  const HEIGHT = 18;

  /** A mean between `from` and `to` with a line for its interval. */
  function meanBar({ mean, low, high }, [from, to] = [0, 1]) {
    if (!isNumber(mean)) return element("span.note", {}, "no value");
    const at = (value) => ((Math.min(to, Math.max(from, value)) - from) / (to - from || 1)) * WIDTH;
    const [zero, end] = [at(0), at(mean)];
    const words = `${score(mean)}${isNumber(low) ? `, 95 % interval ${interval(low, high)}` : ""}`;
    return drawn("svg.mean-bar", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": words },
      drawn("title", {}, words),
      drawn("rect.track", { x: 0, y: 5, width: WIDTH, height: 8, rx: 2 }),
      drawn("rect.value", { x: Math.min(zero, end), y: 5, width: Math.max(1, Math.abs(end - zero)), height: 8, rx: 2 }),
      isNumber(low) ? [
        drawn("line.whisker", { x1: at(low), x2: at(high), y1: 9, y2: 9 }),
        [at(low), at(high)].map((x) => drawn("line.whisker", { x1: x, x2: x, y1: 3, y2: 15 })),
      ] : null);
  }

  /** A difference around zero with its interval. Under a negative weight less is better. */
  function differenceBar({ value, low, high }, reach, weight = 1) {
    if (!isNumber(value)) return element("span.note", {}, "no value");
    const at = (one) => WIDTH / 2 + (Math.min(reach, Math.max(-reach, one)) / (reach || 1)) * (WIDTH / 2 - 2);
    const words = `${assay.words.signed(value)}${isNumber(low) ? `, 95 % interval ${assay.words.signed(low)} to ${assay.words.signed(high)}` : ""}`;
    return drawn("svg.mean-bar.difference", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": words },
      drawn("title", {}, words),
      drawn("rect.track", { x: 0, y: 5, width: WIDTH, height: 8, rx: 2 }),
      drawn(value * (weight < 0 ? -1 : 1) < 0 ? "rect.worse" : "rect.better", { x: Math.min(at(0), at(value)), y: 5, width: Math.max(1, Math.abs(at(value) - at(0))), height: 8 }),
      drawn("line.zero", { x1: at(0), x2: at(0), y1: 1, y2: 17 }),
      isNumber(low) ? [
        drawn("line.whisker", { x1: at(low), x2: at(high), y1: 9, y2: 9 }),
        [at(low), at(high)].map((x) => drawn("line.whisker", { x1: x, x2: x, y1: 3, y2: 15 })),
      ] : null);
  }

  /** Shares of a whole, side by side; each part `{word, kind, count, href}` leads to its rows. */
  function shares(parts) {
    const total = parts.reduce((sum, part) => sum + part.count, 0);
    const some = parts.filter((part) => part.count > 0);
    if (!total) return element("span.note", {}, "no answers");
    return element("div.shares", {},
      element("div.share-bar", { "aria-hidden": "true" }, some.map((part) => element(`span.${part.kind}`, { styles: { "flex-grow": String(part.count) } }))),
      element("div.share-words", {}, some.map((part) => shareWord(part, total))));
  }

  function shareWord({ word, kind, count, href }, total) {
    const words = [element(`i.swatch.${kind}`, { "aria-hidden": "true" }), `${word} ${percent(count / total)}`];
    const title = plural(count, "rollout");
    return href ? element("a", { href, title }, words) : element("span", { title }, words);
  }

  assay.bars = { meanBar, differenceBar, shares };
})((globalThis.Assay ??= {}));
