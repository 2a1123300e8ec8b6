/* The page: takes its data from where it is, and shows the view that the address names. */
((assay) => {
  "use strict";
  const { element, fill } = assay.dom;
  const EVERY = 2000;
  const SOON = 700;
  const main = document.getElementById("main");
  const top = document.getElementById("header");
  const page = { source: null, runs: [], run: null, hash: "", shown: {}, turn: 0 };

  /** Views by the first word after the run in the address. */
  const VIEWS = { "": "overview", rows: "table", row: "rollout", group: "group" };

  async function start() {
    page.source = (await assay.EmbeddedSource.here()) ?? new assay.HttpSource();
    page.runs = await page.source.runs();
    addEventListener("hashchange", show);
    addEventListener("beforeunload", (event) => assay.labelling.unsavedForms(main).length && event.preventDefault());
    // By hand, since the address after # names a view.
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      main.focus();
    });
    assay.keyboard.listen(ways(), () => page.shown.keys || {});
    await show();
    if (page.source.savesLabels) setTimeout(watch, SOON);
  }

  /** Show what the address names; an older answer that comes late is dropped. */
  async function show() {
    const turn = ++page.turn;
    if (page.shown.leave && location.hash !== page.hash && !(await page.shown.leave())) {
      // What was chosen could not be saved, so the view stays, and says why.
      assay.routes.go(page.hash, { replace: true });
      return;
    }
    if (turn !== page.turn) return;
    page.hash = location.hash;
    page.shown.leave = null;
    const wanted = where(assay.routes.read(location.hash));
    page.run = wanted.run;
    assay.header(top, { runs: page.runs, run: wanted.run, view: wanted.view });
    main.setAttribute("aria-busy", "true");
    const place = element("div.view", {});
    // The table needs its size while it is made, so a view grows in the page and not beside it.
    fill(main, place);
    scrollTo(0, 0);
    try {
      // An address that leads nowhere says so, and does not pass for another.
      if (wanted.missing) throw new Error(`${wanted.missing}: follow a link from the start`);
      const shown = await assay.views[wanted.view]({ ...page, ...wanted }, place);
      if (turn !== page.turn) return;
      page.shown = shown;
      document.title = `${shown.title} · ${wanted.run ? wanted.run.name : "assay"}`;
      (shown.focus || main).focus({ preventScroll: true });
    } catch (error) {
      if (turn !== page.turn) return;
      page.shown = {};
      fill(place, element("p.banner.error", { role: "alert" }, element("span.sign", { "aria-hidden": "true" }, "!"), error.message));
    } finally {
      main.setAttribute("aria-busy", "false");
    }
  }

  /** The view, the run, and what else an address says. */
  function where({ parts: [kind, ...rest], asked }) {
    if (kind === "compare" && rest.length === 2) return { view: "compare", run: null, parts: rest, asked };
    if (kind === undefined) {
      const only = page.runs.length === 1 ? page.runs[0] : null;
      return { view: only ? "overview" : "picker", run: only, parts: [], asked };
    }
    const run = kind === "run" ? page.runs.find((one) => one.id === rest[0]) : null;
    const view = VIEWS[rest[1] || ""];
    const known = { view, run, parts: rest.slice(2), asked };
    if (kind !== "run") return { ...known, run: null, missing: `there is no page ${[kind, ...rest].join("/")} here` };
    if (!run) return { ...known, run: null, missing: `there is no run ${rest[0] ?? ""} here` };
    return view ? known : { ...known, missing: `a run has no page ${rest[1]}` };
  }

  /** What a key after `g` leads to. */
  function ways() {
    const run = () => page.run || page.runs[0];
    const { go, overview, rows, compare } = assay.routes;
    return {
      o: () => go(overview(run().id)),
      t: () => go(rows(run().id, {})),
      c: () => page.runs.length > 1 && go(compare(page.runs[0].id, page.runs[1].id)),
      "/": () => go(rows(run().id, {})),
    };
  }

  /** Look every two seconds how far a run is, and sooner while it grows or is being read. */
  async function watch() {
    const { run } = page;
    let wait = EVERY;
    if (run && !document.hidden) {
      try {
        const { rows, live } = await page.source.changes(run.id, run.rows);
        const hasGrown = rows !== run.rows;
        if (hasGrown) wait = SOON;
        Object.assign(run, { rows, live });
        if (run === page.run) {
          top.querySelector(".live")?.toggleAttribute("hidden", !live);
          const started = performance.now();
          if (hasGrown) await page.shown.refresh?.();
          // What takes long to work out is worked out less often.
          wait = Math.max(wait, 4 * (performance.now() - started));
        }
      } catch {
        // The server may be gone for a moment; the next look says so when something is asked for.
      }
    }
    setTimeout(watch, wait);
  }

  start().catch((error) => fill(main, element("p.banner.error", { role: "alert" }, error.message)));
})((globalThis.Assay ??= {}));
