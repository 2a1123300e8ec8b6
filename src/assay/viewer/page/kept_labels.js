/* KeptLabels: labels given in a report. They stay in the browser and can be taken out as a labels.jsonl. */
((assay) => {
  "use strict";

  class KeptLabels {
    #place;
    #labels;
    #keys;

    constructor(run) {
      this.#place = `labels-${run}`;
      this.#labels = JSON.parse(assay.memory.get(this.#place) || "[]");
      this.#keys = new Set(this.#labels.map(keyOf));
    }

    get count() {
      return this.#labels.length;
    }

    /** Keep a label with time and the hash of the wording that the person saw. */
    add(row, line, { verdict, note, rater }) {
      const time = new Date().toISOString().replace(/\.\d+Z$/, "Z");
      const about = { example: row.example, sample: row.sample, criterion: line.name };
      const label = { ...about, verdict, rater, note, time, guideline: line.hash };
      this.#labels.push(label);
      this.#keys.add(keyOf(row));
      assay.memory.set(this.#place, JSON.stringify(this.#labels));
      return label;
    }

    has(row) {
      return this.#keys.has(keyOf(row));
    }

    /** The labels of one line, of each person the last; those of the run with those of the page. */
    joined(row, line) {
      const own = this.#labels.filter((label) => keyOf(label) === keyOf(row) && label.criterion === line.name);
      const latest = new Map([...(line.labels || []), ...own].map((label) => [label.rater || "human", label]));
      return [...latest.values()].filter((label) => label.verdict !== null);
    }

    /** One JSON text a line; what is empty is left out, but for the verdict. */
    lines() {
      const kept = (label) => Object.fromEntries(
        Object.entries(label).filter(([name, value]) => name === "verdict" || (value !== "" && value != null)),
      );
      return this.#labels.map((label) => `${JSON.stringify(kept(label))}\n`).join("");
    }
  }

  function keyOf({ example, sample }) {
    return `${sample} ${example}`;
  }

  assay.KeptLabels = KeptLabels;
})((globalThis.Assay ??= {}));
