/* Lines: every criterion of a rollout with its verdict, reason, evidence, votes and labels. */
((assay) => {
  "use strict";
  const { element, untrusted, button } = assay.dom;
  const { formatScore, isNumber, formatPercent } = assay.format;

  /** The lines of a row. `label(line, place)` opens what overrules a verdict; null where that is not possible. */
  function lines(row, { label, find }) {
    if (!row.lines.length) return element("p.note", {}, row.reason ? untrusted(row.reason) : "No criterion was asked.");
    return element("ol.lines", {}, row.lines.map((line, place) => lineOf(line, place, { label, find, textHash: row.text_hash })));
  }

  function lineOf(line, place, how) {
    const hue = place % assay.marks.HUES;
    const isMarked = (line.evidence || []).some((one) => isNumber(one.start) || (one.part && one.found !== false));
    return element(`li.line.hue-${hue}`, { "data-line": String(place), class: isMarked ? "marked" : null },
      element("div.line-head", {}, verdictOf(line, place, how),
        element("span.line-name", {}, untrusted(line.name)),
        element("span.weight", { title: "weight" }, `× ${line.weight}`),
        line.counted ? null : element("span.badge", {}, "not counted"),
        line.tags.map((tag) => element("span.badge.tag", {}, untrusted(tag)))),
      line.requirement && line.requirement !== line.name ? element("p.requirement", {}, untrusted(line.requirement)) : null,
      line.error ? element("p.error-text", {}, untrusted(line.error)) : null,
      line.reason ? reasonOf(line, place, how) : null,
      missingOf(line),
      citedOf(line, place, how),
      votesOf(line, place, how),
      labelsOf(line, how.textHash));
  }

  function verdictOf(line, place, { label }) {
    const chip = assay.verdicts.chip(line.verdict, line);
    const isPlain = ["MET", "UNMET"].includes(line.verdict) || Number(line.verdict) === line.value;
    const worth = isNumber(line.value) && !isPlain ? element("span.note", { title: "value" }, formatScore(line.value)) : null;
    if (!label) return [chip, worth];
    const overrule = button(chip, (event) => label(line, place, event.currentTarget), {
      class: "overrule", title: "Overrule this verdict", "aria-label": `${assay.verdicts.wordOf(line.verdict, line) || "no verdict"} for ${line.name}: overrule`, "aria-expanded": "false",
    });
    return [overrule, worth];
  }

  /** The reason, in which what it quotes has the colour that it has in the answer, and leads there. */
  function reasonOf(line, place, { find }) {
    const found = (line.evidence || []).filter((one) => isNumber(one.start) && !one.part);
    const marks = found.map(({ quote }) => ({ start: line.reason.indexOf(quote), end: line.reason.indexOf(quote) + quote.length, line: place, hue: place % assay.marks.HUES }));
    const body = element("div.reason", {}, assay.messages.textBody(line.reason, marks.filter((mark) => mark.start >= 0), false));
    for (const mark of find ? body.querySelectorAll("mark") : []) {
      for (const [name, value] of Object.entries({ role: "button", tabindex: "0", title: "Show it in the answer" })) mark.setAttribute(name, value);
      mark.addEventListener("click", () => find(place));
      mark.addEventListener("keydown", (event) => event.key === "Enter" && find(place));
    }
    return body;
  }

  /** Quotations that are not in the answer: the judge has not read it well. */
  function missingOf({ evidence }) {
    const missing = (evidence || []).filter((one) => one.found === false);
    if (!missing.length) return null;
    return element("ul.evidence", { "aria-label": "Quotations that are not in the answer" }, missing.map((one) =>
      element("li.missing", {}, element("span.badge.error", {}, "not in the answer"), " ", untrusted(quoted(one)))));
  }

  function quoted({ part, quote }) {
    return [part, quote === undefined ? "" : `“${quote}”`].filter(Boolean).join(" ");
  }

  /** The parts that a reason cites; each leads to where it stands in the conversation. */
  function citedOf({ evidence }, place, { find }) {
    const cited = (evidence || []).filter((one) => one.part && one.found !== false);
    if (!cited.length) return null;
    return element("ul.evidence", { "aria-label": "Cited" }, cited.map((one) => element("li", {}, find
      ? button(untrusted(quoted(one)), () => find(place, one.part), { class: "cited", title: "Show it in the conversation" })
      : untrusted(quoted(one)))));
  }

  /** The lines inside a line: of a rubric, of each judge, or of each step, whose address leads to it. */
  function votesOf(line, place, { find }) {
    if (!line.votes?.length) return null;
    const apart = line.disagreement > 0 ? `, ${formatPercent(line.disagreement)} apart` : ", all agree";
    const number = line.votes.length;
    const words = line.steps ? `${number} step${number === 1 ? "" : "s"}` : line.nested ? `${number} lines of its rubric` : `${number} votes${apart}`;
    const isOpen = line.disagreement > 0 || (line.steps && line.passed === false);
    const nameOf = ({ name }) => line.steps && find
      ? button(untrusted(name), () => find(place, name), { class: "cited", title: "Show it in the conversation" }) : element("b", {}, untrusted(name));
    return element("details.votes", { open: isOpen }, element("summary", {}, words),
      element("ul", {}, line.votes.map((vote) => element("li", {},
        assay.verdicts.chip(vote.verdict, { ...line, ...vote, choices: vote.choices || line.choices }),
        nameOf(vote),
        vote.error ? element("p.error-text", {}, untrusted(vote.error)) : null,
        vote.reason ? element("div.reason", {}, assay.messages.textBody(vote.reason, [], false)) : null,
        missingOf(vote)))));
  }

  /** What people said. The judge's verdict above stays as it is. */
  function labelsOf(line, textHash) {
    const hasOtherWording = ({ guideline }) => guideline && line.guidelines?.length && !line.guidelines.includes(guideline);
    const hasOtherText = (label) => label.text_hash && label.text_hash !== textHash;
    if (!line.labels?.length) return null;
    return element("ul.labels", { "aria-label": "Labels" }, line.labels.map((label) => element("li", {},
      element("span.flag", { "aria-hidden": "true" }, "✎"),
      assay.verdicts.chip(String(label.verdict), line),
      element("span", {}, " by ", untrusted(label.rater || "human")),
      label.time ? element("time.note", { datetime: label.time }, assay.format.formatTime(label.time)) : null,
      hasOtherWording(label) ? element("span.badge", { title: "the criterion had another wording when this label was given" }, "older wording") : null,
      hasOtherText(label) ? element("span.badge", { title: "the prompt or the completion was another one when this label was given" }, "other text") : null,
      label.note ? element("div", {}, untrusted(label.note)) : null)));
  }

  assay.lines = lines;
})((globalThis.Assay ??= {}));
