/* Lines: every criterion of a rollout with its verdict, reason, evidence, votes and labels. */
((assay) => {
  "use strict";
  const { element, untrusted, button } = assay.dom;
  const { formatScore, isNumber, formatPercent } = assay.format;

  /** The lines of a row. `actions.label(line, index, button)` opens the form that overrules a verdict, and
      `actions.find(index, part)` scrolls to what a line quotes or cites. */
  function lines(row, { label, find }) {
    if (!row.lines.length) return element("p.note", {}, row.reason ? untrusted(row.reason) : "No criterion was asked.");
    return element("ol.lines", {}, row.lines.map((line, index) => makeLine(line, index, { label, find, textHash: row.text_hash })));
  }

  function makeLine(line, index, actions) {
    const hue = index % assay.marks.HUES;
    const isMarked = (line.evidence || []).some((citation) => isNumber(citation.start) || (citation.part && citation.found !== false));
    return element(`li.line.hue-${hue}`, { "data-line": String(index), class: isMarked ? "marked" : null },
      element("div.line-head", {}, verdictButton(line, index, actions),
        element("span.line-name", {}, untrusted(line.name)),
        element("span.weight", { title: "weight" }, `× ${line.weight}`),
        line.counted ? null : element("span.badge", {}, "not counted"),
        line.tags.map((tag) => element("span.badge.tag", {}, untrusted(tag)))),
      line.requirement && line.requirement !== line.name ? element("p.requirement", {}, untrusted(line.requirement)) : null,
      line.error ? element("p.error-text", {}, untrusted(line.error)) : null,
      line.reason ? reasonText(line, index, actions) : null,
      missingQuotes(line),
      citations(line, index, actions),
      voteList(line, index, actions),
      labelList(line, actions.textHash));
  }

  function verdictButton(line, index, { label }) {
    const chip = assay.verdicts.chip(line.verdict, line);
    const isPlain = ["MET", "UNMET"].includes(line.verdict) || Number(line.verdict) === line.value;
    const valueNote = isNumber(line.value) && !isPlain ? element("span.note", { title: "value" }, formatScore(line.value)) : null;
    if (!label) return [chip, valueNote];
    const overrule = button(chip, (event) => label(line, index, event.currentTarget), {
      class: "overrule", title: "Overrule this verdict", "aria-label": `${assay.verdicts.wordOf(line.verdict, line) || "no verdict"} for ${line.name}: overrule`, "aria-expanded": "false",
    });
    return [overrule, valueNote];
  }

  /** The reason. What it quotes has the colour that it has in the answer; a click scrolls there. */
  function reasonText(line, index, { find }) {
    const quotations = (line.evidence || []).filter((citation) => isNumber(citation.start) && !citation.part);
    const marks = quotations.map(({ quote }) => ({ start: line.reason.indexOf(quote), end: line.reason.indexOf(quote) + quote.length, line: index, hue: index % assay.marks.HUES }));
    const body = element("div.reason", {}, assay.messages.textBody(line.reason, marks.filter((mark) => mark.start >= 0), false));
    for (const mark of find ? body.querySelectorAll("mark") : []) {
      for (const [name, value] of Object.entries({ role: "button", tabindex: "0", title: "Show it in the answer" })) mark.setAttribute(name, value);
      mark.addEventListener("click", () => find(index));
      mark.addEventListener("keydown", (event) => event.key === "Enter" && find(index));
    }
    return body;
  }

  /** Quotations that are not in the answer. */
  function missingQuotes({ evidence }) {
    const missing = (evidence || []).filter((citation) => citation.found === false);
    if (!missing.length) return null;
    return element("ul.evidence", { "aria-label": "Quotations that are not in the answer" }, missing.map((citation) =>
      element("li.missing", {}, element("span.badge.error", {}, "not in the answer"), " ", untrusted(describeCitation(citation)))));
  }

  function describeCitation({ part, quote }) {
    return [part, quote === undefined ? "" : `“${quote}”`].filter(Boolean).join(" ");
  }

  /** The parts of the conversation that a reason cites; a click scrolls there. */
  function citations({ evidence }, index, { find }) {
    const citedParts = (evidence || []).filter((citation) => citation.part && citation.found !== false);
    if (!citedParts.length) return null;
    return element("ul.evidence", { "aria-label": "Cited" }, citedParts.map((citation) => element("li", {}, find
      ? button(untrusted(describeCitation(citation)), () => find(index, citation.part), { class: "cited", title: "Show it in the conversation" })
      : untrusted(describeCitation(citation)))));
  }

  /** The lines inside of a line: of a nested rubric, of each judge, or of each step. */
  function voteList(line, index, { find }) {
    if (!line.votes?.length) return null;
    const disagreement = line.disagreement > 0 ? `, ${formatPercent(line.disagreement)} apart` : ", all agree";
    const number = line.votes.length;
    const summary = line.steps ? `${number} step${number === 1 ? "" : "s"}` : line.nested ? `${number} lines of its rubric` : `${number} votes${disagreement}`;
    const isOpen = line.disagreement > 0 || (line.steps && line.passed === false);
    const nameOf = ({ name }) => line.steps && find
      ? button(untrusted(name), () => find(index, name), { class: "cited", title: "Show it in the conversation" }) : element("b", {}, untrusted(name));
    return element("details.votes", { open: isOpen }, element("summary", {}, summary),
      element("ul", {}, line.votes.map((vote) => element("li", {},
        assay.verdicts.chip(vote.verdict, { ...line, ...vote, choices: vote.choices || line.choices }),
        nameOf(vote),
        vote.error ? element("p.error-text", {}, untrusted(vote.error)) : null,
        vote.reason ? element("div.reason", {}, assay.messages.textBody(vote.reason, [], false)) : null,
        missingQuotes(vote)))));
  }

  /** The verdicts of people. That of the judge, above, stays as it is. */
  function labelList(line, textHash) {
    const hasOtherWording = ({ guideline }) => guideline && line.guidelines?.length && !line.guidelines.includes(guideline);
    const hasOtherText = (label) => label.text_hash && label.text_hash !== textHash;
    if (!line.labels?.length) return null;
    return element("ul.labels", { "aria-label": "Labels" }, line.labels.map((label) => element("li", {},
      element("span.flag", { "aria-hidden": "true" }, "✎"),
      assay.verdicts.chip(String(label.verdict), line),
      element("span", {}, " by ", untrusted(label.rater || "human")),
      label.time ? element("time.note", { datetime: label.time }, assay.format.formatTime(label.time)) : null,
      hasOtherWording(label) ? element("span.badge", { title: "the wording of the criterion has changed since this label was given" }, "older wording") : null,
      hasOtherText(label) ? element("span.badge", { title: "the prompt or the completion has changed since this label was given" }, "other text") : null,
      label.note ? element("div", {}, untrusted(label.note)) : null)));
  }

  assay.lines = lines;
})((globalThis.Assay ??= {}));
