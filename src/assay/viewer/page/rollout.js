/* Rollout: one row whole. What was said stands beside what was found about it. */
((assay) => {
  "use strict";
  const { element, fill, untrusted, button, section } = assay.dom;
  const { formatScore, formatDuration, formatDollars, formatNumber } = assay.format;

  async function rollout({ source, run, parts, params }, main) {
    const made = new Rollout(source, run, Number(parts[0]), params);
    await made.load();
    made.show(main);
    return { title: `Row ${parts[0]}`, keys: made.keys(), refresh: null, leave: () => assay.labelling.saveChoices(main) };
  }

  class Rollout {
    constructor(source, run, number, params) {
      Object.assign(this, { source, run, number, params, raw: assay.memory.get("raw") === "1", isSideBySide: assay.memory.get("side-by-side") === "1", before: null, after: null });
      this.order = { query: params.q || "", sort: params.sort || "number", descending: params.desc === "1" };
    }

    async load() {
      const [criteria] = await Promise.all([this.source.criteria(this.run.id), this.reload(), this.neighbours()]);
      this.known = new Map(criteria.map((one) => [one.name, one]));
    }

    async reload() {
      this.row = await this.source.row(this.run.id, this.number);
    }

    /** The rows before and after this one, in the order of the table that it was opened from. */
    async neighbours() {
      const at = this.params.at === undefined ? this.number - 1 : Number(this.params.at);
      const offset = Math.max(0, at - 1);
      const { rows, total } = await this.source.rows(this.run.id, { ...this.order, offset, limit: 3 }).catch(() => ({ rows: [], total: 0 }));
      const place = rows.findIndex((row) => row.number === this.number);
      if (place < 0) return;
      const step = (index) => rows[index] && assay.routes.row(this.run.id, rows[index].number, { ...this.params, at: String(offset + index) });
      this.before = place > 0 ? step(place - 1) : null;
      this.after = step(place + 1);
      this.place = `${formatNumber(offset + place + 1)} of ${formatNumber(total)}`;
    }

    show(main) {
      this.main = main;
      // Made once: a form that is open in it keeps what was chosen when the rest is made anew.
      this.verdicts ??= this.lines();
      const { row } = this;
      const judged = assay.content.findJudged(row.completion);
      const completion = row.completion.length ? this.said(row.completion, row.prompt.length + 1, judged) : element("p.note", {}, "The model said nothing.");
      fill(main, element("div.rollout", { class: this.isSideBySide ? "side-by-side" : null },
        this.heading(),
        element("div.said", {}, section("Prompt", {}, this.said(row.prompt, 1)),
          this.isSideBySide && hasValue(row.answer) ? section("Reference", {}, assay.messages.value(row.answer)) : null,
          section("Completion", {}, completion)),
        element("div.found", {}, this.answers(), section("Verdicts", { note: "click a verdict to overrule it" }, this.verdicts),
          this.requests(), this.facts())));
    }

    said(list, first, judged = -1) {
      const marksOf = (place, address, text) =>
        assay.marks.marksOf(this.row.lines, text, [...(place === judged ? [undefined] : []), ...(address ? [address] : [])]);
      return assay.messages.messages(list, { marksOf, first, raw: this.raw, media: this.row.media });
    }

    heading() {
      const { row, run } = this;
      const turn = (href, words, key) => href ? element("a.button", { href, title: `key ${key}` }, words) : element("span.button.off", {}, words);
      return element("header.row-head", {},
        element("h1", {}, `Row ${row.number}`, element("span.note", {}, "example ", untrusted(row.example), ` · sample ${row.sample} · `, untrusted(row.task))),
        element("div.row-score", {}, this.scoreOf(row)),
        element("nav.row-tools", { "aria-label": "This row" },
          turn(this.before, "← Previous", "k"), this.place ? element("span.note", {}, this.place) : null, turn(this.after, "Next →", "j"),
          element("a.button", { href: this.back() }, "Rows"),
          element("a.button", { href: assay.routes.group(run.id, row.example) }, "Same prompt"),
          button(this.raw ? "Rendered" : "Raw text", () => this.toggleRaw(), { "aria-pressed": String(this.raw), title: "key r" }),
          button("Side by side", () => this.toggleSideBySide(), { "aria-pressed": String(this.isSideBySide), title: "prompt, reference and completion side by side" }),
          this.source.savesLabels ? null : button("Export labels", () => this.exportLabels())),
        row.error ? element("p.banner.error", { role: "alert" }, element("span.sign", { "aria-hidden": "true" }, "!"), untrusted(row.error)) : null,
        row.vetoed_by?.length ? element("p.banner.quiet", {}, "The score is capped: ", untrusted(row.vetoed_by.join(", ")), " failed and is required.") : null,
        row.shown ? element("p.banner.quiet", {}, "Judges did not read all of it: ", untrusted(row.shown), ".") : null,
        row.altered?.length ? element("p.banner.quiet", {}, "Not exactly as it was: ", untrusted(row.altered.join(", ")), " could not be saved as JSON.") : null);
    }

    scoreOf(row) {
      if (!row.scored) return element("span.verdict.error.large", {}, "unscored");
      const reward = row.reward !== row.score ? element("span.note", {}, `reward ${formatScore(row.reward)}`) : null;
      return [element("span.large", {}, formatScore(row.score)), element("span.note", {}, "score"), reward];
    }

    /** What was taken as the answer beside what was wanted. */
    answers() {
      const { row } = this;
      if (!hasValue(row.answer) && !hasValue(row.parsed)) return null;
      const side = (name, value) => element("div", {}, element("h3", {}, name), hasValue(value) ? [assay.messages.value(value), formulaOf(value)] : element("p.note", {}, "none"));
      return section("Answer", {}, element("div.beside", {}, hasValue(row.parsed) ? side("Parsed", row.parsed) : null, side("Reference", row.answer)));
    }

    lines() {
      const save = async (label) => {
        await this.source.label(this.run.id, { row: this.number, ...label });
        await this.reload();
        const place = this.row.lines.findIndex((line) => line.name === label.criterion);
        const labelled = this.lines().querySelector(`[data-line="${place}"]`);
        this.verdicts.querySelector(`[data-line="${place}"]`).replaceWith(labelled);
        labelled.querySelector(".overrule")?.focus();
      };
      const known = (line) => ({ choices: this.known.get(line.name)?.choices, allow_na: this.known.get(line.name)?.allow_na, ...line });
      return assay.lines({ ...this.row, lines: this.row.lines.map(known) }, { label: (line, _, opener) => assay.labelling.labelForm(line, opener, save), find: (line, part) => this.find(line, part) });
    }

    /** Bring the first words that a line quotes into sight; of a `part`, the words in it, or all of it where none are marked. */
    find(line, part = "") {
      if (part.startsWith("look")) return this.findLook(this.row.lines[line].name, Number(part.slice(4)));
      const said = this.main.querySelector(".said");
      const at = (address) => address && said.querySelector(`[data-address="${address}"]`);
      const whole = (part && (at(part) || at(part.split(".")[0]))) || said;
      const wanted = () => [...whole.querySelectorAll("mark")].filter((mark) => mark.dataset.lines.split(" ").includes(String(line)));
      if (!wanted().length) for (const more of whole.querySelectorAll(".show-all")) more.click();
      const marks = wanted();
      const found = marks.length || !part ? marks : [whole];
      for (const one of said.querySelectorAll(".pointed")) one.classList.remove("pointed");
      for (const one of found) {
        one.classList.add("pointed");
        for (let box = one.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
      }
      found[0]?.scrollIntoView({ block: "center" });
    }

    /** Bring what a tool showed the judge of a criterion into sight, where the log of the judge was kept. */
    findLook(criterion, number) {
      const calls = [...this.main.querySelectorAll("details[data-criterion]")].filter((call) => call.dataset.criterion === criterion);
      const look = calls.flatMap((call) => [...call.querySelectorAll(".role-tool")])[number - 1];
      for (const one of this.main.querySelectorAll(".pointed")) one.classList.remove("pointed");
      if (!look) return;
      look.classList.add("pointed");
      look.closest("details").open = true;
      look.scrollIntoView({ block: "center" });
    }

    requests() {
      const log = this.row.calls;
      if (!log?.length) return null;
      const about = (one) => (one.role === "model" ? "model under test" : one.criterion);
      const sources = { cache: "from the cache", flight: "reply of an equal request", error: "no reply" };
      return section("Requests", {}, log.map((one) => element("details", { "data-criterion": one.criterion || null },
        element("summary", {}, untrusted([about(one), one.model, sources[one.source]].filter(Boolean).join(" · "))),
        assay.messages.messages(one.messages || [], { raw: true }),
        one.reply === undefined ? null : assay.messages.messages([{ role: "reply", content: assay.format.formatValue(one.reply) }], { raw: true }),
        one.request ? element("details", {}, element("summary", {}, "as it was sent"), assay.messages.value(one.request)) : null)));
    }

    facts() {
      const { row } = this;
      const spent = row.spent || {};
      const parts = [["model", row.spent_on_model], ["judge", row.spent_on_judge]].filter(([, part]) => part?.calls || part?.hits);
      const describe = ({ prompt, completion, cost }) =>
        `${formatNumber(prompt || 0)} input, ${formatNumber(completion || 0)} output tokens, ${cost === null ? "cost not known" : formatDollars(cost ?? 0)}`;
      const known = [
        ...Object.entries(row.timing || {}).map(([name, value]) => [`time, ${name}`, formatDuration(value)]),
        ["cost", spent.cost === null ? "not known" : formatDollars(spent.cost ?? 0)],
        ["tokens", `${formatNumber(spent.prompt || 0)} input, ${formatNumber(spent.completion || 0)} output`],
        ["calls", `${formatNumber(spent.calls || 0)}${spent.hits ? `, ${formatNumber(spent.hits)} more from the cache` : ""}`],
        ...(parts.length > 1 ? parts.map(([name, part]) => [`${name} alone`, describe(part)]) : []),
        row.model ? ["model", untrusted(row.model)] : null,
      ].filter(Boolean);
      const extra = [...(row.info ? [["info", row.info]] : []), ...Object.entries(row.columns || {})];
      return section("Facts", {}, element("dl.facts", {}, known.map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
        extra.map(([name, value]) => element("details", {}, element("summary", {}, untrusted(name)), assay.messages.value(value))));
    }

    /** Hand over all labels as a file, whose name is new: a file that is there is not replaced. */
    async exportLabels() {
      if (!(await assay.labelling.saveChoices(this.main))) return;
      const time = new Date().toISOString().replace(/\.\d+Z$/, "").replace(/[T:]/g, "-");
      assay.labelling.download(`labels-${time}.jsonl`, this.source.exported(this.run.id));
    }

    toggleSideBySide() {
      this.isSideBySide = !this.isSideBySide;
      assay.memory.set("side-by-side", this.isSideBySide ? "1" : null);
      this.show(this.main);
      this.main.querySelector("[title^='prompt, reference']").focus();
    }

    toggleRaw() {
      this.raw = !this.raw;
      assay.memory.set("raw", this.raw ? "1" : null);
      this.show(this.main);
      this.main.querySelector("[aria-pressed]").focus();
    }

    back() {
      return assay.routes.rows(this.run.id, this.params);
    }

    keys() {
      const turn = (href) => () => href && assay.routes.go(href, {});
      return { j: turn(this.after), k: turn(this.before), r: () => this.toggleRaw(), Escape: turn(this.back()), u: turn(this.back()) };
    }
  }

  function hasValue(value) {
    return value !== null && value !== undefined && value !== "";
  }

  /** An answer in LaTeX also as a formula. */
  function formulaOf(value) {
    return typeof value === "string" && /[\\^]/.test(value) && value.length < 300 ? assay.formula(value.replace(/^\$+|\$+$/g, ""), false) : null;
  }

  assay.views = { ...assay.views, rollout };
})((globalThis.Assay ??= {}));
