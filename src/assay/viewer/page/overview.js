/* Overview: what a run comes to. What went wrong stands first. */
((assay) => {
  "use strict";
  const { element, fill, foreign, section } = assay.dom;
  const { amount, count, plural, score, interval, dollars, seconds, percent, isNumber } = assay.words;
  const FIRST = 5;

  /** Show the overview of a run, and again whenever the run has grown. */
  async function overview({ source, run }, main) {
    const show = async () => fill(main, parts(await source.overview(run.id), run));
    await show();
    return { title: "Overview", refresh: show };
  }

  function parts(told, run) {
    return [
      element("h1.unseen", {}, `Overview of ${run.name}`),
      errorBanner(told, run),
      told.complete === false && !run.live ? element("p.banner.quiet", {}, "The run was stopped before its end. The figures are about the rows that were finished.") : null,
      element("div.tiles", {}, tiles(told)),
      distribution(told, run),
      told.criteria.length ? assay.criteriaSection(told, run) : null,
      element("div.pair", {}, partsSection("Tags", told.tags, (name) => `tag:${assay.filters.quoted(name)}`, run),
        partsSection("Tasks", told.tasks, (name) => `task:${assay.filters.quoted(name)}`, run)),
      told.pass?.length ? passes(told) : null,
      extremes("Worst", told.worst, "score", score, run),
      element("div.pair", {}, extremes("Slowest", told.slowest, "seconds", seconds, run), extremes("Most expensive", told.dearest, "cost", dollars, run)),
    ];
  }

  /** A banner at the top: how many rows have no score, and why. */
  function errorBanner({ errors, unscored, failed, rows }, run) {
    if (!errors.length && !unscored) return null;
    const lost = unscored ? `${plural(unscored, "rollout")} of ${count(rows)} ${unscored === 1 ? "has" : "have"} no score` : "Some questions have no answer";
    const why = failed ? `, ${count(failed)} of them because there was nothing to score` : "";
    return element("section.banner.error", { role: "alert", "aria-label": "Errors" },
      element("h2", {}, element("span.sign", { "aria-hidden": "true" }, "!"), `${lost}${why}.`),
      element("p", {}, "What has no score is in no mean below. ",
        errors.some((error) => error.kind === "BudgetExceeded") ? "The budget ran out, and what was scored before is no random sample: the means are biased. " : null,
        element("a", { href: assay.routes.rows(run.id, { q: unscored ? "unscored" : "error" }) }, unscored ? "See the unscored rows" : "See the rows with errors")),
      element("ul.errors", {}, errors.slice(0, FIRST).map((error) => errorLine(error, run))),
      errors.length > FIRST ? element("details", {}, element("summary", {}, plural(errors.length - FIRST, "more kind of error", "more kinds of error")),
        element("ul.errors", {}, errors.slice(FIRST).map((error) => errorLine(error, run)))) : null);
  }

  function errorLine({ kind, criteria, count: number, message, first_row: first }, run) {
    const only = criteria.length === 1 ? ` criterion:${assay.filters.quoted(criteria[0])} verdict:error` : "";
    const q = `error~${assay.filters.quoted(kind)}${only}`;
    const names = criteria.slice(0, 3).join(", ") + (criteria.length > 3 ? ` and ${count(criteria.length - 3)} more` : "");
    return element("li", {},
      element("a", { href: assay.routes.rows(run.id, { q }) }, `${count(number)} × `, foreign(kind)),
      element("span", {}, "in ", names ? element("b", {}, foreign(names)) : "the rollout itself",
        first == null ? null : [", first in ", element("a", { href: assay.routes.row(run.id, first) }, `row ${first}`)]),
      message ? element("span.message-text", { title: message.slice(0, 1000) }, foreign(shortened(message))) : null);
  }

  /** The beginning and the end of a long message: the end says what to do. */
  function shortened(message) {
    return message.length > 300 ? `${message.slice(0, 150)} … ${message.slice(-150)}` : message;
  }

  function tiles({ score: mean, reward, rows, scored, unscored, examples, spent }) {
    const several = examples && examples !== rows;
    return [
      tile("Mean score", score(mean.mean), isNumber(mean.low) ? `95 % interval ${interval(mean.low, mean.high)}` : "no interval"),
      reward.mean !== mean.mean ? tile("Mean reward", score(reward.mean), isNumber(reward.low) ? `95 % interval ${interval(reward.low, reward.high)}` : "no interval") : null,
      tile("Rollouts", count(rows), [`${count(scored)} scored`, unscored ? `, ${count(unscored)} unscored` : "", several ? `, ${plural(examples, "example")}` : ""].join("")),
      tile("Cost", costOf(spent), spent.unpriced ? `${plural(spent.unpriced, "call")} without a known price` : "of generation and judging"),
      tile("Tokens", amount((spent.prompt || 0) + (spent.completion || 0)), `${amount(spent.prompt || 0)} input, ${amount(spent.completion || 0)} output`),
      tile("Calls", count(spent.calls || 0), spent.hits ? `${count(spent.hits)} more from the cache` : "none from the cache"),
    ];
  }

  /** A spending leaves out what is nothing; a cost of null is not known. */
  function costOf(spent) {
    return spent.cost === null ? "not known" : dollars(spent.cost ?? 0);
  }

  function tile(name, value, note) {
    return element("div.tile", {}, element("div.tile-name", {}, name), element("div.tile-value", {}, value), element("div.note", {}, note));
  }

  function distribution({ score: scores, reward }, run) {
    const has = (one) => one.histogram?.counts?.length;
    if (!has(scores) && !has(reward)) return section("Score distribution", {}, element("p.note", {}, "No rollout is scored yet."));
    const unit = has(scores) ? "score" : "reward";
    const figures = has(scores) ? scores : reward;
    const onrange = (low, high, last) => {
      const near = (value) => Number(value.toPrecision(6));
      assay.routes.go(assay.routes.rows(run.id, { q: `${unit}>=${near(low)} ${unit}${last ? "<=" : "<"}${near(high)}`, sort: unit }));
    };
    const note = isNumber(figures.mean) ? `line: mean ${score(figures.mean)}${isNumber(figures.low) ? "; band: 95 % interval" : ""}` : "";
    return section(`${unit === "score" ? "Score" : "Reward"} distribution`, { note }, assay.histogram(figures.histogram, { unit, ...figures, onrange }));
  }

  function partsSection(title, list, query, run) {
    if (!list?.length || (list.length === 1 && list[0].name === "default")) return null;
    const reach = [Math.min(0, ...list.map((one) => one.low ?? one.mean ?? 0)), Math.max(1, ...list.map((one) => one.high ?? one.mean ?? 1))];
    return section(title, { note: "mean score, 95 % interval" }, element("table.figures", {},
      element("thead.unseen", {}, element("tr", {}, ["name", "mean", "mean with its interval", "rollouts"].map((name) => element("th", {}, name)))),
      element("tbody", {}, list.map((one) => element("tr", {},
        element("th", { scope: "row" }, element("a", { href: assay.routes.rows(run.id, { q: query(one.name) }) }, foreign(one.name))),
        element("td.number", {}, score(one.mean)),
        element("td.drawing", {}, assay.bars.meanBar(one, reach)),
        element("td.number.note", {}, plural(one.rows ?? one.count, "rollout")))))));
  }

  function passes({ pass, threshold, pass_measure }) {
    const head = ["k", "pass@k: one of k succeeds", "pass^k: all k succeed", "examples"];
    return section("Passes", { note: `a rollout passes with a ${pass_measure} of ${threshold} or more` }, element("table.figures", {},
      element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, pass.map((rate) => element("tr", {}, element("th", { scope: "row" }, rate.k),
        element("td", {}, percent(rate.any)), element("td", {}, percent(rate.all)), element("td.note", {}, count(rate.examples)))))));
  }

  function extremes(title, list, column, words, run) {
    if (!list?.length) return null;
    return section(title, {}, element("ol.extremes", {}, list.map((row) => element("li", {},
      element("a", { href: assay.routes.row(run.id, row.number) }, element("span.amount", {}, words(row[column])), ` row ${row.number}`),
      row.reason ? element("span.reason", {}, foreign(row.reason)) : null,
      element("span.preview", {}, foreign(row.preview))))));
  }

  assay.views = { ...assay.views, overview };
})((globalThis.Assay ??= {}));
