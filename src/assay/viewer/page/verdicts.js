/* Verdicts: one word with its colour and its sign. Colour is never the only thing that tells them apart. */
((assay) => {
  "use strict";
  const { element } = assay.dom;
  const SIGNS = { "N/A": "–", error: "!", "not asked": "·" };
  const TWO = ["MET", "UNMET"];
  const JUDGED = { good: "✓", bad: "✗" };

  /** The sign of a verdict: a tick for good news, and under a negative weight that is a fault which is not there. */
  function signOf(verdict, about) {
    return TWO.includes(verdict) ? JUDGED[kindOf(verdict, about)] : SIGNS[verdict];
  }

  /** The word by which people read a verdict: a negative criterion names a fault, which happened or was avoided. */
  function wordOf(verdict, about) {
    if ((about?.weight ?? 1) >= 0) return verdict;
    return { MET: "happened", UNMET: "avoided" }[verdict] ?? verdict;
  }

  /** How good a verdict is: `good`, `bad`, `middle`, `none` when it does not count, or `error`.

      `about` knows the weight, and the choices from worst to best; under a negative weight the best is bad. */
  function kindOf(verdict, about) {
    if (verdict === "error") return "error";
    if (verdict === "N/A" || verdict === "not asked" || verdict === "" || verdict == null) return "none";
    const worth = worthOf(verdict, about);
    if (worth === null) return "none";
    const good = (about?.weight ?? 1) < 0 ? 1 - worth : worth;
    return good >= 1 ? "good" : good <= 0 ? "bad" : "middle";
  }

  function worthOf(verdict, about) {
    const choices = about?.choices?.length > 1 ? about.choices : ["UNMET", "MET"];
    const place = choices.indexOf(verdict);
    if (place >= 0) return place / (choices.length - 1);
    const number = Number(verdict);
    return verdict.trim() === "" || Number.isNaN(number) ? null : number;
  }

  /** A verdict as a word with its sign. */
  function chip(verdict, about, given) {
    const word = verdict === "" || verdict == null ? "no verdict" : String(verdict);
    const sign = signOf(word, about);
    return element(`span.verdict.${kindOf(verdict, about)}`, given,
      sign ? element("span.sign", { "aria-hidden": "true" }, sign) : null, assay.dom.foreign(wordOf(word, about)));
  }

  /** The same where there is little room: the sign alone, with the word for those who cannot see it. */
  function dot(verdict, about, title) {
    const sign = signOf(verdict, about);
    const word = element("span", { class: sign ? "unseen" : null }, assay.dom.foreign(wordOf(verdict, about)));
    return element(`span.dot.${kindOf(verdict, about)}`, { title: title || wordOf(verdict, about) },
      sign ? element("span", { "aria-hidden": "true" }, sign) : null, word);
  }

  assay.verdicts = { kindOf, wordOf, chip, dot };
})((globalThis.Assay ??= {}));
