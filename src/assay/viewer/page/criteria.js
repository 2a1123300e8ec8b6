/* Criteria of the overview: how each came out, with met, unmet, not applicable and errors apart. */
((assay) => {
  "use strict";
  const { element, foreign, section } = assay.dom;
  const { score } = assay.words;
  const MANY = 50;

  /** All criteria of a run, one a line. */
  function criteriaSection({ criteria }, run) {
    const legend = criteria.some((one) => one.weight < 0) ? "; a criterion with a negative weight describes a fault: happened is bad, avoided is good" : "";
    const note = `mean with 95 % interval, and shares of verdicts${legend}`;
    const lines = (some) => element("div.criteria", {}, some.map((one) => criterionLine(one, run)));
    if (criteria.length <= MANY) return section("Criteria", { note }, lines(criteria));
    // Rows may bring thousands; the rest is drawn when it is asked for.
    const rest = element("details", {}, element("summary", {}, `${assay.words.count(criteria.length - MANY)} more`));
    rest.addEventListener("toggle", () => rest.append(lines(criteria.slice(MANY))), { once: true });
    return section("Criteria", { note }, lines(criteria.slice(0, MANY)), rest);
  }

  function criterionLine(one, run) {
    const name = `criterion:${assay.filters.quoted(one.name)}`;
    const domain = [Math.min(0, one.low ?? one.mean ?? 0), Math.max(1, one.high ?? one.mean ?? 1)];
    return element("div.criterion", { role: "group", "aria-label": one.name },
      element("div.criterion-name", {},
        element("a", { href: assay.routes.rows(run.id, { q: name }) }, foreign(one.name)),
        element("span.weight", { title: "weight" }, one.weight === null ? "weight varies" : `× ${one.weight}`),
        element("span.badge", {}, one.judged ? "judged" : "code"),
        one.counted ? null : element("span.badge", {}, "not counted"),
        one.required ? element("span.badge", { title: "If it fails, the score is capped." }, "required") : null,
        one.conditional ? element("span.badge", { title: "It is asked only if its condition holds." }, "conditional") : null,
        one.requirement && one.requirement !== one.name ? element("div.note", {}, foreign(one.requirement)) : null),
      element("div.criterion-mean", {}, element("span.figure", {}, score(one.mean)), assay.bars.meanBar(one, domain)),
      assay.bars.shares(shareParts(one, run, name)));
  }

  function shareParts(one, run, name) {
    const rows = (q) => assay.routes.rows(run.id, { q });
    const said = (word) => rows(`${name} verdict:${assay.filters.quoted(word)}`);
    return [
      ...(isScale(one) ? levels(one, said) : metOrNot(one, said)),
      { word: "N/A", kind: "none", count: one.not_applicable, href: rows(`${name} verdict:N/A`) },
      { word: "error", kind: "error", count: one.error, href: rows(`${name} verdict:error`) },
      { word: "not asked", kind: "unasked", count: one.unneeded || 0, href: rows(`${name} verdict:"not asked"`) },
    ];
  }

  /** Whether its verdicts are words of its own, which tell more than that it is met or not. */
  function isScale(one) {
    return one.verdicts.some(({ word }) => !["MET", "UNMET"].includes(word));
  }

  /** The levels of a scale, from worst to best. */
  function levels(one, said) {
    const choices = one.choices?.length > 1 ? one.choices : one.verdicts.map(({ word }) => word);
    const about = { choices, weight: one.weight ?? 1 };
    return one.verdicts.map(({ word, count }) => ({ word, count, kind: assay.verdicts.kindOf(word, about), href: said(word) }));
  }

  function metOrNot(one, said) {
    const [worst, best] = one.choices?.length === 2 ? one.choices : one.verdicts.length ? ["UNMET", "MET"] : [null, null];
    const negative = one.weight < 0;
    return [
      { word: negative ? "happened" : "met", kind: negative ? "bad" : "good", count: one.met, href: best && said(best) },
      { word: negative ? "avoided" : "unmet", kind: negative ? "good" : "bad", count: one.unmet, href: worst && said(worst) },
    ];
  }

  assay.criteriaSection = criteriaSection;
})((globalThis.Assay ??= {}));
