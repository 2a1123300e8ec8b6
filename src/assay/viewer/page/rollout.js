/* Rollout: one row, with the conversation beside its verdicts. */
((assay) => {
  "use strict";
  const { element, fill, untrusted, button, section } = assay.dom;
  const { formatScore, formatDuration, formatDollars, formatNumber } = assay.format;

  async function rollout({ source, run, parts, params }, main) {
    const view = new Rollout(source, run, Number(parts[0]), params);
    await view.load();
    view.show(main);
    return { title: `Row ${parts[0]}`, keys: view.makeKeys(), refresh: null, leave: () => assay.labelling.saveChoices(main) };
  }

  class Rollout {
    constructor(source, run, number, params) {
      Object.assign(this, { source, run, number, params, raw: assay.memory.get("raw") === "1", isSideBySide: assay.memory.get("side-by-side") === "1", before: null, after: null });
      this.order = { query: params.q || "", sort: params.sort || "number", descending: params.desc === "1" };
    }

    async load() {
      const [criteria] = await Promise.all([this.source.criteria(this.run.id), this.reload(), this.findNeighbours()]);
      this.criteriaByName = new Map(criteria.map((criterion) => [criterion.name, criterion]));
    }

    async reload() {
      this.row = await this.source.row(this.run.id, this.number);
    }

    /** The rows before and after this one, in the order of the table that it was opened from. */
    async findNeighbours() {
      const index = this.params.at === undefined ? this.number - 1 : Number(this.params.at);
      const offset = Math.max(0, index - 1);
      const { rows, total } = await this.source.rows(this.run.id, { ...this.order, offset, limit: 3 }).catch(() => ({ rows: [], total: 0 }));
      const current = rows.findIndex((row) => row.number === this.number);
      if (current < 0) return;
      const addressOf = (neighbour) => rows[neighbour] && assay.routes.row(this.run.id, rows[neighbour].number, { ...this.params, at: String(offset + neighbour) });
      this.before = current > 0 ? addressOf(current - 1) : null;
      this.after = addressOf(current + 1);
      this.position = `${formatNumber(offset + current + 1)} of ${formatNumber(total)}`;
    }

    show(main) {
      this.main = main;
      // Made only once, so that an open form keeps its choice when the rest is made again.
      this.verdicts ??= this.makeLines();
      const { row } = this;
      const judgedIndex = assay.content.findJudged(row.completion);
      const completion = row.completion.length ? this.makeMessages(row.completion, row.prompt.length + 1, judgedIndex) : element("p.note", {}, "The reply is empty.");
      fill(main, element("div.rollout", { class: this.isSideBySide ? "side-by-side" : null },
        this.makeHeading(),
        element("div.said", {}, section("Prompt", {}, this.makeMessages(row.prompt, 1)),
          this.isSideBySide && hasValue(row.answer) ? section("Reference", {}, assay.messages.value(row.answer)) : null,
          section("Completion", {}, completion)),
        element("div.found", {}, this.makeAnswers(), section("Verdicts", { note: "click a verdict to overrule it" }, this.verdicts),
          this.makeRequests(), this.makeFacts())));
    }

    /** Messages, of which `first` is the number of the first one in the conversation. Quotations without an address are
        from the message at `judgedIndex`. */
    makeMessages(messages, first, judgedIndex = -1) {
      const marksOf = (index, address, text) => {
        const addresses = index === judgedIndex ? [undefined] : [];
        if (address) addresses.push(address);
        return assay.marks.marksOf(this.row.lines, text, addresses);
      };
      return assay.messages.messages(messages, { marksOf, first, raw: this.raw, media: this.row.media });
    }

    makeHeading() {
      const { row, run } = this;
      const link = (href, label, key) => href ? element("a.button", { href, title: `key ${key}` }, label) : element("span.button.off", {}, label);
      return element("header.row-head", {},
        element("h1", {}, `Row ${row.number}`, element("span.note", {}, "example ", untrusted(row.example), ` · sample ${row.sample} · `, untrusted(row.task))),
        element("div.row-score", {}, this.makeScore(row)),
        element("nav.row-tools", { "aria-label": "This row" },
          link(this.before, "← Previous", "k"), this.position ? element("span.note", {}, this.position) : null, link(this.after, "Next →", "j"),
          element("a.button", { href: this.tableAddress() }, "Rows"),
          element("a.button", { href: assay.routes.group(run.id, row.example) }, "Same prompt"),
          button(this.raw ? "Rendered" : "Raw text", () => this.toggleRaw(), { "aria-pressed": String(this.raw), title: "key r" }),
          button("Side by side", () => this.toggleSideBySide(), { "aria-pressed": String(this.isSideBySide), title: "prompt, reference and completion side by side" }),
          this.source.savesLabels ? null : button("Export labels", () => this.exportLabels())),
        row.error ? element("p.banner.error", { role: "alert" }, element("span.sign", { "aria-hidden": "true" }, "!"), untrusted(row.error)) : null,
        row.vetoed_by?.length ? element("p.banner.quiet", {}, "The score is capped: ", untrusted(row.vetoed_by.join(", ")), " failed and is required.") : null,
        row.shown ? element("p.banner.quiet", {}, "Judges did not read the whole rollout: ", untrusted(row.shown), ".") : null,
        row.altered?.length ? element("p.banner.quiet", {}, "Approximated when the run was saved: ", untrusted(row.altered.join(", ")), " could not be saved as JSON.") : null);
    }

    makeScore(row) {
      if (!row.scored) return element("span.verdict.error.large", {}, "unscored");
      const reward = row.reward !== row.score ? element("span.note", {}, `reward ${formatScore(row.reward)}`) : null;
      return [element("span.large", {}, formatScore(row.score)), element("span.note", {}, "score"), reward];
    }

    /** The parsed answer beside the reference. */
    makeAnswers() {
      const { row } = this;
      if (!hasValue(row.answer) && !hasValue(row.parsed)) return null;
      const side = (name, value) => element("div", {}, element("h3", {}, name), hasValue(value) ? [assay.messages.value(value), formulaOf(value)] : element("p.note", {}, "none"));
      return section("Answer", {}, element("div.beside", {}, hasValue(row.parsed) ? side("Parsed", row.parsed) : null, side("Reference", row.answer)));
    }

    makeLines() {
      const save = async (label) => {
        await this.source.label(this.run.id, { row: this.number, ...label });
        await this.reload();
        const index = this.row.lines.findIndex((line) => line.name === label.criterion);
        const updated = this.makeLines().querySelector(`[data-line="${index}"]`);
        this.verdicts.querySelector(`[data-line="${index}"]`).replaceWith(updated);
        updated.querySelector(".overrule")?.focus();
      };
      const withChoices = (line) => {
        const { choices, allow_na } = this.criteriaByName.get(line.name) ?? {};
        return { choices, allow_na, ...line };
      };
      return assay.lines({ ...this.row, lines: this.row.lines.map(withChoices) }, { label: (line, _, opener) => assay.labelling.labelForm(line, opener, save), find: (line, part) => this.showQuoted(line, part) });
    }

    /** Scroll to the first words that a line quotes, and highlight all of them. With `part`, the address of a message or
        of a part of it, only the words in it; all of it if the line quotes no words of it. */
    showQuoted(line, part = "") {
      if (part.startsWith("look")) {
        this.showLook(this.row.lines[line].name, Number(part.slice("look".length)));
        return;
      }
      const conversation = this.main.querySelector(".said");
      const findPart = (address) => conversation.querySelector(`[data-address="${address}"]`);
      const container = (part && (findPart(part) || findPart(part.split(".")[0]))) || conversation;
      const findMarks = () => [...container.querySelectorAll("mark")].filter((mark) => mark.dataset.lines.split(" ").includes(String(line)));
      if (!findMarks().length) {
        // The words may be in the rest of a text that is cut.
        for (const showAll of container.querySelectorAll(".show-all")) showAll.click();
      }
      const marks = findMarks();
      this.highlight(marks.length || !part ? marks : [container]);
    }

    /** Scroll to what a tool showed to the judge of a criterion, if the requests were saved. */
    showLook(criterion, number) {
      const requests = [...this.main.querySelectorAll("details[data-criterion]")].filter((details) => details.dataset.criterion === criterion);
      const looks = requests.flatMap((details) => [...details.querySelectorAll(".role-tool")]);
      const look = looks[number - 1];
      this.highlight(look ? [look] : []);
    }

    /** Highlight elements in place of those that are highlighted, open what is folded around them, and scroll to the first. */
    highlight(elements) {
      for (const highlighted of this.main.querySelectorAll(".pointed")) highlighted.classList.remove("pointed");
      for (const node of elements) {
        node.classList.add("pointed");
        for (let details = node.closest("details"); details; details = details.parentElement.closest("details")) details.open = true;
      }
      elements[0]?.scrollIntoView({ block: "center" });
    }

    makeRequests() {
      const { calls } = this.row;
      return calls?.length ? section("Requests", {}, calls.map(makeRequest)) : null;
    }

    makeFacts() {
      const { row } = this;
      const spent = row.spent || {};
      const parts = [["model", row.spent_on_model], ["judge", row.spent_on_judge]].filter(([, part]) => part?.calls || part?.hits);
      const describe = ({ prompt, completion, cost }) =>
        `${formatNumber(prompt || 0)} input, ${formatNumber(completion || 0)} output tokens, ${cost === null ? "cost not known" : formatDollars(cost ?? 0)}`;
      const facts = [
        ...Object.entries(row.timing || {}).map(([name, value]) => [`time, ${name}`, formatDuration(value)]),
        ["cost", spent.cost === null ? "not known" : formatDollars(spent.cost ?? 0)],
        ["tokens", `${formatNumber(spent.prompt || 0)} input, ${formatNumber(spent.completion || 0)} output`],
        ["calls", `${formatNumber(spent.calls || 0)}${spent.hits ? `, ${formatNumber(spent.hits)} more from the cache` : ""}`],
        ...(parts.length > 1 ? parts.map(([name, part]) => [`${name} alone`, describe(part)]) : []),
        row.model ? ["model", untrusted(row.model)] : null,
      ].filter(Boolean);
      const extra = [...(row.info ? [["info", row.info]] : []), ...Object.entries(row.columns || {})];
      return section("Facts", {}, element("dl.facts", {}, facts.map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
        extra.map(([name, value]) => element("details", {}, element("summary", {}, untrusted(name)), assay.messages.value(value))));
    }

    /** Download all labels as a file. Its name has the time, so that no earlier file is replaced. */
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

    tableAddress() {
      return assay.routes.rows(this.run.id, this.params);
    }

    makeKeys() {
      const goTo = (href) => () => href && assay.routes.go(href, {});
      const goToTable = goTo(this.tableAddress());
      return { j: goTo(this.after), k: goTo(this.before), r: () => this.toggleRaw(), Escape: goToTable, u: goToTable };
    }
  }

  /** What is unusual about the reply to a request, by its source. */
  const REPLY_SOURCES = { cache: "from the cache", flight: "reply of an identical request", error: "no reply" };

  /** One request to a model, with its reply. */
  function makeRequest({ role, criterion, model, source, messages, reply, request }) {
    const purpose = role === "model" ? "model under test" : criterion;
    const title = [purpose, model, REPLY_SOURCES[source]].filter(Boolean).join(" · ");
    const replyMessage = { role: "reply", content: assay.format.formatValue(reply) };
    return element("details", { "data-criterion": criterion || null },
      element("summary", {}, untrusted(title)),
      assay.messages.messages(messages || [], { raw: true }),
      reply === undefined ? null : assay.messages.messages([replyMessage], { raw: true }),
      request ? element("details", {}, element("summary", {}, "as it was sent"), assay.messages.value(request)) : null);
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
