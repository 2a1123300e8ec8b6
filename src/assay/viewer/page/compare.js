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
      main.append(...shown(told, first, second, names, new Map(criteria.map((one) => [one.name, one]))));
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
  function shown(told, first, second, names, known) {
    const reach = Math.max(0.1, ...[told.score, ...told.criteria].flatMap(({ difference }) => [difference.low, difference.high, difference.value]).filter(isNumber).map(Math.abs));
    return [
      headline(told),
      section("Differences", { note: "after less before, with 95 % interval; p of criteria adjusted by Holm's method" },
        element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Differences" }, differences(told, names, reach, known))),
      leftOut(told, names),
      flips(told, first, second, known),
    ].filter(Boolean);
  }

  function headline({ score: whole, examples, only_first: before, only_second: after }) {
    const { value, low, high } = whole.difference;
    const sure = isNumber(low) && (low > 0 || high < 0);
    const words = !isNumber(value) ? "The scores cannot be compared." : sure ? `The score ${value > 0 ? "rose" : "fell"} by ${score(Math.abs(value))}.` : "No difference in score that could not be chance.";
    const least = isNumber(whole.minimum_detectable_effect) ? ` With this many examples, a difference of ${score(whole.minimum_detectable_effect)} or more would show four times out of five.` : "";
    return element(`section.banner.${!sure ? "quiet" : value > 0 ? "good" : "error"}`, { "aria-label": "Result" },
      element("h2", {}, words),
      element("p", {}, `${plural(examples, "example")} in both runs, ${count(before)} only before, ${count(after)} only after. `,
        isNumber(value) ? `Difference ${signed(value)}${isNumber(low) ? `, 95 % interval ${signed(low)} to ${signed(high)}` : ""}, p ${chance(whole.p)}.` : foreign(whole.difference.reason || ""), least));
  }

  function differences({ score: whole, criteria }, names, reach, known) {
    const head = ["", "before", "after", "difference", "", "p", "rose", "fell", "minimum detectable effect"];
    const titles = [null, names[0], names[1]];
    return element("table.figures.differences", {},
      element("thead", {}, element("tr", {}, head.map((name, place) => element("th", { scope: "col", title: titles[place] }, name)))),
      element("tbody", {}, [whole, ...criteria].map((one) => element("tr", { class: one === whole ? "whole" : null },
        element("th", { scope: "row" }, foreign(one.name)),
        element("td.number", {}, score(one.first)), element("td.number", {}, score(one.second)),
        element("td.number", {}, signed(one.difference.value)), element("td.drawing", {}, assay.bars.differenceBar(one.difference, reach, known.get(one.name)?.weight)),
        element("td.number", { class: isNumber(one.p) && one.p < 0.05 ? "sure" : null }, chance(one.p)),
        element("td.number", {}, count(one.better)), element("td.number", {}, count(one.worse)),
        element("td.number", {}, score(one.minimum_detectable_effect))))));
  }

  /** What is not compared, and why. */
  function leftOut({ other_prompt: prompts, other_wording: worded, missing, score: whole }, names) {
    const [before, after] = whole.unanswered || [0, 0];
    const said = [
      prompts ? `${plural(prompts, "example")} of the same name ask something else.` : "",
      worded?.length ? `Worded otherwise now: ${worded.join(", ")}.` : "",
      missing?.first?.length ? `Only in ${names[0]}: ${missing.first.join(", ")}.` : "",
      missing?.second?.length ? `Only in ${names[1]}: ${missing.second.join(", ")}.` : "",
      before || after ? `Without a score: ${plural(before, "rollout")} before, ${count(after)} after.` : "",
    ].filter(Boolean);
    return said.length ? section("Left out", {}, element("ul", {}, said.map((words) => element("li", {}, foreign(words))))) : null;
  }

  function flips({ flips: all }, first, second, known) {
    const list = element("tbody", {});
    const show = (some) => list.append(...some.map((flip) => flipRow(flip, first, second, known)));
    show(all.slice(0, FIRST));
    const more = all.length > FIRST ? button(`Show the other ${count(all.length - FIRST)}`, (event) => { show(all.slice(FIRST)); event.currentTarget.remove(); }) : null;
    const head = ["example", "before", "after", "changed answers"];
    return section("Flips", { note: plural(all.length, "rollout that came out otherwise", "rollouts that came out otherwise") },
      all.length ? element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Flips" },
        element("table.figures.flips", {}, element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, name)))), list)) : null, more);
  }

  function flipRow({ example, sample, before, after, changes, first_row: one, second_row: other }, first, second, known) {
    const link = (run, number, value) => element("td.number", {}, number == null ? score(value) : element("a", { href: assay.routes.row(run, number) }, isNumber(value) ? score(value) : "unscored"));
    return element("tr", {}, element("th", { scope: "row" }, foreign(example), sample ? element("span.note", {}, ` sample ${sample}`) : null),
      link(first, one, before), link(second, other, after),
      element("td", {}, element("div.changes", {}, changes.map((change) => element("span.change", { title: [change.reason_before, change.reason_after].filter(Boolean).join(" → ") },
        foreign(change.criterion), " ", assay.verdicts.chip(change.before, known.get(change.criterion)), " → ", assay.verdicts.chip(change.after, known.get(change.criterion)))))));
  }

  assay.views = { ...assay.views, compare };
})((globalThis.Assay ??= {}));
