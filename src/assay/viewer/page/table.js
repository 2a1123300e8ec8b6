/* Table: all rows of a run, filtered, sorted, and walked through by keys. */
((assay) => {
  "use strict";
  const { element, fill, foreign, button } = assay.dom;
  const { count, plural } = assay.words;
  const WAIT = 160;

  /** Show the rows that a filter lets through. The filter, the order and the place are in the address. */
  async function table({ source, run, asked }, main) {
    const [criteria, columns] = [await source.criteria(run.id), await source.columns(run.id)];
    const made = new Table(source, run, criteria, columns, asked);
    fill(main, made.parts());
    await made.restart(asked.at === undefined ? null : Number(asked.at));
    return { title: "Rows", refresh: () => made.virtual.restart({ keep: true }), keys: made.keys(), focus: made.scroller };
  }

  class Table {
    constructor(source, run, criteria, { data, constant }, asked) {
      Object.assign(this, { source, run, query: asked.q || "", sort: asked.sort || "number", descending: asked.desc === "1", active: -1 });
      this.columns = assay.columns.columnsOf(criteria, data);
      this.wanted = assay.columns.chosen(this.columns, run.rubric?.hash, constant);
      this.isSideBySide = assay.memory.get("side-by-side") === "1";
      this.input = this.filterBox();
      this.message = element("p.filter-error", { id: "filter-error", role: "alert" });
      this.total = element("span.total", { role: "status" });
      this.head = element("thead", {});
      this.body = element("tbody", {});
      this.widths = element("colgroup", {});
      this.grid = element("table.rows", { "aria-label": "Rows" }, this.widths, this.head, this.body);
      this.scroller = element("div.scroller", { tabindex: "0", role: "region", "aria-label": "Rows; j and k move, Enter opens" }, this.grid);
      this.virtual = new assay.Virtual({
        scroller: this.scroller, body: this.body, draw: (row, index) => this.drawRow(row, index),
        fetch: (offset, limit, signal) => source.rows(run.id, { query: this.query, sort: this.sort, descending: this.descending, offset, limit }, signal),
        ontotal: (total) => this.showTotal(total), onfail: (error) => fill(this.message, error.message),
      });
    }

    parts() {
      const chips = [["error", "errors"], ["unscored", "unscored"], ["disagreement", "judges disagree"], ["label", "labelled"]];
      const chooser = assay.columns.chooser(this.columns, this.wanted, () => this.rechoose());
      this.drawHead();
      return [
        element("h1.unseen", {}, `Rows of ${this.run.name}`),
        element("form.toolbar", { role: "search", onsubmit: (event) => { event.preventDefault(); this.refilter(0); this.scroller.focus(); } },
          element("label.unseen", { for: "filter" }, "Filter rows"), this.input,
          element("div.chips", {}, chips.map(([term, words]) => button(words, () => this.add(term), { class: "chip", title: `add ${term} to the filter` }))),
          this.total, this.sideBySideButton(), chooser),
        this.message, this.scroller,
      ];
    }

    /** A button that shows prompt, reference and answer of each row side by side, wrapped. */
    sideBySideButton() {
      const toggle = (event) => {
        this.isSideBySide = !this.isSideBySide;
        assay.memory.set("side-by-side", this.isSideBySide ? "1" : null);
        event.currentTarget.setAttribute("aria-pressed", String(this.isSideBySide));
        this.drawHead();
        this.virtual.measureAgain();
      };
      return button("Side by side", toggle, { "aria-pressed": String(this.isSideBySide), title: "prompt, reference and answer of each row" });
    }

    filterBox() {
      const input = element("input", {
        id: "filter", type: "search", spellcheck: "false", autocomplete: "off", "aria-describedby": "filter-error",
        placeholder: 'words, or criterion:x verdict:UNMET score<0.5 text~"…"',
      });
      input.value = this.query;
      input.addEventListener("input", () => this.refilter(WAIT));
      return input;
    }

    /** Put a term into the filter, or take it out when it is there. */
    add(term) {
      const terms = this.input.value.split(/\s+/).filter(Boolean);
      const left = terms.filter((one) => one !== term);
      this.input.value = (left.length < terms.length ? left : [...terms, term]).join(" ");
      this.refilter(0);
    }

    refilter(wait) {
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => {
        this.query = this.input.value.trim();
        if (this.isReadable()) this.restart(null);
      }, wait);
    }

    /** Whether the filter can be read; if not, say why below it. */
    isReadable() {
      try {
        assay.filters.termsOf(this.query);
        fill(this.message);
        this.input.removeAttribute("aria-invalid");
        return true;
      } catch (error) {
        fill(this.message, foreign(error.message));
        this.input.setAttribute("aria-invalid", "true");
        return false;
      }
    }

    asked() {
      return { q: this.query, sort: this.sort === "number" ? "" : this.sort, desc: this.descending ? "1" : "" };
    }

    async restart(at) {
      this.active = at ?? -1;
      assay.routes.go(assay.routes.rows(this.run.id, this.asked()), { replace: true });
      this.stretch();
      if (this.isReadable()) await this.virtual.restart({ at: at ?? 0 });
    }

    /** Let the rows have what the window has left. */
    stretch() {
      const above = this.scroller.getBoundingClientRect().top + scrollY;
      this.scroller.style.height = `calc(100dvh - ${Math.round(above)}px - 1rem)`;
    }

    showTotal(total) {
      const all = this.query ? ` of ${count(this.run.rows)}` : "";
      fill(this.total, `${count(total)}${all} ${total === 1 && !all ? "row" : "rows"}`);
      this.grid.setAttribute("aria-rowcount", String(total + 1));
      this.grid.classList.toggle("empty", total === 0);
      assay.dom.announce(total ? plural(total, "row") : "no rows");
    }

    rechoose() {
      assay.columns.choose(this.wanted, this.run.rubric?.hash);
      this.drawHead();
      this.virtual.redraw();
    }

    shownColumns() {
      if (this.isSideBySide) return assay.columns.sideBySide(this.columns);
      return this.columns.filter((column) => this.wanted.has(column.key));
    }

    drawHead() {
      const shown = this.shownColumns();
      const hasWidth = (column) => column.width && !(this.isSideBySide && column.text);
      this.grid.classList.toggle("side-by-side", this.isSideBySide);
      fill(this.widths, shown.map((column) => element("col", { styles: hasWidth(column) ? { width: `${column.width}px` } : {} })));
      this.grid.style.minWidth = `${shown.reduce((sum, column) => sum + (column.width || 200), 0)}px`;
      fill(this.head, element("tr", { "aria-rowindex": "1" }, shown.map((column) => this.headCell(column))));
    }

    headCell(column) {
      const by = column.sort || column.key;
      const isSorted = this.sort === by;
      const arrow = isSorted ? element("span.arrow", { "aria-hidden": "true" }, this.descending ? "▼" : "▲") : null;
      const title = foreign(column.title);
      // Long names may break after an underscore.
      title.replaceChildren(...column.title.split(/(?<=[_\-/.])/).flatMap((part) => [assay.hidden.shown(part), document.createElement("wbr")]).flat());
      const inside = column.sorts ? button([title, arrow], () => this.sortBy(by), { class: "sorter", title: column.title }) : title;
      return element("th", { scope: "col", class: column.side, "aria-sort": isSorted ? (this.descending ? "descending" : "ascending") : null }, inside);
    }

    /** Sort by a column, the other way round when it is sorted so already. */
    sortBy(by) {
      this.descending = this.sort === by ? !this.descending : false;
      this.sort = by;
      this.drawHead();
      this.restart(null);
    }

    drawRow(row, index) {
      const shown = this.shownColumns();
      const given = { "aria-rowindex": String(index + 2) };
      if (!row) return element("tr.waiting", given, element("td", { colspan: shown.length }, "…"));
      const made = element("tr", given, shown.map((column) => this.cell(column, row, index)));
      if (row.error || !row.scored) made.classList.add("has-error");
      if (index === this.active) this.mark(made);
      made.addEventListener("click", (event) => {
        if (!event.target.closest("a") && !getSelection().toString()) assay.routes.go(this.address(row, index));
      });
      return made;
    }

    cell(column, row, index) {
      if (column.key !== "number") {
        const content = column.cell(row);
        return element("td", { class: column.side }, this.isSideBySide && column.text ? element("div.text", {}, content) : content);
      }
      const flag = row.labelled ? element("span.flag", { title: "labelled" }, "✎") : null;
      return element("th", { scope: "row" }, element("a", { href: this.address(row, index) }, String(row.number)), flag);
    }

    address(row, index) {
      return assay.routes.row(this.run.id, row.number, { ...this.asked(), at: String(index) });
    }

    /** Move the mark to another row, and the focus with it. */
    move(to) {
      const index = Math.min(this.virtual.total - 1, Math.max(0, to));
      if (index < 0 || !this.virtual.total) return;
      this.virtual.elementAt(this.active)?.removeAttribute("aria-current");
      this.active = index;
      this.virtual.reveal(index);
      this.mark(this.virtual.elementAt(index));
      this.virtual.elementAt(index)?.querySelector("a")?.focus({ preventScroll: true });
    }

    mark(made) {
      made?.setAttribute("aria-current", "true");
    }

    open() {
      const row = this.virtual.at(this.active);
      if (row) assay.routes.go(this.address(row, this.active));
    }

    keys() {
      const page = () => this.virtual.visible - 1;
      return {
        j: () => this.move(this.active + 1), ArrowDown: () => this.move(this.active + 1),
        k: () => this.move(this.active - 1), ArrowUp: () => this.move(this.active - 1),
        PageDown: () => this.move(this.active + page()), PageUp: () => this.move(this.active - page()),
        Home: () => this.move(0), End: () => this.move(this.virtual.total - 1),
        Enter: () => this.open(), "/": () => { this.input.focus(); this.input.select(); },
        Escape: () => { if (document.activeElement === this.input) this.scroller.focus(); },
      };
    }
  }

  assay.views = { ...assay.views, table };
})((globalThis.Assay ??= {}));
