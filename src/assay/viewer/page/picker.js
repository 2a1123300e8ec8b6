/* Picker: the runs of the page, when there are several. */
((assay) => {
  "use strict";
  const { element, fill, foreign, section } = assay.dom;
  const { count, dollars, interval, score, time } = assay.words;

  async function picker({ runs }, main) {
    const head = ["run", "rows", "mean", "95 %", "errors", "cost", "model", "judge", "rubric", "created"];
    fill(main, element("h1", {}, "Runs"), section("All runs", {}, element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Runs" },
      element("table.figures", {}, element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, runs.map((run) => element("tr", {},
          element("th", { scope: "row" }, element("a", { href: assay.routes.overview(run.id) }, foreign(run.name)), run.live ? element("span.badge.live", {}, "live") : null),
          element("td.number", {}, count(run.rows)), element("td.number", {}, score(run.mean)), element("td.number", {}, interval(run.low, run.high)),
          element("td.number", {}, count(run.errors)), element("td.number", {}, run.cost === null ? "not known" : dollars(run.cost)),
          element("td", {}, foreign(run.model || "–")), element("td", {}, foreign(run.judge || "–")),
          element("td", {}, foreign(rubricName(run.rubric))), element("td.note", {}, time(run.created)))))))));
    return { title: "Runs" };
  }

  function rubricName(rubric) {
    return rubric ? `${rubric.name || "unnamed"} ${String(rubric.hash).slice(0, 12)}` : "–";
  }

  assay.views = { ...assay.views, picker };
})((globalThis.Assay ??= {}));
