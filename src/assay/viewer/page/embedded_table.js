/* EmbeddedTable: the columns of a report's table, filtered and sorted in the page. */
((assay) => {
  "use strict";

  class EmbeddedTable {
    #columns;
    #verdicts;
    #own;

    constructor({ columns, verdicts, own, criteria, tags }) {
      this.#columns = columns;
      this.#verdicts = verdicts;
      this.#own = own;
      this.numbers = columns.number || [];
      this.length = this.numbers.length;
      this.criteria = criteria;
      this.tags = tags;
    }

    /** The places of all rows. */
    all() {
      return this.numbers.map((_, place) => place);
    }

    /** One row as the table shows it. */
    row(place) {
      const row = {};
      for (const name in this.#columns) row[name] = this.#columns[name][place];
      row.verdicts = Object.create(null);
      for (const name in this.#verdicts) {
        const said = this.#verdicts[name][place];
        if (said !== null) row.verdicts[name] = said;
      }
      // Not by Object.assign, which a criterion called __proto__ would mislead.
      for (const [name, said] of Object.entries(this.#own[place] || {})) row.verdicts[name] = said;
      return row;
    }

    /** Places in the order of a column; rows without a value come last either way. */
    sorted(places, sort, descending) {
      const isOwn = !this.#verdicts[sort] && this.criteria.includes(sort);
      const own = isOwn ? this.#own.map((said) => (Object.hasOwn(said, sort) ? said[sort] : null)) : null;
      const column = own || this.#verdicts[sort] || this.#columns[sort] || this.numbers;
      const way = descending ? -1 : 1;
      const order = (one, other) => {
        const [a, b] = [column[one], column[other]];
        if (a === null || b === null) return (a === null) - (b === null) || one - other;
        return (a < b ? -way : a > b ? way : 0) || one - other;
      };
      return places.slice().sort(order);
    }

    placesOf(example) {
      return this.all().filter((place) => this.#columns.example[place] === example);
    }
  }

  assay.EmbeddedTable = EmbeddedTable;
})((globalThis.Assay ??= {}));
