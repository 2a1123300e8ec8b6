/* EmbeddedTable: the columns of a report's table, filtered and sorted in the page. */
((assay) => {
  "use strict";

  class EmbeddedTable {
    #columns;
    #verdicts;
    #ownVerdicts; // of criteria that rows bring, one mapping per row

    constructor({ columns, verdicts, own, criteria, tags }) {
      this.#columns = columns;
      this.#verdicts = verdicts;
      this.#ownVerdicts = own;
      this.numbers = columns.number || [];
      this.length = this.numbers.length;
      this.criteria = criteria;
      this.tags = tags;
    }

    /** The indices of all rows. */
    all() {
      return this.numbers.map((_, index) => index);
    }

    /** One row as the table shows it. */
    row(index) {
      const row = {};
      for (const name in this.#columns) row[name] = this.#columns[name][index];
      row.verdicts = Object.create(null);
      for (const name in this.#verdicts) {
        const verdict = this.#verdicts[name][index];
        if (verdict !== null) row.verdicts[name] = verdict;
      }
      // Not by Object.assign, which a criterion called __proto__ would mislead.
      for (const [name, verdict] of Object.entries(this.#ownVerdicts[index] || {})) row.verdicts[name] = verdict;
      return row;
    }

    /** Indices in the order of a column; rows without a value come last in both directions. */
    sorted(indices, sort, descending) {
      const isOwnCriterion = !this.#verdicts[sort] && this.criteria.includes(sort);
      const ownVerdicts = isOwnCriterion ? this.#ownVerdicts.map((verdicts) => (Object.hasOwn(verdicts, sort) ? verdicts[sort] : null)) : null;
      const column = ownVerdicts || this.#verdicts[sort] || this.#columns[sort] || this.numbers;
      const sign = descending ? -1 : 1;
      const order = (one, other) => {
        const [a, b] = [column[one], column[other]];
        if (a === null || b === null) return (a === null) - (b === null) || one - other;
        return (a < b ? -sign : a > b ? sign : 0) || one - other;
      };
      return indices.slice().sort(order);
    }

    findExample(example) {
      return this.all().filter((index) => this.#columns.example[index] === example);
    }
  }

  assay.EmbeddedTable = EmbeddedTable;
})((globalThis.Assay ??= {}));
