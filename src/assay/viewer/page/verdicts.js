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
      sign ? element("span.sign", { "aria-hidden": "true" }, sign) : null, assay.dom.foreign(word));
  }

  /** The same where there is little room: the sign alone, with the word for those who cannot see it. */
  function dot(verdict, about, title) {
    const sign = signOf(verdict, about);
    const word = element("span", { class: sign ? "unseen" : null }, assay.dom.foreign(verdict));
    return element(`span.dot.${kindOf(verdict, about)}`, { title: title || verdict },
      sign ? element("span", { "aria-hidden": "true" }, sign) : null, word);
  }

  assay.verdicts = { kindOf, chip, dot };
})((globalThis.Assay ??= {}));
