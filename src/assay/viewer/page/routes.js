/* Routes: every view has an address, `#/run/ID/rows?q=…`, so that anything on the screen can be linked to. */
((assay) => {
  "use strict";

  /** The address of a view. */
  function to(parts, asked = {}) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(asked)) if (value !== "" && value != null && value !== false) query.set(name, value);
    const text = query.toString();
    return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}${text ? `?${text}` : ""}`;
  }

  /** What an address stands for: its parts, and what it asks. */
  function read(hash) {
    const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
    return { parts: path.split("/").filter(Boolean).map(decoded), asked: Object.fromEntries(new URLSearchParams(query)) };
  }

  function decoded(part) {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  }

  const overview = (run) => to(["run", run]);
  const rows = (run, asked) => to(["run", run, "rows"], asked);
  const row = (run, number, asked) => to(["run", run, "row", number], asked);
  const group = (run, example) => to(["run", run, "group", example]);
  const compare = (first, second) => to(["compare", first, second]);

  /** Go there, without a step in the history when only the question changed. */
  function go(address, { replace = false } = {}) {
    if (replace) history.replaceState(null, "", address);
    else location.hash = address;
  }

  assay.routes = { read, go, overview, rows, row, group, compare };
})((globalThis.Assay ??= {}));
