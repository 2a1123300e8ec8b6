/* Tables of markdown: cells between bars, each with its place in the message. */
((assay) => {
  "use strict";
  const { element } = assay.dom;
  const WIDEST = 40;

  /** The table that some lines make: a head, a divider, and rows. */
  function markdownTable([head, divider, ...rows], how) {
    const sides = cellsOf(divider).map(({ text }) => sideOf(text.trim()));
    const row = (name) => (line) =>
      element("tr", {}, cellsOf(line).map((cell, place) => element(name, { class: sides[place], dir: "auto" }, shown(cell, how))));
    return element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "table in the answer" },
      element("table.plain", {}, element("thead", {}, row("th")(head)), element("tbody", {}, rows.map(row("td")))));
  }

  function shown({ text, at }, how) {
    return assay.inline(text, (offset) => at + offset, how, 1);
  }

  function sideOf(dashes) {
    if (dashes.endsWith(":")) return dashes.startsWith(":") ? "middle" : "right";
    return null;
  }

  function cellsOf({ text, at }) {
    const cells = [];
    let from = text.trimStart().startsWith("|") ? text.indexOf("|") + 1 : 0;
    const end = text.trimEnd().endsWith("|") ? text.trimEnd().length - 1 : text.length;
    for (let place = from; place <= end && cells.length < WIDEST; place++) {
      const isBar = text[place] === "|" && text[place - 1] !== "\\";
      if (place !== end && !isBar) continue;
      cells.push({ text: text.slice(from, place), at: at + from });
      from = place + 1;
    }
    return cells;
  }

  assay.markdownTable = markdownTable;
})((globalThis.Assay ??= {}));
