/* SuggestWord: the known word that is closest to an unknown one, as Python's difflib finds it. */
((assay) => {
  "use strict";
  const LEAST_LIKENESS = 0.6;

  /** The end of a message about an unknown word: the closest known word, or all of them. */
  function suggestWord(word, known) {
    let best = null;
    for (const candidate of known) {
      const ratio = measureLikeness(candidate, word);
      if (ratio < LEAST_LIKENESS) continue;
      if (!best || ratio > best.ratio || (ratio === best.ratio && candidate > best.candidate)) best = { ratio, candidate };
    }
    return best ? `did you mean '${best.candidate}'?` : `use ${known.join(", ")}`;
  }

  /** The share of the characters of both words that they have in common, in order. */
  function measureLikeness(one, other) {
    const total = one.length + other.length;
    return total ? (2 * countShared(one, other)) / total : 1;
  }

  function countShared(one, other) {
    const { start, otherStart, length } = findLongestShared(one, other);
    if (!length) return 0;
    return length + countShared(one.slice(0, start), other.slice(0, otherStart)) + countShared(one.slice(start + length), other.slice(otherStart + length));
  }

  function findLongestShared(one, other) {
    let best = { start: 0, otherStart: 0, length: 0 };
    for (let start = 0; start < one.length; start++) {
      for (let otherStart = 0; otherStart < other.length; otherStart++) {
        let length = 0;
        while (start + length < one.length && otherStart + length < other.length && one[start + length] === other[otherStart + length]) length++;
        if (length > best.length) best = { start, otherStart, length };
      }
    }
    return best;
  }

  assay.suggestWord = suggestWord;
})((globalThis.Assay ??= {}));
