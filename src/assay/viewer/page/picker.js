/* Picker: the runs of the page, when there are several. */
((assay) => {
  "use strict";
  const { element, fill, untrusted, section } = assay.dom;
  const { formatNumber, formatDollars, formatInterval, formatScore, formatTime } = assay.format;

  async function picker({ runs }, main) {
    const head = ["run", "rows", "mean", "95 %", "errors", "cost", "model", "judge", "rubric", "created"];
    fill(main, element("h1", {}, "Runs"), section("All runs", {}, element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Runs" },
      element("table.figures.stacks", {}, element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, runs.map((run) => element("tr", {},
          element("th", { scope: "row" }, element("a", { href: assay.routes.overview(run.id) }, untrusted(run.name)), run.live ? element("span.badge.live", {}, "live") : null),
          labelled("td.number", "rows", formatNumber(run.rows)),
          labelled("td.number", "mean", formatScore(run.mean)),
          labelled("td.number", "95 %", formatInterval(run.low, run.high)),
          labelled("td.number", "errors", formatNumber(run.errors)),
          labelled("td.number", "cost", run.cost === null ? "not known" : formatDollars(run.cost)),
          labelled("td", "model", untrusted(run.model || "–")),
          labelled("td.wide", "judge", untrusted(run.judge || "–")),
          labelled("td.wide", "rubric", untrusted(rubricName(run.rubric))),
          labelled("td.note.wide", "created", formatTime(run.created)))))))));
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
