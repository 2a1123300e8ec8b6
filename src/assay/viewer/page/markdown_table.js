/* Tables of markdown: cells between bars, each with its place in the message. */
((assay) => {
  "use strict";
  const { element } = assay.dom;
  const WIDEST = 40;

  /** The table that some lines make: a head, a divider, and rows. */
  function markdownTable([head, divider, ...rows], options) {
    const sides = cellsOf(divider).map(({ text }) => sideOf(text.trim()));
    const makeRow = (name) => (line) =>
      element("tr", {}, cellsOf(line).map((cell, index) => element(name, { class: sides[index], dir: "auto" }, renderCell(cell, options))));
    return element("div.scrolls", { tabindex: "0", role: "region", "aria-label": "table in the answer" },
      element("table.plain", {}, element("thead", {}, makeRow("th")(head)), element("tbody", {}, rows.map(makeRow("td")))));
  }

  function renderCell({ text, offset }, options) {
    return assay.inline(text, (index) => offset + index, options, 1);
  }

  function sideOf(dashes) {
    if (dashes.endsWith(":")) return dashes.startsWith(":") ? "middle" : "right";
    return null;
  }

  function cellsOf({ text, offset }) {
    const cells = [];
    let start = text.trimStart().startsWith("|") ? text.indexOf("|") + 1 : 0;
    const end = text.trimEnd().endsWith("|") ? text.trimEnd().length - 1 : text.length;
    for (let index = start; index <= end && cells.length < WIDEST; index++) {
      const isBar = text[index] === "|" && text[index - 1] !== "\\";
      if (index !== end && !isBar) continue;
      cells.push({ text: text.slice(start, index), offset: offset + start });
      start = index + 1;
    }
    return cells;
  }

  assay.markdownTable = markdownTable;
})((globalThis.Assay ??= {}));
