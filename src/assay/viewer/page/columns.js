/* Columns: what the table of rows can show, and which of it a reader wants. */
((assay) => {
  "use strict";
  const { element, foreign } = assay.dom;
  const { score, seconds, dollars } = assay.words;
  const NARROW = 700;
  const MOST = 26;

  const FIXED = [
    { key: "number", title: "Row", width: 70, sorts: true },
    { key: "example", title: "Example", width: 110, sorts: true, cell: (row) => foreign(row.example) },
    { key: "sample", title: "Sample", width: 76, sorts: true, side: "number", cell: (row) => String(row.sample) },
    { key: "task", title: "Task", width: 90, sorts: true, cell: (row) => foreign(row.task) },
    { key: "score", title: "Score", width: 80, sorts: true, side: "number", cell: scoreCell },
    { key: "reward", title: "Reward", width: 84, sorts: true, side: "number", cell: (row) => score(row.reward) },
  ];
  const LAST = [
    { key: "disagreement", title: "Disagreement", width: 116, sorts: true, side: "number", cell: (row) => score(row.disagreement) },
    { key: "seconds", title: "Time", width: 84, sorts: true, side: "number", cell: (row) => seconds(row.seconds) },
    { key: "cost", title: "Cost", width: 84, sorts: true, side: "number", cell: (row) => dollars(row.cost) },
    { key: "labelled", title: "Labelled", width: 84, sorts: true, cell: (row) => (row.labelled ? "yes" : "") },
    { key: "prompt", title: "Prompt", width: 260, text: true, cell: (row) => foreign(row.prompt) },
    { key: "answer", title: "Reference", width: 200, text: true, cell: (row) => foreign(row.answer) },
    { key: "error", title: "Error", width: 220, cell: (row) => (row.error ? element("span.error-text", {}, foreign(row.error.slice(0, 200))) : "") },
    { key: "preview", title: "Answer", width: 0, text: true, cell: (row) => foreign(row.preview) },
  ];
  const USUAL = ["number", "example", "task", "score", "seconds", "cost", "preview"];
  const FEW = ["number", "score", "preview"];
  const SIDE_BY_SIDE = ["number", "prompt", "answer", "preview", "score"];

  function scoreCell(row) {
    if (!row.scored || row.score === null) return element("span.verdict.error", {}, row.error ? "error" : "unscored");
    return score(row.score);
  }

  /** Room for a name on three lines, which break after an underscore; where that is too little, the cut shows. */
  function widthFor(name) {
    const parts = name.split(/(?<=[_\-/. ])/);
    let width = Math.max(...parts.map((part) => part.length), Math.ceil(name.length / 3));
    while (width < MOST && linesOf(parts, width) > 3) width += 1;
    return Math.max(70, Math.min(width, MOST) * 7.9 + 24);
  }

  /** How many lines so many characters wide the parts of a name take. */
  function linesOf(parts, width) {
    let [lines, room] = [1, width];
    for (const part of parts) {
      if (part.length > room) [lines, room] = [lines + 1, width];
      room -= part.length;
    }
    return lines;
  }

  /** All verdicts of a row side by side, for criteria that rows bring. */
  function verdictsCell(row, criteria) {
    return element("span.dots", {}, Object.entries(row.verdicts).map(([name, said]) => assay.verdicts.dot(said, criteria.get(name), `${name}: ${assay.verdicts.wordOf(said, criteria.get(name))}`)));
  }

  /** Every column of a run. Each criterion has one, and each column of the data, whose names are `dataNames`. */
  function columnsOf(criteria, dataNames) {
    const judged = criteria.map((one) => ({
      key: `criterion ${one.name}`, sort: one.name, title: one.name, width: widthFor(one.name), sorts: true, criterion: true,
      cell: (row) => (row.verdicts[one.name] == null ? "" : assay.verdicts.dot(row.verdicts[one.name], one, `${one.name}: ${assay.verdicts.wordOf(row.verdicts[one.name], one)}`)),
    }));
    const known = new Map(criteria.map((one) => [one.name, one]));
    const own = criteria.some((one) => one.own)
      ? [{ key: "verdicts", title: "Verdicts", width: 200, cell: (row) => verdictsCell(row, known) }]
      : [];
    const data = dataNames.map((name) => ({ key: `data ${name}`, title: name, width: 180, text: true, cell: (row) => foreign(row.fields?.[name] ?? "") }));
    return [...FIXED, ...own, ...judged, ...data, ...LAST];
  }

  /** The keys of the columns that are shown: as chosen before, else what fits. `constant` are columns with one value in all rows. */
  function chosen(columns, rubric, constant) {
    const kept = assay.memory.get(`columns-${rubric}`);
    if (kept) return new Set(JSON.parse(kept));
    if (innerWidth < NARROW) return new Set(FEW);
    const judged = columns.filter((column) => column.criterion);
    // Where rows bring their own criteria, one column has those of each.
    const shown = columns.some(({ key }) => key === "verdicts") ? [{ key: "verdicts" }] : judged.slice(0, 8);
    const usual = USUAL.filter((key) => !constant.includes(key));
    return new Set([...usual, ...shown.map((column) => column.key)]);
  }

  function choose(keys, rubric) {
    assay.memory.set(`columns-${rubric}`, JSON.stringify([...keys]));
  }

  /** A list of boxes to tick, one a column. */
  function chooser(columns, keys, onchange) {
    const made = element("details.chooser", {}, element("summary", { class: "button" }, "Columns"),
      element("fieldset", {}, element("legend.unseen", {}, "Columns of the table"), columns.map((column) => {
        const box = element("input", { type: "checkbox", checked: keys.has(column.key), disabled: column.key === "number" });
        box.addEventListener("change", () => {
          if (box.checked) keys.add(column.key);
          else keys.delete(column.key);
          onchange(keys);
        });
        return element("label", {}, box, " ", foreign(column.title));
      })));
    closeOutside(made);
    return made;
  }

  /** Close what is open on a click elsewhere, or presses Escape in it. */
  function closeOutside(details) {
    const close = (event) => {
      if (!details.contains(event.target)) details.open = false;
    };
    details.addEventListener("toggle", () => {
      if (details.open) document.addEventListener("pointerdown", close);
      else document.removeEventListener("pointerdown", close);
    });
    details.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      details.open = false;
      details.querySelector("summary").focus();
    });
  }

  /** The columns for reading texts side by side; a reference only where rows have one. */
  function sideBySide(columns) {
    return columns.filter(({ key }) => SIDE_BY_SIDE.includes(key)).sort((one, other) => SIDE_BY_SIDE.indexOf(one.key) - SIDE_BY_SIDE.indexOf(other.key));
  }

  assay.columns = { columnsOf, chosen, choose, chooser, sideBySide };
})((globalThis.Assay ??= {}));
