/* Criteria of the overview: the mean of each, and the shares of met, unmet, not applicable and errors. */
((assay) => {
  "use strict";
  const { element, untrusted, section } = assay.dom;
  const { formatScore } = assay.format;
  const MAX_SHOWN = 50;

  /** All criteria of a run, one per line. */
  function criteriaSection({ criteria }, run) {
    const legend = criteria.some((criterion) => criterion.weight < 0) ? "; a criterion with a negative weight describes a fault: happened is bad, avoided is good" : "";
    const note = `mean with 95 % interval, and shares of verdicts${legend}`;
    const lines = (shown) => element("div.criteria", {}, shown.map((criterion) => criterionLine(criterion, run)));
    if (criteria.length <= MAX_SHOWN) return section("Criteria", { note }, lines(criteria));
    // Rows may bring thousands of criteria; those beyond are drawn when the reader asks for them.
    const rest = element("details", {}, element("summary", {}, `${assay.format.formatNumber(criteria.length - MAX_SHOWN)} more`));
    rest.addEventListener("toggle", () => rest.append(lines(criteria.slice(MAX_SHOWN))), { once: true });
    return section("Criteria", { note }, lines(criteria.slice(0, MAX_SHOWN)), rest);
  }

  function criterionLine(criterion, run) {
    const filter = `criterion:${assay.filters.quoteValue(criterion.name)}`;
    const domain = [Math.min(0, criterion.low ?? criterion.mean ?? 0), Math.max(1, criterion.high ?? criterion.mean ?? 1)];
    return element("div.criterion", { role: "group", "aria-label": criterion.name },
      element("div.criterion-name", {},
        element("a", { href: assay.routes.rows(run.id, { q: filter }) }, untrusted(criterion.name)),
        element("span.weight", { title: "weight" }, criterion.weight === null ? "weight varies" : `× ${criterion.weight}`),
        criterion.judged === null ? null : element("span.badge", {}, criterion.judged ? "judged" : "code"),
        criterion.counted ? null : element("span.badge", {}, "not counted"),
        criterion.required ? element("span.badge", { title: "If it fails, the score is capped." }, "required") : null,
        criterion.conditional ? element("span.badge", { title: "It is asked only if its condition holds." }, "conditional") : null,
        criterion.requirement && criterion.requirement !== criterion.name ? element("div.note", {}, untrusted(criterion.requirement)) : null),
      element("div.criterion-mean", {}, element("span.figure", {}, formatScore(criterion.mean)), assay.bars.meanBar(criterion, domain)),
      assay.bars.shares(shareParts(criterion, run, filter)));
  }

  function shareParts(criterion, run, filter) {
    const linkToRows = (q) => assay.routes.rows(run.id, { q });
    const rowsWith = (word) => linkToRows(`${filter} verdict:${assay.filters.quoteValue(word)}`);
    return [
      ...(isScale(criterion) ? levelParts(criterion, rowsWith) : binaryParts(criterion, rowsWith)),
      { word: "N/A", kind: "none", count: criterion.not_applicable, href: linkToRows(`${filter} verdict:N/A`) },
      { word: "error", kind: "error", count: criterion.error, href: linkToRows(`${filter} verdict:error`) },
      { word: "not asked", kind: "unasked", count: criterion.unneeded || 0, href: linkToRows(`${filter} verdict:"not asked"`) },
    ];
  }

  /** Whether the criterion has levels of its own in place of met and unmet. */
  function isScale(criterion) {
    return criterion.verdicts.some(({ word }) => !["MET", "UNMET"].includes(word));
  }

  /** The levels of a scale, from worst to best. */
  function levelParts(criterion, rowsWith) {
    const choices = criterion.choices?.length > 1 ? criterion.choices : criterion.verdicts.map(({ word }) => word);
    const scale = { choices, weight: criterion.weight ?? 1 };
    return criterion.verdicts.map(({ word, count }) => ({ word, count, kind: assay.verdicts.kindOf(word, scale), href: rowsWith(word) }));
  }

  function binaryParts(criterion, rowsWith) {
    const [worst, best] = criterion.choices?.length === 2 ? criterion.choices : criterion.verdicts.length ? ["UNMET", "MET"] : [null, null];
    const negative = criterion.weight < 0;
    return [
      { word: negative ? "happened" : "met", kind: negative ? "bad" : "good", count: criterion.met, href: best && rowsWith(best) },
      { word: negative ? "avoided" : "unmet", kind: negative ? "good" : "bad", count: criterion.unmet, href: worst && rowsWith(worst) },
    ];
  }

  assay.criteriaSection = criteriaSection;
})((globalThis.Assay ??= {}));
