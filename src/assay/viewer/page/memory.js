/* Memory: what the browser remembers between two looks. A browser that refuses remembers nothing. */
((assay) => {
  "use strict";

  function get(name) {
    try {
      return localStorage.getItem(`assay-${name}`);
    } catch {
      return null;
    }
  }

  function set(name, value) {
    try {
      if (value === null) localStorage.removeItem(`assay-${name}`);
      else localStorage.setItem(`assay-${name}`, value);
    } catch {
      // Storage is full or forbidden; the page works without it.
    }
  }

  assay.memory = { get, set };
})((globalThis.Assay ??= {}));
