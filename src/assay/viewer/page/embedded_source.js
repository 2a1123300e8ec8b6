/* EmbeddedSource: runs that stand in the page itself, as `assay report` writes them.
   What every view needs is one packed text; whole rows are packed in chunks that are opened on demand. */
((assay) => {
  "use strict";
  const OPEN = 6;

  class EmbeddedSource {
    savesLabels = false;
    #data;
    #runs;

    constructor(data) {
      this.#data = data;
      this.#runs = new Map(data.runs.map(({ id }) => [id, new EmbeddedRun(id, data)]));
    }

    /** The source of this page when it carries data, else null. */
    static async here() {
      const held = document.getElementById("assay-data");
      return held ? new EmbeddedSource(await unpacked(held)) : null;
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

    rows(run, wanted, signal) {
      return this.#runs.get(run).rows(wanted, signal);
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
      const found = this.#data.compares?.[`${first}/${second}`] || { error: "this report does not compare these runs" };
      if (found.error) throw new Error(found.error);
      return found;
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
    #found = new Map();

    constructor(id, data) {
      this.id = id;
      this.size = data.chunk;
      this.table = new assay.EmbeddedTable(data.tables[id]);
      this.places = new Map(this.table.numbers.map((number, place) => [number, place]));
      this.labels = new assay.KeptLabels(id, data.labels[id]);
    }

    async rows({ query = "", sort = "number", descending = false, offset = 0, limit = 100 }, signal) {
      const key = JSON.stringify([query, sort, descending, this.labels.count]);
      if (!this.#found.has(key)) {
        const places = await this.#matching(query, signal);
        this.#found.clear();
        this.#found.set(key, this.table.sorted(places, sort, descending));
      }
      const places = this.#found.get(key);
      return { total: places.length, rows: places.slice(offset, offset + limit).map((place) => this.#shown(place)) };
    }

    async row(number) {
      const place = this.places.get(Number(number));
      if (place === undefined) throw new Error(`there is no row ${number}: the run has ${this.table.length}`);
      const chunk = await this.#chunk(Math.floor(place / this.size));
      const row = chunk[place % this.size];
      return { ...row, lines: row.lines.map((line) => ({ ...line, labels: this.labels.joined(row, line) })) };
    }

    /** The rollouts of one example; an advantage is the reward less the mean of those that have one. */
    async group(example) {
      const places = this.table.placesOf(example);
      if (!places.length) throw new Error(`there is no example '${example}'`);
      const rows = await Promise.all(places.map((place) => this.row(this.table.numbers[place])));
      const rewards = rows.map((row) => row.reward).filter(assay.words.isNumber);
      const mean = rewards.length ? rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length : null;
      const advantage = (row) => (row.reward === null || mean === null ? null : row.reward - mean);
      return { example, prompt: rows[0].prompt, mean, rows: rows.map((row) => ({ ...row, advantage: advantage(row) })) };
    }

    async label(label) {
      const row = await this.row(label.row);
      return this.labels.add(row, row.lines.find((one) => one.name === label.criterion), label);
    }

    #shown(place) {
      const row = this.table.row(place);
      return { ...row, labelled: row.labelled || this.labels.has(row) };
    }

    /** The places of the rows that a filter lets through. Text is looked at last, a chunk at a time. */
    async #matching(query, signal) {
      const filter = assay.filters.filterOf(query, this.table.criteria, this.table.tags);
      const quick = this.table.all().filter((place) => filter.quick(this.#shown(place)));
      if (!filter.readsText) return quick;
      const found = [];
      for (const place of quick) {
        signal?.throwIfAborted();
        const row = (await this.#chunk(Math.floor(place / this.size)))[place % this.size];
        if (filter.slow(`${assay.said.questionText(row.prompt)}\n${row.text}`)) found.push(place);
      }
      return found;
    }

    /** The whole rows of one chunk. The last few stay open. */
    #chunk(number) {
      if (!this.#chunks.has(number)) {
        const held = document.querySelector(`script[data-run="${CSS.escape(this.id)}"][data-chunk="${number}"]`);
        this.#chunks.set(number, unpacked(held));
        if (this.#chunks.size > OPEN) this.#chunks.delete(this.#chunks.keys().next().value);
      }
      return this.#chunks.get(number);
    }
  }

  /** What an element holds as base64 of gzip of JSON. */
  function unpacked(held) {
    const packed = Uint8Array.from(atob(held.textContent.trim()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  }

  assay.EmbeddedSource = EmbeddedSource;
})((globalThis.Assay ??= {}));
