/* HttpSource: a run as `assay view` serves it. Every source answers the same questions with the same shapes. */
((assay) => {
  "use strict";

  class HttpSource {
    /** Whether labels are written beside the run, and need no export. */
    savesLabels = true;
    #overviews = new Map();

    runs() {
      return request("api/runs");
    }

    async overview(run) {
      const overview = await request(`api/runs/${encode(run)}/overview`);
      this.#overviews.set(run, overview);
      return overview;
    }

    /** The criteria of a run, which stay the same while it grows. */
    async criteria(run) {
      return (this.#overviews.get(run) ?? (await this.overview(run))).criteria;
    }

    /** The columns of the data, and those that have the same value in all rows: `{data, constant}`. */
    async columns(run) {
      const { columns: data, constant } = this.#overviews.get(run) ?? (await this.overview(run));
      return { data, constant };
    }

    /** Rows that a filter lets through: `{total, rows}`. */
    rows(run, { query = "", sort = "number", descending = false, offset = 0, limit = 100 }, signal) {
      const wanted = new URLSearchParams({ q: query, sort, descending: descending ? "1" : "0", offset, limit });
      return request(`api/runs/${encode(run)}/rows?${wanted}`, { signal });
    }

    row(run, number) {
      return request(`api/runs/${encode(run)}/rows/${encode(number)}`);
    }

    group(run, example) {
      return request(`api/runs/${encode(run)}/groups/${encode(example)}`);
    }

    compare(first, second) {
      return request(`api/compare?${new URLSearchParams({ a: first, b: second })}`);
    }

    changes(run, since) {
      return request(`api/runs/${encode(run)}/changes?${new URLSearchParams({ since })}`);
    }

    /** Save what a person says about one criterion of one row; gives the label as it was saved. */
    label(run, label) {
      const headers = { "Content-Type": "application/json" };
      return request(`api/runs/${encode(run)}/labels`, { method: "POST", headers, body: JSON.stringify(label) });
    }
  }

  function encode(value) {
    return encodeURIComponent(String(value));
  }

  async function request(address, options) {
    let reply;
    try {
      reply = await fetch(address, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("the page's server does not answer: is `assay view` still running?");
    }
    const answer = await reply.json().catch(() => null);
    if (!reply.ok) throw new Error(answer?.error || `${address}: the server answered ${reply.status}`);
    return answer;
  }

  assay.HttpSource = HttpSource;
})((globalThis.Assay ??= {}));
