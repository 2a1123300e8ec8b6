/* Virtual: a table of any length. Only the rows in sight are in the page, and rows are fetched in batches. */
((assay) => {
  "use strict";
  const BATCH = 100; // rows that are fetched together
  const MARGIN = 12; // rows that are drawn above and below those in sight
  const KEPT_BATCHES = 40;

  class Virtual {
    #batches = new Map();
    #drawn = new Map();
    #abort = null;
    #isScheduled = false;
    #isMeasured = false;
    #spaceAbove = document.createElement("tr");
    #spaceBelow = document.createElement("tr");

    /** `fetch(offset, limit, signal)` returns `{total, rows}`, and `draw(row, index)` a table row; `row` is null until it is fetched. */
    constructor({ scroller, body, fetch, draw, ontotal, onfail }) {
      Object.assign(this, { scroller, body, fetch, draw, ontotal, onfail, total: 0, height: 34 });
      this.#spaceAbove.className = this.#spaceBelow.className = "spacer";
      for (const spacer of [this.#spaceAbove, this.#spaceBelow]) spacer.setAttribute("aria-hidden", "true");
      scroller.addEventListener("scroll", () => this.#showSoon(), { passive: true });
      new ResizeObserver(() => this.show()).observe(scroller);
    }

    /** Fetch the rows again after a change of filter or order, and scroll to row `at`; with `keep`, stay where the reader is. */
    async restart({ keep = false, at = 0 } = {}) {
      this.#abort?.abort();
      this.#abort = new AbortController();
      const first = keep ? this.#firstVisible() : at;
      try {
        const batch = Math.floor(first / BATCH);
        const answer = await this.fetch(batch * BATCH, BATCH, this.#abort.signal);
        this.#batches = new Map([[batch, answer.rows]]);
        this.total = answer.total;
        this.#clear();
        this.ontotal(answer.total);
        this.#setSpace(0, 0);
        if (!keep) this.scroller.scrollTop = at ? this.#scrollTopFor(at) : 0;
        this.show();
      } catch (error) {
        if (error.name !== "AbortError") this.onfail(error);
      }
    }

    /** The row with this index; null if it is not fetched. */
    rowAt(index) {
      return this.#batches.get(Math.floor(index / BATCH))?.[index % BATCH] ?? null;
    }

    /** The element of a row; null if it is not in the page. */
    elementAt(index) {
      return this.#drawn.get(index)?.element ?? null;
    }

    /** Draw every row again, after a change of the columns. */
    redraw() {
      this.#clear();
      this.show();
    }

    /** Draw every row again, after a change of their height. */
    measureAgain() {
      this.#isMeasured = false;
      this.#clear();
      this.show();
    }

    /** Scroll so that a row is in sight. */
    reveal(index) {
      const { scrollTop, clientHeight } = this.scroller;
      const head = this.#headHeight();
      const top = index * this.height;
      if (top < scrollTop) this.scroller.scrollTop = top;
      else if (top + this.height + head > scrollTop + clientHeight) this.scroller.scrollTop = top + this.height + head - clientHeight;
      this.show();
    }

    /** The number of rows in sight. */
    get visibleCount() {
      return Math.max(1, Math.floor((this.scroller.clientHeight - this.#headHeight()) / this.height));
    }

    /** Draw the rows in sight, and fetch those that are missing. */
    show() {
      if (!this.scroller.isConnected) return;
      const first = Math.max(0, this.#firstVisible() - MARGIN);
      const last = Math.min(this.total, this.#firstVisible() + this.visibleCount + MARGIN + 1);
      for (const [index, { element }] of this.#drawn) if (index < first || index >= last) this.#remove(index, element);
      for (let index = first; index < last; index++) this.#drawOne(index);
      this.#setSpace(first, last);
      this.#measure();
      this.#fetchMissing(first, last);
    }

    /** Call `show` once per frame, however often the reader scrolls in it. */
    #showSoon() {
      if (this.#isScheduled) return;
      this.#isScheduled = true;
      requestAnimationFrame(() => {
        this.#isScheduled = false;
        this.show();
      });
    }

    /** Measure the height of one row, once: the style sheet gives all rows the same height. */
    #measure() {
      const [first] = this.#drawn.values();
      const height = this.#isMeasured || !first ? 0 : first.element.offsetHeight;
      if (!height) return;
      this.#isMeasured = true;
      if (height === this.height) return;
      this.height = height;
      this.show();
    }

    #drawOne(index) {
      const row = this.rowAt(index);
      const known = this.#drawn.get(index);
      if (known && known.row === row) return;
      const element = this.draw(row, index);
      if (known) known.element.replaceWith(element);
      else this.#insert(index, element);
      this.#drawn.set(index, { element, row });
    }

    #insert(index, element) {
      let before = this.#spaceBelow;
      for (let next = index + 1; next <= index + this.#drawn.size + 1; next++) {
        if (this.#drawn.has(next)) {
          before = this.#drawn.get(next).element;
          break;
        }
      }
      this.body.insertBefore(element, before);
    }

    #remove(index, element) {
      element.remove();
      this.#drawn.delete(index);
    }

    #clear() {
      this.#drawn.clear();
      this.body.replaceChildren(this.#spaceAbove, this.#spaceBelow);
    }

    /** Set the height of the empty space for the rows before `first`, and for those from `last` on. */
    #setSpace(first, last) {
      this.#spaceAbove.style.height = `${first * this.height}px`;
      this.#spaceBelow.style.height = `${Math.max(0, this.total - last) * this.height}px`;
    }

    async #fetchMissing(first, last) {
      const signal = this.#abort?.signal;
      for (let batch = Math.floor(first / BATCH); batch * BATCH < last; batch++) {
        if (this.#batches.has(batch)) continue;
        this.#batches.set(batch, []);
        try {
          const { rows } = await this.fetch(batch * BATCH, BATCH, signal);
          this.#batches.set(batch, rows);
          this.#dropFarBatches(batch);
          this.show();
        } catch (error) {
          this.#batches.delete(batch);
          if (error.name !== "AbortError") this.onfail(error);
        }
      }
    }

    #dropFarBatches(current) {
      const batches = [...this.#batches.keys()];
      if (batches.length <= KEPT_BATCHES) return;
      batches.sort((one, other) => Math.abs(other - current) - Math.abs(one - current));
      for (const batch of batches.slice(0, batches.length - KEPT_BATCHES)) this.#batches.delete(batch);
    }

    #firstVisible() {
      return Math.floor(this.scroller.scrollTop / this.height);
    }

    #scrollTopFor(index) {
      return Math.max(0, index * this.height - this.scroller.clientHeight / 3);
    }

    #headHeight() {
      return this.body.parentElement?.tHead?.offsetHeight ?? 0;
    }
  }

  assay.Virtual = Virtual;
})((globalThis.Assay ??= {}));
