/* Virtual: a list of any length of which only the visible rows are in the page, fetched a page at a time. */
((assay) => {
  "use strict";
  const PAGE = 100;
  const BEYOND = 12;
  const KEPT = 40;

  class Virtual {
    #pages = new Map();
    #drawn = new Map();
    #asked = null;
    #isWaiting = false;
    #isMeasured = false;
    #above = document.createElement("tr");
    #below = document.createElement("tr");

    /** `fetch(offset, limit, signal)` gives `{total, rows}`, `draw(row, index)` a table row; null stands for one that is on its way. */
    constructor({ scroller, body, fetch, draw, ontotal, onfail }) {
      Object.assign(this, { scroller, body, fetch, draw, ontotal, onfail, total: 0, height: 34 });
      this.#above.className = this.#below.className = "spacer";
      for (const spacer of [this.#above, this.#below]) spacer.setAttribute("aria-hidden", "true");
      scroller.addEventListener("scroll", () => this.#showSoon(), { passive: true });
      new ResizeObserver(() => this.show()).observe(scroller);
    }

    /** Begin anew, since the question changed; `keep` leaves the place where it is. */
    async restart({ keep = false, at = 0 } = {}) {
      this.#asked?.abort();
      this.#asked = new AbortController();
      const first = keep ? this.#firstVisible() : at;
      try {
        const page = Math.floor(first / PAGE);
        const answer = await this.fetch(page * PAGE, PAGE, this.#asked.signal);
        this.#pages = new Map([[page, answer.rows]]);
        this.total = answer.total;
        this.#clear();
        this.ontotal(answer.total);
        this.#space(0, 0);
        if (!keep) this.scroller.scrollTop = at ? this.#topOf(at) : 0;
        this.show();
      } catch (error) {
        if (error.name !== "AbortError") this.onfail(error);
      }
    }

    /** The row at a place, when it has come. */
    at(index) {
      return this.#pages.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
    }

    /** The element of a row, when it is in the page. */
    elementAt(index) {
      return this.#drawn.get(index)?.element ?? null;
    }

    /** Draw every row anew, as when other columns are wanted. */
    redraw() {
      this.#clear();
      this.show();
    }

    /** Draw every row anew after a change of their height. */
    measureAgain() {
      this.#isMeasured = false;
      this.#clear();
      this.show();
    }

    /** Bring a row into sight. */
    reveal(index) {
      const { scrollTop, clientHeight } = this.scroller;
      const head = this.#headHeight();
      const top = index * this.height;
      if (top < scrollTop) this.scroller.scrollTop = top;
      else if (top + this.height + head > scrollTop + clientHeight) this.scroller.scrollTop = top + this.height + head - clientHeight;
      this.show();
    }

    /** How many rows are seen at once. */
    get visible() {
      return Math.max(1, Math.floor((this.scroller.clientHeight - this.#headHeight()) / this.height));
    }

    show() {
      if (!this.scroller.isConnected) return;
      const first = Math.max(0, this.#firstVisible() - BEYOND);
      const last = Math.min(this.total, this.#firstVisible() + this.visible + BEYOND + 1);
      for (const [index, { element }] of this.#drawn) if (index < first || index >= last) this.#remove(index, element);
      for (let index = first; index < last; index++) this.#drawOne(index);
      this.#space(first, last);
      this.#measure();
      this.#fetchFor(first, last);
    }

    /** Show once in a frame, however often the scroll bar moves in it. */
    #showSoon() {
      if (this.#isWaiting) return;
      this.#isWaiting = true;
      requestAnimationFrame(() => {
        this.#isWaiting = false;
        this.show();
      });
    }

    /** The style decides how high a row is; all are alike, so one is measured, and only once. */
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
      const row = this.at(index);
      const known = this.#drawn.get(index);
      if (known && known.row === row) return;
      const element = this.draw(row, index);
      if (known) known.element.replaceWith(element);
      else this.#insert(index, element);
      this.#drawn.set(index, { element, row });
    }

    #insert(index, element) {
      let before = this.#below;
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
      this.body.replaceChildren(this.#above, this.#below);
    }

    #space(first, last) {
      this.#above.style.height = `${first * this.height}px`;
      this.#below.style.height = `${Math.max(0, this.total - last) * this.height}px`;
    }

    async #fetchFor(first, last) {
      const signal = this.#asked?.signal;
      for (let page = Math.floor(first / PAGE); page * PAGE < last; page++) {
        if (this.#pages.has(page)) continue;
        this.#pages.set(page, []);
        try {
          const { rows } = await this.fetch(page * PAGE, PAGE, signal);
          this.#pages.set(page, rows);
          this.#forget(page);
          this.show();
        } catch (error) {
          this.#pages.delete(page);
          if (error.name !== "AbortError") this.onfail(error);
        }
      }
    }

    #forget(near) {
      const pages = [...this.#pages.keys()];
      if (pages.length <= KEPT) return;
      pages.sort((one, other) => Math.abs(other - near) - Math.abs(one - near));
      for (const page of pages.slice(0, pages.length - KEPT)) this.#pages.delete(page);
    }

    #firstVisible() {
      return Math.floor(this.scroller.scrollTop / this.height);
    }

    #topOf(index) {
      return Math.max(0, index * this.height - this.scroller.clientHeight / 3);
    }

    #headHeight() {
      return this.body.parentElement?.tHead?.offsetHeight ?? 0;
    }
  }

  assay.Virtual = Virtual;
})((globalThis.Assay ??= {}));
