/* Table: all rows of a run, filtered, sorted, and browsed by keys. */
((assay) => {
  "use strict";
  const { element, fill, untrusted, button } = assay.dom;
  const { formatNumber, formatCount } = assay.format;
  const TYPING_PAUSE = 160; // milliseconds

  /** Show the rows that match a filter. Filter, order and position are in the address. */
  async function table({ source, run, params }, main) {
    const [criteria, columns] = [await source.criteria(run.id), await source.columns(run.id)];
    const rows = new Table(source, run, criteria, columns, params);
    fill(main, rows.makeParts());
    await rows.restart(params.at === undefined ? null : Number(params.at));
    return { title: "Rows", refresh: () => rows.virtual.restart({ keep: true }), keys: rows.makeKeys(), focus: rows.scroller };
  }

  class Table {
    constructor(source, run, criteria, { data, constant }, params) {
      Object.assign(this, { source, run, query: params.q || "", sort: params.sort || "number", descending: params.desc === "1", active: -1 });
      this.columns = assay.columns.columnsOf(criteria, data);
      this.shownKeys = assay.columns.readKeys(this.columns, run.rubric?.hash, constant);
      this.isSideBySide = assay.memory.get("side-by-side") === "1";
      this.input = this.makeFilterBox();
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

    makeParts() {
      const chips = [["error", "errors"], ["unscored", "unscored"], ["disagreement", "judges disagree"], ["label", "labelled"]];
      const chooser = assay.columns.makeChooser(this.columns, this.shownKeys, () => this.saveColumns());
      this.drawHead();
      return [
        element("h1.unseen", {}, `Rows of ${this.run.name}`),
        element("form.toolbar", { role: "search", onsubmit: (event) => { event.preventDefault(); this.filterLater(0); this.scroller.focus(); } },
          element("label.unseen", { for: "filter" }, "Filter rows"), this.input,
          element("div.chips", {}, chips.map(([term, words]) => button(words, () => this.toggleTerm(term), { class: "chip", title: `add ${term} to the filter` }))),
          this.total, this.makeSideBySideButton(), chooser),
        this.message, this.scroller,
      ];
    }

    /** A button that shows prompt, reference and answer of each row side by side, wrapped. */
    makeSideBySideButton() {
      const toggle = (event) => {
        this.isSideBySide = !this.isSideBySide;
        assay.memory.set("side-by-side", this.isSideBySide ? "1" : null);
        event.currentTarget.setAttribute("aria-pressed", String(this.isSideBySide));
        this.drawHead();
        this.virtual.measureAgain();
      };
      return button("Side by side", toggle, { "aria-pressed": String(this.isSideBySide), title: "prompt, reference and answer of each row" });
    }

    makeFilterBox() {
      const input = element("input", {
        id: "filter", type: "search", spellcheck: "false", autocomplete: "off", "aria-describedby": "filter-error",
        placeholder: 'words, or criterion:x verdict:UNMET score<0.5 text~"…"',
      });
      input.value = this.query;
      input.addEventListener("input", () => this.filterLater(TYPING_PAUSE));
      return input;
    }

    /** Add a term to the filter, or remove it if it is there. */
    toggleTerm(term) {
      const terms = this.input.value.split(/\s+/).filter(Boolean);
      const newTerms = terms.includes(term) ? terms.filter((other) => other !== term) : [...terms, term];
      this.input.value = newTerms.join(" ");
      this.filterLater(0);
    }

    /** Apply the filter after some milliseconds, unless it changes again until then. */
    filterLater(wait) {
      clearTimeout(this.filterTimer);
      this.filterTimer = setTimeout(() => {
        this.query = this.input.value.trim();
        if (this.checkFilter()) this.restart(null);
      }, wait);
    }

    /** Whether the filter can be read; if not, the message below it says why. */
    checkFilter() {
      try {
        assay.filters.readTerms(this.query);
        fill(this.message);
        this.input.removeAttribute("aria-invalid");
        return true;
      } catch (error) {
        fill(this.message, untrusted(error.message));
        this.input.setAttribute("aria-invalid", "true");
        return false;
      }
    }

    /** The parameters of the address: filter and order. */
    params() {
      return { q: this.query, sort: this.sort === "number" ? "" : this.sort, desc: this.descending ? "1" : "" };
    }

    /** Ask for the rows from the start; with `index`, scroll to the row with that index. */
    async restart(index) {
      this.active = index ?? -1;
      assay.routes.go(assay.routes.rows(this.run.id, this.params()), { replace: true });
      this.fitHeight();
      if (this.checkFilter()) await this.virtual.restart({ at: index ?? 0 });
    }

    /** Make the table as high as what is left of the window. */
    fitHeight() {
      const above = this.scroller.getBoundingClientRect().top + scrollY;
      this.scroller.style.height = `calc(100dvh - ${Math.round(above)}px - 1rem)`;
    }

    showTotal(total) {
      const all = this.query ? ` of ${formatNumber(this.run.rows)}` : "";
      fill(this.total, `${formatNumber(total)}${all} ${total === 1 && !all ? "row" : "rows"}`);
      this.grid.setAttribute("aria-rowcount", String(total + 1));
      this.grid.classList.toggle("empty", total === 0);
      assay.dom.announce(total ? formatCount(total, "row") : "no rows");
    }

    saveColumns() {
      assay.columns.saveKeys(this.shownKeys, this.run.rubric?.hash);
      this.drawHead();
      this.virtual.redraw();
    }

    shownColumns() {
      if (this.isSideBySide) return assay.columns.sideBySide(this.columns);
      return this.columns.filter((column) => this.shownKeys.has(column.key));
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
      const sortKey = column.sort || column.key;
      const isSorted = this.sort === sortKey;
      const arrow = isSorted ? element("span.arrow", { "aria-hidden": "true" }, this.descending ? "▼" : "▲") : null;
      const title = untrusted(column.title);
      // Long names may break after an underscore.
      title.replaceChildren(...column.title.split(/(?<=[_\-/.])/).flatMap((part) => [assay.hidden.withBadges(part), document.createElement("wbr")]).flat());
      const content = column.sorts ? button([title, arrow], () => this.sortBy(sortKey), { class: "sorter", title: column.title }) : title;
      return element("th", { scope: "col", class: column.side, "aria-sort": isSorted ? (this.descending ? "descending" : "ascending") : null }, content);
    }

    /** Sort by a column; if the rows are sorted by it already, in the other direction. */
    sortBy(sortKey) {
      this.descending = this.sort === sortKey ? !this.descending : false;
      this.sort = sortKey;
      this.drawHead();
      this.restart(null);
    }

    drawRow(row, index) {
      const shown = this.shownColumns();
      const attributes = { "aria-rowindex": String(index + 2) };
      if (!row) return element("tr.waiting", attributes, element("td", { colspan: shown.length }, "…"));
      const tableRow = element("tr", attributes, shown.map((column) => this.drawCell(column, row, index)));
      if (row.error || !row.scored) tableRow.classList.add("has-error");
      if (index === this.active) tableRow.setAttribute("aria-current", "true");
      tableRow.addEventListener("click", (event) => {
        if (!event.target.closest("a") && !getSelection().toString()) assay.routes.go(this.addressOf(row, index));
      });
      return tableRow;
    }

    drawCell(column, row, index) {
      if (column.key !== "number") {
        const content = column.cell(row);
        return element("td", { class: column.side }, this.isSideBySide && column.text ? element("div.text", {}, content) : content);
      }
      const flag = row.labelled ? element("span.flag", { title: "labelled" }, "✎") : null;
      return element("th", { scope: "row" }, element("a", { href: this.addressOf(row, index) }, String(row.number)), flag);
    }

    addressOf(row, index) {
      return assay.routes.row(this.run.id, row.number, { ...this.params(), at: String(index) });
    }

    /** Make another row the current one, and give it the focus. */
    moveTo(wantedIndex) {
      const index = Math.min(this.virtual.total - 1, Math.max(0, wantedIndex));
      if (index < 0 || !this.virtual.total) return;
      this.virtual.elementAt(this.active)?.removeAttribute("aria-current");
      this.active = index;
      this.virtual.reveal(index);
      const tableRow = this.virtual.elementAt(index);
      tableRow?.setAttribute("aria-current", "true");
      tableRow?.querySelector("a")?.focus({ preventScroll: true });
    }

    openCurrent() {
      const row = this.virtual.rowAt(this.active);
      if (row) assay.routes.go(this.addressOf(row, this.active));
    }

    makeKeys() {
      const page = () => this.virtual.visibleCount - 1;
      return {
        j: () => this.moveTo(this.active + 1), ArrowDown: () => this.moveTo(this.active + 1),
        k: () => this.moveTo(this.active - 1), ArrowUp: () => this.moveTo(this.active - 1),
        PageDown: () => this.moveTo(this.active + page()), PageUp: () => this.moveTo(this.active - page()),
        Home: () => this.moveTo(0), End: () => this.moveTo(this.virtual.total - 1),
        Enter: () => this.openCurrent(), "/": () => { this.input.focus(); this.input.select(); },
        Escape: () => { if (document.activeElement === this.input) this.scroller.focus(); },
      };
    }
  }

  assay.views = { ...assay.views, table };
})((globalThis.Assay ??= {}));
