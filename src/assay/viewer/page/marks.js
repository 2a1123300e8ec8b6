/* Marks: the parts of an answer that a reason quotes, given as ranges of the text and shown where they stand. */
((assay) => {
  "use strict";
  const HUES = 6;

  /** What a row's lines cite of one text, as marks of it, in order. Places count characters as Python does.
      `parts` are the addresses of the text; what has no address is quoted from the answer itself. */
  function marksOf(lines, text, parts = [undefined]) {
    const marks = [];
    lines.forEach((line, number) => {
      for (const { start, end, part } of line.evidence || []) {
        if (assay.words.isNumber(start) && parts.includes(part)) marks.push({ start, end, line: number, hue: number % HUES });
      }
    });
    return inUnits(marks, text).sort((one, other) => one.start - other.start || one.end - other.end);
  }

  /** JavaScript counts a character beyond the first 65,536 as two. */
  function inUnits(marks, text) {
    if (!marks.length || !/[\ud800-\udfff]/.test(text)) return marks;
    const wanted = new Set(marks.flatMap(({ start, end }) => [start, end]));
    const units = new Map();
    let points = 0;
    let unit = 0;
    for (const character of text) {
      if (wanted.has(points)) units.set(points, unit);
      points += 1;
      unit += character.length;
    }
    const at = (point) => units.get(point) ?? unit;
    return marks.map((mark) => ({ ...mark, start: at(mark.start), end: at(mark.end) }));
  }

  /** The marks that touch a range. */
  function within(marks, from, to) {
    return marks.filter((mark) => mark.start < to && mark.end > from);
  }

  /** A text that begins at `at` of the whole, in pieces, with the quoted parts marked. */
  function marked(text, at, { marks, all }) {
    const near = within(marks, at, at + text.length);
    if (!near.length) return assay.hidden.shown(text, all);
    const edges = new Set([at, at + text.length]);
    for (const { start, end } of near) for (const edge of [start, end]) if (edge > at && edge < at + text.length) edges.add(edge);
    const sorted = [...edges].sort((one, other) => one - other);
    return sorted.slice(0, -1).flatMap((from, place) => {
      const to = sorted[place + 1];
      const pieces = assay.hidden.shown(text.slice(from - at, to - at), all);
      const over = within(near, from, to);
      return over.length ? [wrapped(over, pieces)] : pieces;
    });
  }

  /** Something inside the marks that lie over it. */
  function wrapped(over, pieces) {
    const lines = [...new Set(over.map((mark) => mark.line))];
    return assay.dom.element(`mark.hue-${over[0].hue}`, { "data-lines": lines.join(" ") }, pieces);
  }

  assay.marks = { HUES, marksOf, within, marked, wrapped };
})((globalThis.Assay ??= {}));
