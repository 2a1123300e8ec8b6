/* EmbeddedSource: runs that are part of the page, as `assay report` writes them.
   What every view needs is one packed text; whole rows are packed in chunks that are unpacked on demand. */
((assay) => {
  "use strict";
  const OPEN_CHUNKS = 6;

  class EmbeddedSource {
    savesLabels = false;
    #data;
    #runs;

    constructor(data) {
      this.#data = data;
      this.#runs = new Map(data.runs.map(({ id }) => [id, new EmbeddedRun(id, data)]));
    }

    /** The source of this page when it carries data, else null. */
    static async find() {
      const script = document.getElementById("assay-data");
      return script ? new EmbeddedSource(await unpack(script)) : null;
    }

    async runs() {
      return this.#data.runs;
    }

    async overview(run) {
      return this.#data.overviews[run];
    }

    async criteria(run) {
      return this.#data.overviews[run].criteria;
    }

    async columns(run) {
      const { columns: data, constant } = this.#data.overviews[run];
      return { data, constant };
    }

    rows(run, options, signal) {
      return this.#runs.get(run).rows(options, signal);
    }

    row(run, number) {
      return this.#runs.get(run).row(number);
    }

    group(run, example) {
      return this.#runs.get(run).group(example);
    }

    label(run, label) {
      return this.#runs.get(run).label(label);
    }

    async compare(first, second) {
      const comparison = this.#data.compares?.[`${first}/${second}`] || { error: "this report does not compare these runs" };
      if (comparison.error) throw new Error(comparison.error);
      return comparison;
    }

    async changes(run) {
      return { rows: this.#data.overviews[run].rows, live: false };
    }

    /** The labels about one run, those of the run and those given in this page, as the lines of a file. */
    exported(run) {
      return this.#runs.get(run).labels.lines();
    }
  }

  class EmbeddedRun {
    #chunks = new Map();
    #sortedRows = new Map();

    constructor(id, data) {
      this.id = id;
      this.size = data.chunk;
      this.table = new assay.EmbeddedTable(data.tables[id]);
      this.indexOfRow = new Map(this.table.numbers.map((number, index) => [number, index]));
      this.labels = new assay.KeptLabels(id, data.labels[id]);
    }

    async rows({ query = "", sort = "number", descending = false, offset = 0, limit = 100 }, signal) {
      const key = JSON.stringify([query, sort, descending, this.labels.count]);
      if (!this.#sortedRows.has(key)) {
        const rowIndices = await this.#findMatching(query, signal);
        this.#sortedRows.clear();
        this.#sortedRows.set(key, this.table.sorted(rowIndices, sort, descending));
      }
      const rowIndices = this.#sortedRows.get(key);
      return { total: rowIndices.length, rows: rowIndices.slice(offset, offset + limit).map((index) => this.#tableRow(index)) };
    }

    async row(number) {
      const index = this.indexOfRow.get(Number(number));
      if (index === undefined) throw new Error(`there is no row ${number}: the run has ${this.table.length}`);
      const chunk = await this.#chunk(Math.floor(index / this.size));
      const row = chunk[index % this.size];
      return { ...row, lines: row.lines.map((line) => ({ ...line, labels: this.labels.joined(row, line) })) };
    }

    /** The rollouts of one example; an advantage is the reward minus the mean of those that have one. */
    async group(example) {
      const rowIndices = this.table.findExample(example);
      if (!rowIndices.length) throw new Error(`there is no example '${example}'`);
      const rows = await Promise.all(rowIndices.map((index) => this.row(this.table.numbers[index])));
      const rewards = rows.map((row) => row.reward).filter(assay.format.isNumber);
      const mean = rewards.length ? rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length : null;
      const advantage = (row) => (row.reward === null || mean === null ? null : row.reward - mean);
      return { example, prompt: rows[0].prompt, mean, rows: rows.map((row) => ({ ...row, advantage: advantage(row) })) };
    }

    async label(label) {
      const row = await this.row(label.row);
      return this.labels.add(row, row.lines.find((line) => line.name === label.criterion), label);
    }

    #tableRow(index) {
      const row = this.table.row(index);
      return { ...row, labelled: row.labelled || this.labels.has(row) };
    }

    /** The indices of the rows that match a filter. Texts are looked at last, because their chunks have to be unpacked. */
    async #findMatching(query, signal) {
      const filter = assay.filters.makeFilter(query, this.table.criteria, this.table.tags);
      const quick = this.table.all().filter((index) => filter.quick(this.#tableRow(index)));
      if (!filter.readsText) return quick;
      const matches = [];
      for (const index of quick) {
        signal?.throwIfAborted();
        const row = (await this.#chunk(Math.floor(index / this.size)))[index % this.size];
        if (filter.slow(`${assay.content.questionText(row.prompt)}\n${row.text}`)) matches.push(index);
      }
      return matches;
    }

    /** The whole rows of one chunk. The last few stay open. */
    #chunk(number) {
      if (!this.#chunks.has(number)) {
        const script = document.querySelector(`script[data-run="${CSS.escape(this.id)}"][data-chunk="${number}"]`);
        this.#chunks.set(number, unpack(script));
        if (this.#chunks.size > OPEN_CHUNKS) this.#chunks.delete(this.#chunks.keys().next().value);
      }
      return this.#chunks.get(number);
    }
  }

  /** The data in a script element: JSON, packed with gzip, as base64. */
  function unpack(script) {
    const packed = Uint8Array.from(atob(script.textContent.trim()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  }

  assay.EmbeddedSource = EmbeddedSource;
})((globalThis.Assay ??= {}));
