/* Picker: the runs of the page, when there are several. */
((assay) => {
  "use strict";
  const { element, fill, foreign, section } = assay.dom;
  const { count, time } = assay.words;

  async function picker({ runs }, main) {
    const head = ["run", "rows", "model", "judge", "rubric", "created"];
    fill(main, element("h1", {}, "Runs"), section("All runs", {}, element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Runs" },
      element("table.figures", {}, element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, runs.map((run) => element("tr", {},
          element("th", { scope: "row" }, element("a", { href: assay.routes.overview(run.id) }, foreign(run.name)), run.live ? element("span.badge.live", {}, "live") : null),
          element("td.number", {}, count(run.rows)), element("td", {}, foreign(run.model || "–")), element("td", {}, foreign(run.judge || "–")),
          element("td", {}, foreign(run.rubric?.name || "–")), element("td.note", {}, time(run.created)))))))));
    return { title: "Runs" };
  }

  assay.views = { ...assay.views, picker };
})((globalThis.Assay ??= {}));
