/* Compare: two runs on the same examples, compared example by example. */
((assay) => {
  "use strict";
  const { element, fill, untrusted, button, section } = assay.dom;
  const { formatScore, formatDifference, formatP, formatNumber, formatCount, isNumber } = assay.format;
  const FLIPS_SHOWN = 50;

  /** Show the comparison of the two runs in the address. */
  async function compare({ source, runs, parts: runIds }, main) {
    const nameOf = (id) => runs.find((run) => run.id === id)?.name ?? id;
    const names = runIds.map(nameOf);
    fill(main, chooser(runs, runIds));
    try {
      const [comparison, criteria] = await Promise.all([source.compare(...runIds), source.criteria(runIds[1])]);
      // The weight and the choices of each criterion.
      const criteriaByName = new Map(criteria.map((criterion) => [criterion.name, criterion]));
      main.append(...makeSections(comparison, { source, runIds, names, criteriaByName }));
    } catch (error) {
      main.append(element("p.banner.error", { role: "alert" }, untrusted(error.message)));
    }
    return { title: names.join(" and ") };
  }

  function chooser(runs, [firstId, secondId]) {
    const makeSelect = (chosenId) => element("select", {}, runs.map((run) => element("option", { value: run.id, selected: run.id === chosenId }, run.name)));
    const first = makeSelect(firstId);
    const second = makeSelect(secondId);
    const show = () => assay.routes.go(assay.routes.compare(first.value, second.value));
    for (const select of [first, second]) select.addEventListener("change", show);
    const field = (label, select) => element("label.field", {}, element("span", {}, label), select);
    return element("div.toolbar", {}, element("h1", {}, "Compare"), field("Before", first), field("After", second),
      button("Swap", () => assay.routes.go(assay.routes.compare(secondId, firstId))));
  }

  function makeSections(comparison, pair) {
    return [
      headline(comparison),
      settingsSection(comparison, pair.names),
      section("Differences", { note: "after minus before, with 95 % interval; p of criteria adjusted by Holm's method" },
        element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Differences" }, differencesTable(comparison, pair))),
      leftOutSection(comparison, pair.names),
      flipsSection(comparison, pair),
    ].filter(Boolean);
  }

  function headline({ decision, score, examples, only_first: onlyFirst, only_second: onlySecond }) {
    const { value } = score.difference;
    const isCertain = isNumber(score.p) && score.p < 0.05 && value;
    const tone = isCertain ? (value > 0 ? "good" : "error") : "quiet";
    return element(`section.banner.${tone}`, { "aria-label": "Result" },
      element("h2", {}, untrusted(decision)),
      element("p", {}, `${formatCount(examples, "example")} in both runs, ${formatNumber(onlyFirst)} only before, ${formatNumber(onlySecond)} only after.`));
  }

  /** The settings in which the runs differ, such as model and prompt. */
  function settingsSection({ changes: settings }, names) {
    if (!settings?.length) return null;
    const head = ["", ...names];
    return section("What differs", {}, element("table.figures", {},
      element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, untrusted(name))))),
      element("tbody", {}, settings.map(({ setting, first, second }) => element("tr", {},
        element("th", { scope: "row" }, untrusted(setting)), element("td", {}, untrusted(first)), element("td", {}, untrusted(second)))))));
  }

  /** A row for the score and one for each criterion. */
  function differencesTable({ score, criteria }, { names, criteriaByName }) {
    const bounds = [score, ...criteria].flatMap(({ difference }) => [difference.low, difference.high, difference.value]);
    const reach = Math.max(0.1, ...bounds.filter(isNumber).map(Math.abs)); // of all bars, on both sides of zero
    const head = ["", "before", "after", "difference", "", "p", "better", "worse", "minimum detectable effect"];
    const tooltips = [null, ...names];
    return element("table.figures.differences.stacks", {},
      element("thead", {}, element("tr", {}, head.map((name, index) => element("th", { scope: "col", title: tooltips[index] }, name)))),
      element("tbody", {}, differenceRow(score, reach, 1, { class: "whole" }),
        criteria.map((criterion) => differenceRow(criterion, reach, criteriaByName.get(criterion.name)?.weight))));
  }

  function differenceRow({ name, weight, first, second, difference, p, better, worse, minimum_detectable_effect: detectable }, reach, barWeight, attributes) {
    const negative = weight < 0 ? element("span.badge", { title: "describes a fault, so less is better" }, "negative") : null;
    const figure = (label, content, more) => element("td.number", { "data-label": label, ...more }, content);
    return element("tr", attributes,
      element("th", { scope: "row" }, untrusted(name), negative),
      figure("before", formatScore(first)),
      figure("after", formatScore(second)),
      figure("difference", formatDifference(difference.value)),
      element("td.drawing.wide", {}, assay.bars.differenceBar(difference, reach, barWeight)),
      figure("p", formatP(p), { class: isNumber(p) && p < 0.05 ? "sure" : null }),
      figure("better", formatNumber(better)),
      figure("worse", formatNumber(worse)),
      figure("minimum detectable effect", formatScore(detectable)));
  }

  /** What is not compared, and why. */
  function leftOutSection({ other_example: otherExamples, other_rubric: otherRubrics, other_wording: reworded, missing, score }, names) {
    const [unscoredBefore, unscoredAfter] = score.unanswered || [0, 0];
    const sentences = [
      otherExamples ? `${formatCount(otherExamples, "row")} with the same number, another prompt and other data.` : "",
      otherRubrics ? `Scores of ${formatCount(otherRubrics, "example")}, which another rubric scored in ${names[1]}.` : "",
      reworded?.length ? `With another wording in ${names[1]}: ${reworded.join(", ")}.` : "",
      missing?.first?.length ? `Only in ${names[0]}: ${missing.first.join(", ")}.` : "",
      missing?.second?.length ? `Only in ${names[1]}: ${missing.second.join(", ")}.` : "",
      unscoredBefore || unscoredAfter ? `Without a score: ${formatCount(unscoredBefore, "rollout")} before, ${formatNumber(unscoredAfter)} after.` : "",
    ].filter(Boolean);
    if (!sentences.length) return null;
    return section("Left out", {}, element("ul", {}, sentences.map((sentence) => element("li", {}, untrusted(sentence)))));
  }

  /** The rollouts whose result changed; a checkbox shows only those of which one passes and the other fails. */
  function flipsSection({ flips, pass_rule: passRule }, pair) {
    const differing = flips.filter(({ passed }) => passed[0] !== passed[1] && !passed.includes(null));
    const body = element("tbody", {});
    const checkbox = element("input", { type: "checkbox" });
    const showAll = button("", () => {
      addRows(chosenFlips().slice(FLIPS_SHOWN));
      showAll.hidden = true;
    });
    const chosenFlips = () => (checkbox.checked ? differing : flips);
    const addRows = (chosen) => body.append(...chosen.map((flip) => flipRow(flip, pair)));
    const showFirst = () => {
      fill(body);
      addRows(chosenFlips().slice(0, FLIPS_SHOWN));
      const hiddenCount = chosenFlips().length - FLIPS_SHOWN;
      showAll.textContent = `Show the other ${formatNumber(hiddenCount)}`;
      showAll.hidden = hiddenCount <= 0;
    };
    checkbox.addEventListener("change", showFirst);
    showFirst();
    const note = formatCount(flips.length, "rollout whose result changed", "rollouts whose result changed");
    if (!flips.length) return section("Flips", { note });
    const label = `Only where one passes and the other fails (${formatNumber(differing.length)}; ${passRule})`;
    const head = ["example", "before", "after", "changed answers", ""];
    return section("Flips", { note },
      element("div.choices", {}, element("label", {}, checkbox, element("span", {}, label))),
      element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Flips" },
        element("table.figures.flips.stacks", {}, element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, name)))), body)),
      showAll);
  }

  function flipRow({ example, sample, before, after, changes, first_row: firstRow, second_row: secondRow }, pair) {
    const toggle = button("Side by side", async () => {
      if (row.nextElementSibling?.matches(".transcripts")) row.nextElementSibling.remove();
      else row.after(await transcriptsRow(example, [firstRow, secondRow], pair));
    });
    const row = element("tr", {},
      element("th", { scope: "row" }, untrusted(example), sample ? element("span.note", {}, ` sample ${sample}`) : null),
      scoreCell("before", before, pair.runIds[0], firstRow),
      scoreCell("after", after, pair.runIds[1], secondRow),
      element("td.wide", {}, element("div.changes", {}, changes.map((change) => changedAnswer(change, pair.criteriaByName.get(change.criterion))))),
      element("td", {}, firstRow == null || secondRow == null ? null : toggle));
    return row;
  }

  /** A score with a link to its row, if the run has that row. */
  function scoreCell(label, score, runId, rowNumber) {
    if (rowNumber == null) return element("td.number", { "data-label": label }, formatScore(score));
    const text = isNumber(score) ? formatScore(score) : "unscored";
    return element("td.number", { "data-label": label }, element("a", { href: assay.routes.row(runId, rowNumber) }, text));
  }

  function changedAnswer({ criterion: name, before, after, reason_before: reasonBefore, reason_after: reasonAfter }, criterion) {
    return element("span.change", { title: [reasonBefore, reasonAfter].filter(Boolean).join(" → ") },
      untrusted(name), " ", assay.verdicts.chip(before, criterion), " → ", assay.verdicts.chip(after, criterion));
  }

  /** The transcripts of one rollout in both runs, next to each other. */
  async function transcriptsRow(example, rowNumbers, { source, runIds, names }) {
    const rows = await Promise.all(rowNumbers.map((number, index) => source.row(runIds[index], number)));
    return element("tr.transcripts", {}, element("td.wide", { colspan: "5" },
      element("div.group", { tabindex: "0", role: "region", "aria-label": `Both transcripts of ${example}` },
        rows.map((row, index) => transcript(row, names[index])))));
  }

  function transcript(row, runName) {
    return element("article.card.rollout-card", { "aria-label": runName },
      element("header", {}, untrusted(runName), row.scored ? element("span", {}, `score ${formatScore(row.score)}`) : element("span.verdict.error", {}, "unscored")),
      element("div.card-said", { tabindex: "0", role: "region", "aria-label": `Transcript in ${runName}` },
        assay.messages.messages(row.prompt), assay.messages.messages(row.completion)));
  }

  assay.views = { ...assay.views, compare };
})((globalThis.Assay ??= {}));
