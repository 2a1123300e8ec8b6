/* Header: which run is shown, how it was judged, and links to its views. */
((assay) => {
  "use strict";
  const { element, fill, untrusted, button } = assay.dom;

  /** Fill the header for a run and a view; `run` is null where no single run is shown. */
  function header(container, { runs, run, view }) {
    const makeTab = (name, href, label) => element("a", { href, "aria-current": view === name ? "page" : null }, label);
    const [first, second] = runs;
    const compared = run && run !== first ? run : second;
    fill(container,
      element("a.brand", { href: "#/" }, "assay"),
      run ? runName(runs, run, view) : null,
      element("nav.tabs", { "aria-label": "Views" },
        run ? [makeTab("overview", assay.routes.overview(run.id), "Overview"), makeTab("table", assay.routes.rows(run.id, {}), "Rows")] : null,
        runs.length > 1 ? makeTab("compare", assay.routes.compare(first.id, compared.id), "Compare") : null),
      element("div.tools", {},
        button("◐", assay.theme.toggle, { "aria-label": "Dark or light", title: "Dark or light (d)" }),
        button("?", assay.keyboard.help, { "aria-label": "Help: keys and filters", title: "Keys and filters (?)" })),
      run ? aboutLine(run) : null);
  }

  function runName(runs, run, view) {
    const live = element("span.badge.live", { role: "status", hidden: !run.live }, "live");
    if (runs.length === 1) return [element("span.run-name", {}, untrusted(run.name)), live];
    const select = element("select", { "aria-label": "Run" }, runs.map((item) => element("option", { value: item.id, selected: item === run }, item.name)));
    select.addEventListener("change", () => assay.routes.go(view === "table" ? assay.routes.rows(select.value, {}) : assay.routes.overview(select.value)));
    return [element("span.run-name", {}, select), live];
  }

  function aboutLine({ model, judge, resolved, rubric, created, kind, environment, env_args }) {
    const facts = [
      ["environment", environment], ["arguments", env_args && JSON.stringify(env_args)],
      ["model", model], ["judge", judge], ["exact model", (resolved || []).join(", ")],
      ["rubric", rubric && `${rubric.name || "unnamed"} ${String(rubric.hash).slice(0, 12)}`],
      [kind || "run", created && assay.format.formatTime(created)],
    ].filter(([, value]) => value);
    return element("dl.about", {}, facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, untrusted(value)))));
  }

  assay.header = header;
})((globalThis.Assay ??= {}));
