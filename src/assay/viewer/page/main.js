/* The page: finds where its data come from, and shows the view that the address names. */
((assay) => {
  "use strict";
  const { element, fill } = assay.dom;
  const WATCH_INTERVAL = 2000; // milliseconds between two looks at a run
  const WATCH_INTERVAL_GROWING = 700;
  const main = document.getElementById("main");
  const headerElement = document.getElementById("header");
  // `view` is what the function of the shown view returned: its title, its keys, `refresh` and `leave`.
  // `turn` counts the views that were asked for.
  const page = { source: null, runs: [], run: null, hash: "", view: {}, turn: 0 };

  /** The name of a view by the part of the address after the run. */
  const VIEWS = { "": "overview", rows: "table", row: "rollout", group: "group" };

  async function start() {
    page.source = (await assay.EmbeddedSource.find()) ?? new assay.HttpSource();
    page.runs = await page.source.runs();
    addEventListener("hashchange", showAddress);
    addEventListener("beforeunload", (event) => assay.labelling.unsavedForms(main).length && event.preventDefault());
    // An ordinary link would replace the part of the address after #, which names the view.
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      main.focus();
    });
    assay.keyboard.listen(makeShortcuts(), () => page.view.keys || {});
    await showAddress();
    if (page.source.savesLabels) setTimeout(watchRun, WATCH_INTERVAL_GROWING);
  }

  /** Show what the address names, unless another view is asked for in the meantime. */
  async function showAddress() {
    const turn = ++page.turn;
    if (page.view.leave && location.hash !== page.hash && !(await page.view.leave())) {
      // A label could not be saved, so the view stays, and its form says why.
      assay.routes.go(page.hash, { replace: true });
      return;
    }
    if (turn !== page.turn) return;
    page.hash = location.hash;
    page.view.leave = null;
    const target = readTarget(assay.routes.read(location.hash));
    page.run = target.run;
    assay.header(headerElement, { runs: page.runs, run: target.run, view: target.view });
    main.setAttribute("aria-busy", "true");
    const container = element("div.view", {});
    // A view grows inside of the page, because the table needs its size while it is made.
    fill(main, container);
    scrollTo(0, 0);
    try {
      if (target.missing) throw new Error(`${target.missing}: follow a link from the start`);
      const view = await assay.views[target.view]({ ...page, ...target }, container);
      if (turn !== page.turn) return;
      page.view = view;
      document.title = `${view.title} · ${target.run ? target.run.name : "assay"}`;
      (view.focus || main).focus({ preventScroll: true });
    } catch (error) {
      if (turn !== page.turn) return;
      page.view = {};
      const sign = element("span.sign", { "aria-hidden": "true" }, "!");
      fill(container, element("p.banner.error", { role: "alert" }, sign, error.message));
    } finally {
      main.setAttribute("aria-busy", "false");
    }
  }

  /** The view, the run and the parameters of an address. `missing` says what the address names and is not there. */
  function readTarget({ parts: [kind, ...rest], params }) {
    if (kind === "compare" && rest.length === 2) return { view: "compare", run: null, parts: rest, params };
    if (kind === undefined) {
      const onlyRun = page.runs.length === 1 ? page.runs[0] : null;
      return { view: onlyRun ? "overview" : "picker", run: onlyRun, parts: [], params };
    }
    const [runId = "", viewPart = "", ...viewParts] = rest;
    const run = kind === "run" ? page.runs.find(({ id }) => id === runId) ?? null : null;
    const target = { view: VIEWS[viewPart], run, parts: viewParts, params };
    if (kind !== "run") return { ...target, missing: `there is no page ${[kind, ...rest].join("/")} here` };
    if (!run) return { ...target, missing: `there is no run ${runId} here` };
    return target.view ? target : { ...target, missing: `a run has no page ${viewPart}` };
  }

  /** What a key after `g` opens. */
  function makeShortcuts() {
    const run = () => page.run || page.runs[0];
    const { go, overview, rows, compare } = assay.routes;
    return {
      o: () => go(overview(run().id)),
      t: () => go(rows(run().id, {})),
      c: () => page.runs.length > 1 && go(compare(page.runs[0].id, page.runs[1].id)),
      "/": () => go(rows(run().id, {})),
    };
  }

  /** Look again and again whether the run has grown, and more often while it does. */
  async function watchRun() {
    const { run } = page;
    let wait = WATCH_INTERVAL;
    if (run && !document.hidden) {
      try {
        const { rows, live } = await page.source.changes(run.id, run.rows);
        const hasGrown = rows !== run.rows;
        if (hasGrown) wait = WATCH_INTERVAL_GROWING;
        Object.assign(run, { rows, live });
        if (run === page.run) {
          headerElement.querySelector(".live")?.toggleAttribute("hidden", !live);
          const started = performance.now();
          if (hasGrown) await page.view.refresh?.();
          // A view that takes long to refresh is refreshed less often.
          wait = Math.max(wait, 4 * (performance.now() - started));
        }
      } catch {
        // The server may be away for a moment; the next request of a view says so if it is not back.
      }
    }
    setTimeout(watchRun, wait);
  }

  start().catch((error) => fill(main, element("p.banner.error", { role: "alert" }, error.message)));
})((globalThis.Assay ??= {}));
