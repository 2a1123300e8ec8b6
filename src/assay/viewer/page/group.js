/* Group: the rollouts of one prompt side by side, with the advantage that each has over the others. */
((assay) => {
  "use strict";
  const { element, fill, untrusted, section } = assay.dom;
  const { formatScore, formatDifference, formatCount, isNumber } = assay.format;

  async function group({ source, run, parts }, main) {
    const [data, criteria] = await Promise.all([source.group(run.id, parts[0]), source.criteria(run.id)]);
    const reach = Math.max(...data.rows.map((row) => Math.abs(row.advantage ?? 0)), 0);
    fill(main,
      element("h1", {}, "Example ", untrusted(data.example), element("span.note", {}, meanOf(data))),
      section("Prompt", {}, assay.messages.messages(data.prompt)),
      section("Verdicts", {}, matrix(data.rows, criteria, run)),
      section("Rollouts", { note: "advantage: reward minus the mean of the group" },
        element("div.group", { tabindex: "0", role: "region", "aria-label": "Rollouts side by side" }, data.rows.map((row) => card(row, run, reach)))));
    return { title: `Example ${data.example}`, keys: { Escape: () => assay.routes.go(assay.routes.rows(run.id, {})) } };
  }

  function meanOf({ rows }) {
    const rewards = rows.map((row) => row.reward).filter(isNumber);
    const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
    return `${formatCount(rows.length, "rollout")}${rewards.length ? `, mean reward ${formatScore(mean)}` : ", none scored"}`;
  }

  /** Criteria down, rollouts across. */
  function matrix(rows, criteria, run) {
    const criteriaByName = new Map(criteria.map((criterion) => [criterion.name, criterion]));
    const names = [...new Set(rows.flatMap((row) => row.lines.map((line) => line.name)))];
    const verdictsOfRows = rows.map((row) => new Map(row.lines.map((line) => [line.name, line.verdict])));
    return element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Verdicts of all rollouts" }, element("table.figures.matrix", {},
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "criterion"), rows.map((row) =>
        element("th", { scope: "col" }, element("a", { href: assay.routes.row(run.id, row.number) }, `sample ${row.sample}`))))),
      element("tbody", {}, figureRows(rows), names.map((name) => element("tr", {}, element("th", { scope: "row" }, untrusted(name)),
        verdictsOfRows.map((verdicts) => element("td", {}, verdicts.has(name) ? assay.verdicts.dot(verdicts.get(name), criteriaByName.get(name)) : "")))))));
  }

  function figureRows(rows) {
    const figures = [["score", (row) => formatScore(row.score)], ["reward", (row) => formatScore(row.reward)], ["advantage", (row) => formatDifference(row.advantage)]];
    return figures.map(([name, format]) => element("tr", {}, element("th.note", { scope: "row" }, name),
      rows.map((row) => element("td", {}, row.scored ? format(row) : element("span.verdict.error", {}, "unscored")))));
  }

  function card(row, run, reach) {
    const judgedIndex = assay.content.findJudged(row.completion);
    return element("article.card.rollout-card", { "aria-label": `sample ${row.sample}` },
      element("header", {}, element("a", { href: assay.routes.row(run.id, row.number) }, `Sample ${row.sample}`),
        row.scored ? element("span", {}, `score ${formatScore(row.score)}`) : element("span.verdict.error", {}, "unscored"),
        element("span.note", {}, `reward ${formatScore(row.reward)}`)),
      element("div.advantage", {}, element("span", {}, `advantage ${formatDifference(row.advantage)}`), assay.bars.differenceBar({ value: row.advantage }, reach)),
      row.error ? element("p.error-text", {}, untrusted(row.error)) : null,
      element("div.card-said", { tabindex: "0", role: "region", "aria-label": `completion of sample ${row.sample}` },
        assay.messages.messages(row.completion, { marksOf: (index) => (index === judgedIndex ? assay.marks.marksOf(row.lines, row.text || "") : []) })));
  }

  assay.views = { ...assay.views, group };
})((globalThis.Assay ??= {}));
