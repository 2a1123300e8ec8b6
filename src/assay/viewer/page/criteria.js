/* Criteria of the overview: how each came out, with met, unmet, not applicable and errors apart. */
((assay) => {
  "use strict";
  const { element, foreign, section } = assay.dom;
  const { score } = assay.words;

  /** All criteria of a run, one a line. */
  function criteriaSection({ criteria }, run) {
    const note = "mean with 95 % interval, and shares of verdicts";
    return section("Criteria", { note }, element("div.criteria", {}, criteria.map((one) => criterionLine(one, run))));
  }

  function criterionLine(one, run) {
    const name = `criterion:${assay.filters.quoted(one.name)}`;
    const domain = [Math.min(0, one.low ?? one.mean ?? 0), Math.max(1, one.high ?? one.mean ?? 1)];
    return element("div.criterion", { role: "group", "aria-label": one.name },
      element("div.criterion-name", {},
        element("a", { href: assay.routes.rows(run.id, { q: name }) }, foreign(one.name)),
        element("span.weight", { title: "weight" }, `× ${one.weight}`),
        one.counted ? null : element("span.badge", {}, "not counted"),
        one.requirement && one.requirement !== one.name ? element("div.note", {}, foreign(one.requirement)) : null),
      element("div.criterion-mean", {}, element("span.figure", {}, score(one.mean)), assay.bars.meanBar(one, domain)),
      assay.bars.shares(shareParts(one, run, name)));
  }

  function shareParts(one, run, name) {
    const rows = (q) => assay.routes.rows(run.id, { q });
    const [worst, best] = one.choices?.length === 2 ? one.choices : [null, null];
    const negative = one.weight < 0;
    return [
      { word: "met", kind: negative ? "bad" : "good", count: one.met, href: best && rows(`${name} verdict:${assay.filters.quoted(best)}`) },
      { word: "unmet", kind: negative ? "good" : "bad", count: one.unmet, href: worst && rows(`${name} verdict:${assay.filters.quoted(worst)}`) },
      { word: "N/A", kind: "none", count: one.not_applicable, href: rows(`${name} verdict:N/A`) },
      { word: "error", kind: "error", count: one.error, href: rows(`${name} verdict:error`) },
      { word: "not asked", kind: "unasked", count: one.unneeded || 0, href: rows(`${name} verdict:"not asked"`) },
    ];
  }

  assay.criteriaSection = criteriaSection;
})((globalThis.Assay ??= {}));
