/* Picker: the runs of the page, when there are several. */
((assay) => {
  "use strict";
  const { element, fill, foreign, section } = assay.dom;
  const { count, dollars, interval, score, time } = assay.words;

  async function picker({ runs }, main) {
    const head = ["run", "rows", "mean", "95 %", "errors", "cost", "model", "judge", "rubric", "created"];
    fill(main, element("h1", {}, "Runs"), section("All runs", {}, element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Runs" },
      element("table.figures.stacks", {}, element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, runs.map((run) => element("tr", {},
          element("th", { scope: "row" }, element("a", { href: assay.routes.overview(run.id) }, foreign(run.name)), run.live ? element("span.badge.live", {}, "live") : null),
          labelled("td.number", "rows", count(run.rows)),
          labelled("td.number", "mean", score(run.mean)),
          labelled("td.number", "95 %", interval(run.low, run.high)),
          labelled("td.number", "errors", count(run.errors)),
          labelled("td.number", "cost", run.cost === null ? "not known" : dollars(run.cost)),
          labelled("td", "model", foreign(run.model || "–")),
          labelled("td.wide", "judge", foreign(run.judge || "–")),
          labelled("td.wide", "rubric", foreign(rubricName(run.rubric))),
          labelled("td.note.wide", "created", time(run.created)))))))));
    return { title: "Runs" };
  }

  /** A cell that in a narrow window, where the table has no head, shows the name of its column. */
  function labelled(selector, column, content) {
    return element(selector, { "data-label": column }, content);
  }

  function rubricName(rubric) {
    return rubric ? `${rubric.name || "unnamed"} ${String(rubric.hash).slice(0, 12)}` : "–";
  }

  assay.views = { ...assay.views, picker };
})((globalThis.Assay ??= {}));
