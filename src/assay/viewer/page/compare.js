/* Compare: two runs on the same examples, held against each other example by example. */
((assay) => {
  "use strict";
  const { element, fill, foreign, button, section } = assay.dom;
  const { score, signed, chance, count, plural, isNumber } = assay.words;
  const FIRST = 50;

  async function compare({ source, runs, parts }, main) {
    const [first, second] = parts;
    const named = (id) => runs.find((run) => run.id === id)?.name ?? id;
    const names = [named(first), named(second)];
    fill(main, chooser(runs, first, second));
    try {
      const [told, criteria] = await Promise.all([source.compare(first, second), source.criteria(second)]);
      main.append(...shown(told, first, second, names, new Map(criteria.map((one) => [one.name, one])), source));
    } catch (error) {
      main.append(element("p.banner.error", { role: "alert" }, foreign(error.message)));
    }
    return { title: `${names[0]} and ${names[1]}` };
  }

  function chooser(runs, first, second) {
    const pick = (label, chosen) => {
      const select = element("select", {}, runs.map((run) => element("option", { value: run.id, selected: run.id === chosen }, run.name)));
      return [element("label.field", {}, element("span", {}, label), select), select];
    };
    const [before, one] = pick("Before", first);
    const [after, other] = pick("After", second);
    const go = () => assay.routes.go(assay.routes.compare(one.value, other.value));
    one.addEventListener("change", go);
    other.addEventListener("change", go);
    return element("div.toolbar", {}, element("h1", {}, "Compare"), before, after,
      button("Swap", () => assay.routes.go(assay.routes.compare(second, first))));
  }

  /** `known` has the weight and the choices of each criterion. */
  function shown(told, first, second, names, known, source) {
    const reach = Math.max(0.1, ...[told.score, ...told.criteria].flatMap(({ difference }) => [difference.low, difference.high, difference.value]).filter(isNumber).map(Math.abs));
    return [
      headline(told),
      changes(told, names),
      section("Differences", { note: "after minus before, with 95 % interval; p of criteria adjusted by Holm's method" },
        element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Differences" }, differences(told, names, reach, known))),
      leftOut(told, names),
      flips(told, first, second, names, known, source),
    ].filter(Boolean);
  }

  function headline({ decision, score: whole, examples, only_first: before, only_second: after }) {
    const { value } = whole.difference;
    const sure = isNumber(whole.p) && whole.p < 0.05 && value;
    return element(`section.banner.${!sure ? "quiet" : value > 0 ? "good" : "error"}`, { "aria-label": "Result" },
      element("h2", {}, foreign(decision)),
      element("p", {}, `${plural(examples, "example")} in both runs, ${count(before)} only before, ${count(after)} only after.`));
  }

  /** The settings in which the runs differ, such as model and prompt. */
  function changes({ changes: all }, names) {
    if (!all?.length) return null;
    const head = ["", ...names];
    return section("What differs", {}, element("table.figures", {},
      element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, foreign(name))))),
      element("tbody", {}, all.map((change) => element("tr", {}, element("th", { scope: "row" }, foreign(change.setting)),
        element("td", {}, foreign(change.first)), element("td", {}, foreign(change.second)))))));
  }

  function differences({ score: whole, criteria }, names, reach, known) {
    const head = ["", "before", "after", "difference", "", "p", "better", "worse", "minimum detectable effect"];
    const titles = [null, names[0], names[1]];
    return element("table.figures.differences.stacks", {},
      element("thead", {}, element("tr", {}, head.map((name, place) => element("th", { scope: "col", title: titles[place] }, name)))),
      element("tbody", {}, [whole, ...criteria].map((one) => differenceRow(one, one === whole, reach, known.get(one.name)?.weight))));
  }

  function differenceRow({ name, weight, first, second, difference, p, better, worse, minimum_detectable_effect: detectable }, isWhole, reach, knownWeight) {
    const negative = weight < 0 ? element("span.badge", { title: "describes a fault, so less is better" }, "negative") : null;
    const figure = (label, content, given) => element("td.number", { "data-label": label, ...given }, content);
    return element("tr", { class: isWhole ? "whole" : null },
      element("th", { scope: "row" }, foreign(name), negative),
      figure("before", score(first)),
      figure("after", score(second)),
      figure("difference", signed(difference.value)),
      element("td.drawing.wide", {}, assay.bars.differenceBar(difference, reach, knownWeight)),
      figure("p", chance(p), { class: isNumber(p) && p < 0.05 ? "sure" : null }),
      figure("better", count(better)),
      figure("worse", count(worse)),
      figure("minimum detectable effect", score(detectable)));
  }

  /** What is not compared, and why. */
  function leftOut({ other_example: others, other_rubric: rubrics, other_wording: worded, missing, score: whole }, names) {
    const [before, after] = whole.unanswered || [0, 0];
    const said = [
      others ? `${plural(others, "row")} with the same number, another prompt and other data.` : "",
      rubrics ? `Scores of ${plural(rubrics, "example")}, which another rubric scored in ${names[1]}.` : "",
      worded?.length ? `With another wording in ${names[1]}: ${worded.join(", ")}.` : "",
      missing?.first?.length ? `Only in ${names[0]}: ${missing.first.join(", ")}.` : "",
      missing?.second?.length ? `Only in ${names[1]}: ${missing.second.join(", ")}.` : "",
      before || after ? `Without a score: ${plural(before, "rollout")} before, ${count(after)} after.` : "",
    ].filter(Boolean);
    return said.length ? section("Left out", {}, element("ul", {}, said.map((words) => element("li", {}, foreign(words))))) : null;
  }

  function flips({ flips: all, pass_rule: rule }, first, second, names, known, source) {
    const list = element("tbody", {});
    const show = (some) => list.append(...some.map((flip) => flipRow(flip, first, second, names, known, source)));
    const differing = all.filter(({ passed }) => passed[0] !== passed[1] && !passed.includes(null));
    const more = button("", () => { show(chosen().slice(FIRST)); more.hidden = true; });
    const only = element("input", { type: "checkbox" });
    const chosen = () => (only.checked ? differing : all);
    const refill = () => {
      fill(list);
      show(chosen().slice(0, FIRST));
      more.textContent = `Show the other ${count(chosen().length - FIRST)}`;
      more.hidden = chosen().length <= FIRST;
    };
    only.addEventListener("change", refill);
    refill();
    const head = ["example", "before", "after", "changed answers", ""];
    const filter = element("div.choices", {}, element("label", {}, only, element("span", {}, `Only where one passes and the other fails (${count(differing.length)}; ${rule})`)));
    return section("Flips", { note: plural(all.length, "rollout whose result changed", "rollouts whose result changed") },
      all.length ? [filter, element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Flips" },
        element("table.figures.flips.stacks", {}, element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, name)))), list))] : null, more);
  }

  function flipRow({ example, sample, before, after, changes, first_row: one, second_row: other }, first, second, names, known, source) {
    const link = (label, run, number, value) => element("td.number", { "data-label": label }, number == null ? score(value) : element("a", { href: assay.routes.row(run, number) }, isNumber(value) ? score(value) : "unscored"));
    const toggle = button("Side by side", async () => {
      if (row.nextElementSibling?.matches(".transcripts")) return row.nextElementSibling.remove();
      const rows = await Promise.all([source.row(first, one), source.row(second, other)]);
      row.after(element("tr.transcripts", {}, element("td.wide", { colspan: "5" },
        element("div.group", { tabindex: "0", role: "region", "aria-label": `Both transcripts of ${example}` }, rows.map((found, place) => transcript(found, names[place]))))));
    });
    const row = element("tr", {}, element("th", { scope: "row" }, foreign(example), sample ? element("span.note", {}, ` sample ${sample}`) : null),
      link("before", first, one, before), link("after", second, other, after),
      element("td.wide", {}, element("div.changes", {}, changes.map((change) => element("span.change", { title: [change.reason_before, change.reason_after].filter(Boolean).join(" → ") },
        foreign(change.criterion), " ", assay.verdicts.chip(change.before, known.get(change.criterion)), " → ", assay.verdicts.chip(change.after, known.get(change.criterion)))))),
      element("td", {}, one == null || other == null ? null : toggle));
    return row;
  }

  function transcript(row, name) {
    return element("article.card.rollout-card", { "aria-label": name },
      element("header", {}, foreign(name), row.scored ? element("span", {}, `score ${score(row.score)}`) : element("span.verdict.error", {}, "unscored")),
      element("div.card-said", { tabindex: "0", role: "region", "aria-label": `Transcript in ${name}` },
        assay.messages.messages(row.prompt), assay.messages.messages(row.completion)));
  }

  assay.views = { ...assay.views, compare };
})((globalThis.Assay ??= {}));
