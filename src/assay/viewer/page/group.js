/* Group: the rollouts of one prompt side by side, with the advantage that each has over the others. */
((assay) => {
  "use strict";
  const { element, fill, foreign, section } = assay.dom;
  const { score, signed, plural, isNumber } = assay.words;

  async function group({ source, run, parts }, main) {
    const [told, criteria] = await Promise.all([source.group(run.id, parts[0]), source.criteria(run.id)]);
    const reach = Math.max(...told.rows.map((row) => Math.abs(row.advantage ?? 0)), 0);
    fill(main,
      element("h1", {}, "Example ", foreign(told.example), element("span.note", {}, meanOf(told))),
      section("Prompt", {}, assay.messages.messages(told.prompt)),
      section("Verdicts", {}, matrix(told.rows, criteria, run)),
      section("Rollouts", { note: "advantage: reward less the mean of the group" },
        element("div.group", { tabindex: "0", role: "region", "aria-label": "Rollouts side by side" }, told.rows.map((row) => card(row, run, reach)))));
    return { title: `Example ${told.example}`, keys: { Escape: () => assay.routes.go(assay.routes.rows(run.id, {})) } };
  }

  function meanOf({ rows }) {
    const rewards = rows.map((row) => row.reward).filter(isNumber);
    const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
    return `${plural(rows.length, "rollout")}${rewards.length ? `, mean reward ${score(mean)}` : ", none scored"}`;
  }

  /** Criteria down, rollouts across. */
  function matrix(rows, criteria, run) {
    const known = new Map(criteria.map((one) => [one.name, one]));
    const names = [...new Set(rows.flatMap((row) => row.lines.map((line) => line.name)))];
    const said = rows.map((row) => new Map(row.lines.map((line) => [line.name, line.verdict])));
    return element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Verdicts of all rollouts" }, element("table.figures.matrix", {},
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "criterion"), rows.map((row) =>
        element("th", { scope: "col" }, element("a", { href: assay.routes.row(run.id, row.number) }, `sample ${row.sample}`))))),
      element("tbody", {}, figureRows(rows), names.map((name) => element("tr", {}, element("th", { scope: "row" }, foreign(name)),
        said.map((verdicts) => element("td", {}, verdicts.has(name) ? assay.verdicts.dot(verdicts.get(name), known.get(name)) : "")))))));
  }

  function figureRows(rows) {
    const figures = [["score", (row) => score(row.score)], ["reward", (row) => score(row.reward)], ["advantage", (row) => signed(row.advantage)]];
    return figures.map(([name, words]) => element("tr", {}, element("th.note", { scope: "row" }, name),
      rows.map((row) => element("td", {}, row.scored ? words(row) : element("span.verdict.error", {}, "unscored")))));
  }

  function card(row, run, reach) {
    const judged = assay.said.judgedMessage(row.completion);
    return element("article.card.rollout-card", { "aria-label": `sample ${row.sample}` },
      element("header", {}, element("a", { href: assay.routes.row(run.id, row.number) }, `Sample ${row.sample}`),
        row.scored ? element("span", {}, `score ${score(row.score)}`) : element("span.verdict.error", {}, "unscored"),
        element("span.note", {}, `reward ${score(row.reward)}`)),
      element("div.advantage", {}, element("span", {}, `advantage ${signed(row.advantage)}`), assay.bars.differenceBar({ value: row.advantage }, reach)),
      row.error ? element("p.error-text", {}, foreign(row.error)) : null,
      element("div.card-said", { tabindex: "0", role: "region", "aria-label": `completion of sample ${row.sample}` },
        assay.messages.messages(row.completion, { marksOf: (place) => (place === judged ? assay.marks.marksOf(row.lines, row.text || "") : []) })));
  }

  assay.views = { ...assay.views, group };
})((globalThis.Assay ??= {}));
