/* Marks: the parts of an answer that a reason quotes, given as ranges of the text and shown where they stand. */
((assay) => {
  "use strict";
  const HUES = 6;

  /** The marks of one text, in order: what the lines of a row cite of it. Offsets count characters as Python does.
      `addresses` are the addresses of the text; a quotation without an address is from the answer itself. */
  function marksOf(lines, text, addresses = [undefined]) {
    const marks = [];
    lines.forEach((line, index) => {
      for (const { start, end, part } of line.evidence || []) {
        if (assay.format.isNumber(start) && addresses.includes(part)) marks.push({ start, end, line: index, hue: index % HUES });
      }
    });
    return toStringIndices(marks, text).sort((one, other) => one.start - other.start || one.end - other.end);
  }

  /** The same marks by the indices of a JavaScript string, in which a character beyond the first 65,536 counts as two. */
  function toStringIndices(marks, text) {
    if (!marks.length || !/[\ud800-\udfff]/.test(text)) return marks;
    const wanted = new Set(marks.flatMap(({ start, end }) => [start, end]));
    const indexOf = new Map();
    let characters = 0;
    let index = 0;
    for (const character of text) {
      if (wanted.has(characters)) indexOf.set(characters, index);
      characters += 1;
      index += character.length;
    }
    const convert = (offset) => indexOf.get(offset) ?? index;
    return marks.map((mark) => ({ ...mark, start: convert(mark.start), end: convert(mark.end) }));
  }

  /** The marks that overlap a range. */
  function findWithin(marks, start, end) {
    return marks.filter((mark) => mark.start < end && mark.end > start);
  }

  /** A part of a text, which begins at the index `offset`, in pieces, of which the quoted ones are marked. */
  function markText(part, offset, { marks, all }) {
    const end = offset + part.length;
    const overlapping = findWithin(marks, offset, end);
    if (!overlapping.length) return assay.hidden.withBadges(part, all);
    const edges = new Set([offset, end]);
    for (const mark of overlapping) {
      for (const edge of [mark.start, mark.end]) if (edge > offset && edge < end) edges.add(edge);
    }
    const sortedEdges = [...edges].sort((one, other) => one - other);
    return sortedEdges.slice(0, -1).flatMap((pieceStart, index) => {
      const pieceEnd = sortedEdges[index + 1];
      const piece = assay.hidden.withBadges(part.slice(pieceStart - offset, pieceEnd - offset), all);
      const pieceMarks = findWithin(overlapping, pieceStart, pieceEnd);
      return pieceMarks.length ? [wrapInMark(pieceMarks, piece)] : piece;
    });
  }

  /** Content inside of an element for these marks, in the colour of the first. */
  function wrapInMark(marks, content) {
    const lines = [...new Set(marks.map((mark) => mark.line))];
    return assay.dom.element(`mark.hue-${marks[0].hue}`, { "data-lines": lines.join(" ") }, content);
  }

  assay.marks = { HUES, marksOf, findWithin, markText, wrapInMark };
})((globalThis.Assay ??= {}));
