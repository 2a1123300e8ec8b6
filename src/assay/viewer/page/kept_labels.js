/* KeptLabels: labels given in a report. They stay in the browser, and are exported with those of the run. */
((assay) => {
  "use strict";

  class KeptLabels {
    #storageName;
    #runLabels;
    #labels;
    #keys;

    /** `runLabels` are the labels that the run had when the report was written. */
    constructor(run, runLabels) {
      this.#storageName = `labels-${run}`;
      this.#runLabels = runLabels;
      this.#labels = this.#readStored();
      this.#keys = new Set(this.#labels.map(keyOf));
    }

    get count() {
      return this.#labels.length;
    }

    /** Keep a label with the time, and with the hashes of the text and the wording that the person saw. */
    add(row, line, { verdict, note, rater }) {
      const time = new Date().toISOString().replace(/\.\d+Z$/, "Z");
      const label = {
        example: row.example,
        sample: row.sample,
        criterion: line.name,
        verdict,
        rater,
        note,
        time,
        guideline: line.guidelines?.[0],
        text_hash: row.text_hash,
      };
      // Another tab with this report may have stored labels in the meantime.
      const stored = this.#readStored();
      if (stored.length >= this.#labels.length) this.#labels = stored;
      this.#labels.push(label);
      this.#keys = new Set(this.#labels.map(keyOf));
      assay.memory.set(this.#storageName, JSON.stringify(this.#labels));
      return label;
    }

    has(row) {
      return this.#keys.has(keyOf(row));
    }

    /** The labels of one line, the last of each person: those of the run and those of this browser. */
    joined(row, line) {
      const own = this.#labels.filter((label) => keyOf(label) === keyOf(row) && label.criterion === line.name);
      const latest = new Map([...(line.labels || []), ...own].map((label) => [personOf(label.rater), label]));
      return [...latest.values()].filter((label) => label.verdict !== null);
    }

    /** All labels, those of the run first, as JSON lines. Empty fields are left out, except the verdict. */
    lines() {
      const kept = (label) => Object.fromEntries(
        Object.entries(label).filter(([name, value]) => name === "verdict" || (value !== "" && value != null)),
      );
      return [...this.#runLabels, ...this.#labels].map((label) => `${JSON.stringify(kept(label))}\n`).join("");
    }

    #readStored() {
      return JSON.parse(assay.memory.get(this.#storageName) || "[]");
    }
  }

  function keyOf({ example, sample }) {
    return `${sample} ${example}`;
  }

  /** The name by which a person is recognised: case and surrounding space do not matter. */
  function personOf(rater) {
    return (rater || "human").trim().toLowerCase();
  }

  assay.KeptLabels = KeptLabels;
  assay.personOf = personOf;
})((globalThis.Assay ??= {}));
