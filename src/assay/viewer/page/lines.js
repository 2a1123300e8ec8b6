/* Lines: every criterion of a rollout with its verdict, reason, evidence, votes and labels. */
((assay) => {
  "use strict";
  const { element, foreign, button } = assay.dom;
  const { score, isNumber, percent } = assay.words;

  /** The lines of a row. `label(line, place)` opens what overrules a verdict; null where nobody can. */
  function lines(row, { label, find }) {
    if (!row.lines.length) return element("p.note", {}, row.reason ? foreign(row.reason) : "No criterion was asked.");
    return element("ol.lines", {}, row.lines.map((line, place) => lineOf(line, place, { label, find })));
  }

  function lineOf(line, place, how) {
    const hue = place % assay.marks.HUES;
    const isMarked = (line.evidence || []).some((one) => isNumber(one.start));
    return element(`li.line.hue-${hue}`, { "data-line": String(place), class: isMarked ? "marked" : null },
      element("div.line-head", {}, verdictOf(line, place, how),
        element("span.line-name", {}, foreign(line.name)),
        element("span.weight", { title: "weight" }, `× ${line.weight}`),
        line.counted ? null : element("span.badge", {}, "not counted"),
        line.tags.map((tag) => element("span.badge.tag", {}, foreign(tag)))),
      line.requirement && line.requirement !== line.name ? element("p.requirement", {}, foreign(line.requirement)) : null,
      line.error ? element("p.error-text", {}, foreign(line.error)) : null,
      line.reason ? element("div.reason", {}, assay.messages.textBody(line.reason, [], false)) : null,
      evidenceOf(line.evidence || [], place, how),
      votesOf(line),
      labelsOf(line));
  }

  function verdictOf(line, place, { label }) {
    const chip = assay.verdicts.chip(line.verdict, line);
    const worth = isNumber(line.value) && String(line.verdict) !== String(line.value) ? element("span.note", { title: "value" }, score(line.value)) : null;
    if (!label) return [chip, worth];
    const overrule = button(chip, (event) => label(line, place, event.currentTarget), {
      class: "overrule", title: "Overrule this verdict", "aria-label": `${line.verdict || "no verdict"} for ${line.name}: overrule`, "aria-expanded": "false",
    });
    return [overrule, worth];
  }

  /** What the reason quotes; what is not in the answer is said to be missing. */
  function evidenceOf(evidence, place, { find }) {
    if (!evidence.length) return null;
    return element("ul.evidence", { "aria-label": "Evidence" }, evidence.map((one) => {
      if (!isNumber(one.start)) {
        return element("li.missing", {}, element("span.badge.error", {}, "not in the answer"), foreign(` “${one.quote}”`));
      }
      return element("li", {}, find ? button(foreign(`“${one.quote}”`), () => find(place, one.start), { class: "quote", title: "Show it in the answer" }) : foreign(`“${one.quote}”`));
    }));
  }

  function votesOf(line) {
    if (!line.votes?.length) return null;
    const apart = isNumber(line.disagreement) ? `, ${percent(line.disagreement)} apart` : "";
    const words = line.nested ? `${line.votes.length} lines of its rubric` : `${line.votes.length} votes${apart}`;
    return element("details.votes", { open: line.disagreement > 0 }, element("summary", {}, words),
      element("ul", {}, line.votes.map((vote) => element("li", {},
        assay.verdicts.chip(vote.verdict, { ...line, ...vote, choices: vote.choices || line.choices }),
        element("b", {}, foreign(vote.name)),
        vote.error ? element("p.error-text", {}, foreign(vote.error)) : null,
        vote.reason ? element("div.reason", {}, assay.messages.textBody(vote.reason, [], false)) : null))));
  }

  /** What people said. The judge's verdict above stays as it is. */
  function labelsOf(line) {
    if (!line.labels?.length) return null;
    return element("ul.labels", { "aria-label": "Labels" }, line.labels.map((label) => element("li", {},
      element("span.flag", { "aria-hidden": "true" }, "✎"),
      assay.verdicts.chip(String(label.verdict), line),
      element("span", {}, " by ", foreign(label.rater || "human")),
      label.time ? element("time.note", { datetime: label.time }, assay.words.time(label.time)) : null,
      label.guideline && line.hash && label.guideline !== line.hash ? element("span.badge", { title: "the criterion was worded otherwise then" }, "older wording") : null,
      label.note ? element("div", {}, foreign(label.note)) : null)));
  }

  assay.lines = lines;
})((globalThis.Assay ??= {}));
