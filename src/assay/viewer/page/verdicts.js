/* Verdicts: one word with its colour and its sign. Colour is never the only thing that tells them apart. */
((assay) => {
  "use strict";
  const { element } = assay.dom;
  const SIGNS = { "N/A": "–", error: "!", "not asked": "·" };
  const BINARY = ["MET", "UNMET"];
  const SIGNS_OF_KINDS = { good: "✓", bad: "✗" };

  /** The sign of a verdict: a tick if it is good, which under a negative weight is UNMET. */
  function signOf(verdict, criterion) {
    return BINARY.includes(verdict) ? SIGNS_OF_KINDS[kindOf(verdict, criterion)] : SIGNS[verdict];
  }

  /** The word by which people read a verdict: a negative criterion names a fault, which happened or was avoided. */
  function wordOf(verdict, criterion) {
    if ((criterion?.weight ?? 1) >= 0) return verdict;
    return { MET: "happened", UNMET: "avoided" }[verdict] ?? verdict;
  }

  /** The class of a verdict: `good`, `bad`, `middle`, `none` if it does not count, or `error`.

      `criterion` has the weight, and the choices from worst to best; under a negative weight the best is bad. */
  function kindOf(verdict, criterion) {
    if (verdict === "error") return "error";
    if (verdict === "N/A" || verdict === "not asked" || verdict === "" || verdict == null) return "none";
    const value = valueOf(verdict, criterion);
    if (value === null) return "none";
    const goodness = (criterion?.weight ?? 1) < 0 ? 1 - value : value;
    return goodness >= 1 ? "good" : goodness <= 0 ? "bad" : "middle";
  }

  function valueOf(verdict, criterion) {
    const choices = criterion?.choices?.length > 1 ? criterion.choices : ["UNMET", "MET"];
    const index = choices.indexOf(verdict);
    if (index >= 0) return index / (choices.length - 1);
    const number = Number(verdict);
    return verdict.trim() === "" || Number.isNaN(number) ? null : number;
  }

  /** A verdict as a word with its sign. */
  function chip(verdict, criterion, attributes) {
    const word = verdict === "" || verdict == null ? "no verdict" : String(verdict);
    const sign = signOf(word, criterion);
    return element(`span.verdict.${kindOf(verdict, criterion)}`, attributes,
      sign ? element("span.sign", { "aria-hidden": "true" }, sign) : null, assay.dom.untrusted(wordOf(word, criterion)));
  }

  /** The same where there is little room: the sign alone, with the word for those who cannot see it. */
  function dot(verdict, criterion, title) {
    const sign = signOf(verdict, criterion);
    const word = element("span", { class: sign ? "unseen" : null }, assay.dom.untrusted(wordOf(verdict, criterion)));
    return element(`span.dot.${kindOf(verdict, criterion)}`, { title: title || wordOf(verdict, criterion) },
      sign ? element("span", { "aria-hidden": "true" }, sign) : null, word);
  }

  assay.verdicts = { kindOf, wordOf, chip, dot };
})((globalThis.Assay ??= {}));
