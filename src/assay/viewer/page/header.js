/* Header: which run this is, by what it was judged, and the ways to its views. */
((assay) => {
  "use strict";
  const { element, fill, foreign, button } = assay.dom;

  /** Fill the header for a run and a view; `run` is null where no single run is shown. */
  function header(place, { runs, run, view }) {
    const tab = (name, href, words) => element("a", { href, "aria-current": view === name ? "page" : null }, words);
    const [first, second] = runs;
    fill(place,
      element("a.brand", { href: "#/" }, "assay"),
      run ? runName(runs, run, view) : null,
      element("nav.tabs", { "aria-label": "Views" },
        run ? [tab("overview", assay.routes.overview(run.id), "Overview"), tab("table", assay.routes.rows(run.id, {}), "Rows")] : null,
        runs.length > 1 ? tab("compare", assay.routes.compare(run && run !== first ? first.id : first.id, run && run !== first ? run.id : second.id), "Compare") : null),
      element("div.tools", {},
        button("◐", assay.theme.toggle, { "aria-label": "Dark or light", title: "Dark or light (d)" }),
        button("?", assay.keyboard.help, { "aria-label": "Help: keys and filters", title: "Keys and filters (?)" })),
      run ? aboutLine(run) : null);
  }

  function runName(runs, run, view) {
    const live = element("span.badge.live", { role: "status", hidden: !run.live }, "live");
    if (runs.length === 1) return [element("span.run-name", {}, foreign(run.name)), live];
    const select = element("select", { "aria-label": "Run" }, runs.map((one) => element("option", { value: one.id, selected: one === run }, one.name)));
    select.addEventListener("change", () => assay.routes.go(view === "table" ? assay.routes.rows(select.value, {}) : assay.routes.overview(select.value)));
    return [element("span.run-name", {}, select), live];
  }

  function aboutLine({ model, judge, resolved, rubric, created, kind, environment, env_args }) {
    const known = [
      ["environment", environment], ["arguments", env_args && JSON.stringify(env_args)],
      ["model", model], ["judge", judge], ["exact model", (resolved || []).join(", ")],
      ["rubric", rubric && `${rubric.name || "unnamed"} ${String(rubric.hash).slice(0, 12)}`],
      [kind || "run", created && assay.words.time(created)],
    ].filter(([, value]) => value);
    return element("dl.about", {}, known.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, foreign(value)))));
  }

  assay.header = header;
})((globalThis.Assay ??= {}));
