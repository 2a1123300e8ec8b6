/* Meant: the known word that is closest to one that is not, as Python's difflib finds it. */
((assay) => {
  "use strict";
  const CLOSE = 0.6;

  /** The end of a message about an unknown word: the one that was meant, or all there are. */
  function meant(word, known) {
    let best = null;
    for (const candidate of known) {
      const ratio = likeness(candidate, word);
      if (ratio < CLOSE) continue;
      if (!best || ratio > best.ratio || (ratio === best.ratio && candidate > best.candidate)) best = { ratio, candidate };
    }
    return best ? `did you mean '${best.candidate}'?` : `use ${known.join(", ")}`;
  }

  /** Twice the characters that two words share in order, of all that they have. */
  function likeness(one, other) {
    const total = one.length + other.length;
    return total ? (2 * shared(one, other)) / total : 1;
  }

  function shared(one, other) {
    const { from, at, length } = longest(one, other);
    if (!length) return 0;
    return length + shared(one.slice(0, from), other.slice(0, at)) + shared(one.slice(from + length), other.slice(at + length));
  }

  function longest(one, other) {
    let best = { from: 0, at: 0, length: 0 };
    for (let from = 0; from < one.length; from++) {
      for (let at = 0; at < other.length; at++) {
        let length = 0;
        while (from + length < one.length && one[from + length] === other[at + length] && at + length < other.length) length++;
        if (length > best.length) best = { from, at, length };
      }
    }
    return best;
  }

  assay.meant = meant;
})((globalThis.Assay ??= {}));
