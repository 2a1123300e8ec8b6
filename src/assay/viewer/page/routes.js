/* Routes: every view has an address, `#/run/ID/rows?q=…`, so that anything on the screen can be linked to. */
((assay) => {
  "use strict";

  /** The address of a view: the parts of its path, and its parameters. */
  function makeAddress(parts, params = {}) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(params)) if (value !== "" && value != null && value !== false) query.set(name, value);
    const text = query.toString();
    return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}${text ? `?${text}` : ""}`;
  }

  /** The parts and the parameters of an address. */
  function read(hash) {
    const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
    return { parts: path.split("/").filter(Boolean).map(decodePart), params: Object.fromEntries(new URLSearchParams(query)) };
  }

  function decodePart(part) {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  }

  const overview = (run) => makeAddress(["run", run]);
  const rows = (run, params) => makeAddress(["run", run, "rows"], params);
  const row = (run, number, params) => makeAddress(["run", run, "row", number], params);
  const group = (run, example) => makeAddress(["run", run, "group", example]);
  const compare = (first, second) => makeAddress(["compare", first, second]);

  /** Go to an address; with `replace`, without a new entry in the history of the browser. */
  function go(address, { replace = false } = {}) {
    if (replace) history.replaceState(null, "", address);
    else location.hash = address;
  }

  assay.routes = { read, go, overview, rows, row, group, compare };
})((globalThis.Assay ??= {}));
