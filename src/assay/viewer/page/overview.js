/* Overview: the figures of a run, with what went wrong first. */
((assay) => {
  "use strict";
  const { element, fill, untrusted, section } = assay.dom;
  const { formatLarge, formatNumber, formatCount, formatScore, formatInterval, formatDollars, formatDuration, formatPercent, isNumber } = assay.format;
  const ERRORS_SHOWN = 5;

  /** Show the overview of a run, and again whenever the run has grown. */
  async function overview({ source, run }, main) {
    const show = async () => fill(main, makeParts(await source.overview(run.id), run));
    await show();
    return { title: "Overview", refresh: show };
  }

  function makeParts(data, run) {
    return [
      element("h1.unseen", {}, `Overview of ${run.name}`),
      errorBanner(data, run),
      data.complete === false && !run.live ? element("p.banner.quiet", {}, "The run was stopped before its end. The figures are about the rows that were finished.") : null,
      element("div.tiles", {}, tiles(data)),
      distribution(data, run),
      data.criteria.length ? assay.criteriaSection(data, run) : null,
      element("div.pair", {}, partsSection("Tags", data.tags, (name) => `tag:${assay.filters.quoteValue(name)}`, run),
        partsSection("Tasks", data.tasks, (name) => `task:${assay.filters.quoteValue(name)}`, run)),
      data.pass?.length ? passes(data) : null,
      extremes("Worst", data.worst, "score", formatScore, run),
      element("div.pair", {}, extremes("Slowest", data.slowest, "seconds", formatDuration, run), extremes("Most expensive", data.dearest, "cost", formatDollars, run)),
    ];
  }

  /** A banner at the top: how many rows have no score, and why. */
  function errorBanner({ errors, unscored, failed, rows }, run) {
    if (!errors.length && !unscored) return null;
    const problem = unscored ? `${formatCount(unscored, "rollout")} of ${formatNumber(rows)} ${unscored === 1 ? "has" : "have"} no score` : "Some questions have no answer";
    const cause = failed ? `, ${formatNumber(failed)} of them because there was nothing to score` : "";
    return element("section.banner.error", { role: "alert", "aria-label": "Errors" },
      element("h2", {}, element("span.sign", { "aria-hidden": "true" }, "!"), `${problem}${cause}.`),
      element("p", {}, "Rollouts without a score are left out of all means below. ",
        errors.some((error) => error.kind === "BudgetExceeded") ? "The budget ran out. The rollouts that were scored before are not a random sample, so the means are biased. " : null,
        element("a", { href: assay.routes.rows(run.id, { q: unscored ? "unscored" : "error" }) }, unscored ? "See the unscored rows" : "See the rows with errors")),
      element("ul.errors", {}, errors.slice(0, ERRORS_SHOWN).map((error) => errorLine(error, run))),
      errors.length > ERRORS_SHOWN ? element("details", {}, element("summary", {}, formatCount(errors.length - ERRORS_SHOWN, "more kind of error", "more kinds of error")),
        element("ul.errors", {}, errors.slice(ERRORS_SHOWN).map((error) => errorLine(error, run)))) : null);
  }

  function errorLine({ kind, criteria, count: occurrences, message, first_row: first }, run) {
    const filterByCriterion = criteria.length === 1 ? ` criterion:${assay.filters.quoteValue(criteria[0])} verdict:error` : "";
    const q = `error~${assay.filters.quoteValue(kind)}${filterByCriterion}`;
    const names = criteria.slice(0, 3).join(", ") + (criteria.length > 3 ? ` and ${formatNumber(criteria.length - 3)} more` : "");
    return element("li", {},
      element("a", { href: assay.routes.rows(run.id, { q }) }, `${formatNumber(occurrences)} × `, untrusted(kind)),
      element("span", {}, "in ", names ? element("b", {}, untrusted(names)) : "the rollout itself",
        first == null ? null : [", first in ", element("a", { href: assay.routes.row(run.id, first) }, `row ${first}`)]),
      message ? element("span.message-text", { title: message.slice(0, 1000) }, untrusted(shortened(message))) : null);
  }

  /** The beginning and the end of a long message: the end says what to do. */
  function shortened(message) {
    return message.length > 300 ? `${message.slice(0, 150)} … ${message.slice(-150)}` : message;
  }

  function tiles({ score: mean, reward, rows, scored, unscored, examples, spent, spent_on_model: onModel, spent_on_judge: onJudge }) {
    const tokensOf = (part) => formatLarge((part.prompt || 0) + (part.completion || 0));
    /** What the model under test and the judge took, if both were called; else another text. */
    const splitOr = (text, describe) => (onModel.calls && onJudge.calls ? `model ${describe(onModel)}, judge ${describe(onJudge)}` : text);
    const several = examples && examples !== rows;
    return [
      tile("Mean score", formatScore(mean.mean), isNumber(mean.low) ? `95 % interval ${formatInterval(mean.low, mean.high)}` : "no interval"),
      reward.mean !== mean.mean ? tile("Mean reward", formatScore(reward.mean), isNumber(reward.low) ? `95 % interval ${formatInterval(reward.low, reward.high)}` : "no interval") : null,
      tile("Rollouts", formatNumber(rows), [`${formatNumber(scored)} scored`, unscored ? `, ${formatNumber(unscored)} unscored` : "", several ? `, ${formatCount(examples, "example")}` : ""].join("")),
      tile("Cost", costOf(spent), splitOr(spent.unpriced ? `${formatCount(spent.unpriced, "call")} without a known price` : "of generation and judging", costOf)),
      tile("Tokens", tokensOf(spent), splitOr(`${formatLarge(spent.prompt || 0)} input, ${formatLarge(spent.completion || 0)} output`, tokensOf)),
      tile("Calls", formatNumber(spent.calls || 0), spent.hits ? `${formatNumber(spent.hits)} more from the cache` : "none from the cache"),
    ];
  }

  /** A spending leaves out what is nothing; a cost of null is not known. */
  function costOf(spent) {
    return spent.cost === null ? "not known" : formatDollars(spent.cost ?? 0);
  }

  function tile(name, value, note) {
    return element("div.tile", {}, element("div.tile-name", {}, name), element("div.tile-value", {}, value), element("div.note", {}, note));
  }

  function distribution({ score: scores, reward }, run) {
    const hasHistogram = (part) => part.histogram?.counts?.length;
    if (!hasHistogram(scores) && !hasHistogram(reward)) return section("Score distribution", {}, element("p.note", {}, "No rollout has a score."));
    const unit = hasHistogram(scores) ? "score" : "reward";
    const figures = hasHistogram(scores) ? scores : reward;
    const onrange = (low, high, last) => {
      const near = (value) => Number(value.toPrecision(6));
      assay.routes.go(assay.routes.rows(run.id, { q: `${unit}>=${near(low)} ${unit}${last ? "<=" : "<"}${near(high)}`, sort: unit }));
    };
    const note = isNumber(figures.mean) ? `line: mean ${formatScore(figures.mean)}${isNumber(figures.low) ? "; band: 95 % interval" : ""}` : "";
    return section(`${unit === "score" ? "Score" : "Reward"} distribution`, { note }, assay.histogram(figures.histogram, { unit, ...figures, onrange }));
  }

  function partsSection(title, items, query, run) {
    if (!items?.length || (items.length === 1 && items[0].name === "default")) return null;
    const reach = [Math.min(0, ...items.map((part) => part.low ?? part.mean ?? 0)), Math.max(1, ...items.map((part) => part.high ?? part.mean ?? 1))];
    return section(title, { note: "mean score, 95 % interval" }, element("table.figures", {},
      element("thead.unseen", {}, element("tr", {}, ["name", "mean", "mean with its interval", "rollouts"].map((name) => element("th", {}, name)))),
      element("tbody", {}, items.map((part) => element("tr", {},
        element("th", { scope: "row" }, element("a", { href: assay.routes.rows(run.id, { q: query(part.name) }) }, untrusted(part.name))),
        element("td.number", {}, formatScore(part.mean)),
        element("td.drawing", {}, assay.bars.meanBar(part, reach)),
        element("td.number.note", {}, formatCount(part.rows ?? part.count, "rollout")))))));
  }

  function passes({ pass, threshold, pass_measure }) {
    const head = ["k", "pass@k: one of k succeeds", "pass^k: all k succeed", "examples"];
    return section("Passes", { note: `a rollout passes with a ${pass_measure} of ${threshold} or more` }, element("table.figures", {},
      element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, pass.map((rate) => element("tr", {}, element("th", { scope: "row" }, rate.k),
        element("td", {}, formatPercent(rate.any)), element("td", {}, formatPercent(rate.all)), element("td.note", {}, formatNumber(rate.examples)))))));
  }

  function extremes(title, items, field, format, run) {
    if (!items?.length) return null;
    return section(title, {}, element("ol.extremes", {}, items.map((row) => element("li", {},
      element("a", { href: assay.routes.row(run.id, row.number) }, element("span.amount", {}, format(row[field])), ` row ${row.number}`),
      row.reason ? element("span.reason", {}, untrusted(row.reason)) : null,
      element("span.preview", {}, untrusted(row.preview))))));
  }

  assay.views = { ...assay.views, overview };
})((globalThis.Assay ??= {}));
