/* Columns: what the table of rows can show, and which of it a reader wants. */
((assay) => {
  "use strict";
  const { element, untrusted } = assay.dom;
  const { formatScore, formatDuration, formatDollars } = assay.format;
  const NARROW_WINDOW = 700;
  const MAX_CHARACTERS = 26;
  const MAX_DOTS = 12; // verdicts in one cell

  const FIRST_COLUMNS = [
    { key: "number", title: "Row", width: 70, sorts: true },
    { key: "example", title: "Example", width: 110, sorts: true, cell: (row) => untrusted(row.example) },
    { key: "sample", title: "Sample", width: 76, sorts: true, side: "number", cell: (row) => String(row.sample) },
    { key: "task", title: "Task", width: 90, sorts: true, cell: (row) => untrusted(row.task) },
    { key: "score", title: "Score", width: 80, sorts: true, side: "number", cell: scoreCell },
    { key: "reward", title: "Reward", width: 84, sorts: true, side: "number", cell: (row) => formatScore(row.reward) },
  ];
  const LAST_COLUMNS = [
    { key: "disagreement", title: "Disagreement", width: 116, sorts: true, side: "number", cell: (row) => formatScore(row.disagreement) },
    { key: "seconds", title: "Time", width: 84, sorts: true, side: "number", cell: (row) => formatDuration(row.seconds) },
    { key: "cost", title: "Cost", width: 84, sorts: true, side: "number", cell: (row) => formatDollars(row.cost) },
    { key: "labelled", title: "Labelled", width: 84, sorts: true, cell: (row) => (row.labelled ? "yes" : "") },
    { key: "prompt", title: "Prompt", width: 260, text: true, cell: (row) => untrusted(row.prompt) },
    { key: "answer", title: "Reference", width: 200, text: true, cell: (row) => untrusted(row.answer) },
    { key: "error", title: "Error", width: 220, cell: (row) => (row.error ? element("span.error-text", {}, untrusted(row.error.slice(0, 200))) : "") },
    { key: "preview", title: "Answer", width: 0, text: true, cell: (row) => untrusted(row.preview) },
  ];
  const USUAL_KEYS = ["number", "example", "task", "score", "seconds", "cost", "preview"];
  const NARROW_WINDOW_KEYS = ["number", "score", "preview"];
  const SIDE_BY_SIDE_KEYS = ["number", "prompt", "answer", "preview", "score"];

  function scoreCell(row) {
    if (!row.scored || row.score === null) return element("span.verdict.error", {}, row.error ? "error" : "unscored");
    return formatScore(row.score);
  }

  /** The width in pixels for a name on three lines, which may break after an underscore. A longer name is cut. */
  function widthFor(name) {
    const parts = name.split(/(?<=[_\-/. ])/);
    let width = Math.max(...parts.map((part) => part.length), Math.ceil(name.length / 3));
    while (width < MAX_CHARACTERS && countLines(parts, width) > 3) width += 1;
    return Math.max(70, Math.min(width, MAX_CHARACTERS) * 7.9 + 24);
  }

  /** The number of lines of `width` characters that the parts of a name take. */
  function countLines(parts, width) {
    let [lines, space] = [1, width];
    for (const part of parts) {
      if (part.length > space) [lines, space] = [lines + 1, width];
      space -= part.length;
    }
    return lines;
  }

  /** All verdicts of a row side by side, for criteria that rows bring. */
  function verdictsCell(row, criteria) {
    const verdicts = Object.entries(row.verdicts);
    const dots = verdicts.slice(0, MAX_DOTS).map(([name, verdict]) => verdictDot(name, verdict, criteria.get(name)));
    const hiddenCount = verdicts.length - dots.length;
    return element("span.dots", {}, dots, hiddenCount > 0 ? element("span.note", { title: `${hiddenCount} more` }, ` +${hiddenCount}`) : null);
  }

  /** A verdict as a sign, with the name of its criterion as a tooltip. */
  function verdictDot(name, verdict, criterion) {
    return assay.verdicts.dot(verdict, criterion, `${name}: ${assay.verdicts.wordOf(verdict, criterion)}`);
  }

  /** Every column of a run. Each criterion has one, and each column of the data, whose names are `dataNames`. */
  function columnsOf(criteria, dataNames) {
    const criterionColumns = criteria.map((criterion) => ({
      key: `criterion ${criterion.name}`, sort: criterion.name, title: criterion.name, width: widthFor(criterion.name), sorts: true, criterion: true,
      cell: (row) => (row.verdicts[criterion.name] == null ? "" : verdictDot(criterion.name, row.verdicts[criterion.name], criterion)),
    }));
    const criteriaByName = new Map(criteria.map((criterion) => [criterion.name, criterion]));
    const verdictsOfRows = criteria.some((criterion) => criterion.own)
      ? [{ key: "verdicts", title: "Verdicts", width: 60 + 26 * Math.min(criteria.length, MAX_DOTS), cell: (row) => verdictsCell(row, criteriaByName) }]
      : [];
    const data = dataNames.map((name) => ({ key: `data ${name}`, title: name, width: 180, text: true, cell: (row) => untrusted(row.fields?.[name] ?? "") }));
    return [...FIRST_COLUMNS, ...verdictsOfRows, ...criterionColumns, ...data, ...LAST_COLUMNS];
  }

  /** The keys of the columns to show: those that were saved, or else those that fit. `constant` are columns with one value in all rows. */
  function readKeys(columns, rubricHash, constant) {
    const saved = assay.memory.get(`columns-${rubricHash}`);
    if (saved) return new Set(JSON.parse(saved));
    if (innerWidth < NARROW_WINDOW) return new Set(NARROW_WINDOW_KEYS);
    const criterionColumns = columns.filter((column) => column.criterion);
    // Where rows bring their own criteria, one column shows the verdicts of each row.
    const verdictColumns = columns.some(({ key }) => key === "verdicts") ? [{ key: "verdicts" }] : criterionColumns.slice(0, 8);
    const usual = USUAL_KEYS.filter((key) => !constant.includes(key));
    return new Set([...usual, ...verdictColumns.map((column) => column.key)]);
  }

  function saveKeys(keys, rubricHash) {
    assay.memory.set(`columns-${rubricHash}`, JSON.stringify([...keys]));
  }

  /** A list of checkboxes, one per column. */
  function makeChooser(columns, keys, onchange) {
    const details = element("details.chooser", {}, element("summary", { class: "button" }, "Columns"),
      element("fieldset", {}, element("legend.unseen", {}, "Columns of the table"), columns.map((column) => {
        const box = element("input", { type: "checkbox", checked: keys.has(column.key), disabled: column.key === "number" });
        box.addEventListener("change", () => {
          if (box.checked) keys.add(column.key);
          else keys.delete(column.key);
          onchange(keys);
        });
        return element("label", {}, box, " ", untrusted(column.title));
      })));
    closeOnClickOutside(details);
    return details;
  }

  /** Close a list when the reader clicks elsewhere, or presses Escape in it. */
  function closeOnClickOutside(details) {
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

  /** The columns for reading texts side by side, in the order in which they are read. */
  function sideBySide(columns) {
    return SIDE_BY_SIDE_KEYS.map((wanted) => columns.find(({ key }) => key === wanted));
  }

  assay.columns = { columnsOf, readKeys, saveKeys, makeChooser, sideBySide };
})((globalThis.Assay ??= {}));
