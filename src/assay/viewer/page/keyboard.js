/* Keyboard: every view can be used without a mouse. A view brings keys of its own. */
((assay) => {
  "use strict";
  const { element, button } = assay.dom;
  const HELP = [
    ["g o", "Overview"], ["g t", "Rows"], ["g c", "Compare two runs"], ["/", "Filter the rows"],
    ["j, k", "Next and previous row"], ["Enter", "Open the row"], ["Escape", "Back; leave a field"],
    ["r", "Raw text of a rollout, and back"], ["d", "Dark or light"], ["?", "This help"],
  ];
  const TERMS = [
    ["words", "rows whose prompt or completion has them"], ['"two words"', "rows with exactly this phrase"],
    ["criterion:polite verdict:UNMET", "the criterion has this verdict; part of the name is enough"], ["verdict:error", "the criterion has no answer"],
    ["score<0.5, reward, seconds, cost, sample", "compare with <, <=, >, >=, ="], ["task:math, tag:facts, example:7", "of this task, with a criterion of this tag, this example"],
    ['text~"…", error~timeout', "contains"], ["error, unscored, disagreement, label", "rows with an error, without a score, with a disagreement, with a label"], ["-term", "the rows that do not match the term"],
  ];

  /** Listen to keys. `shortcuts` are the actions of keys after `g`; `getViewKeys()` returns the keys of the shown view. */
  function listen(shortcuts, getViewKeys) {
    let isAfterG = false;
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (document.querySelector("dialog[open]")) return;
      const isTyping = event.target.closest?.("input:not([type=checkbox], [type=radio]), textarea, select");
      if (isTyping && event.key !== "Escape") return;
      const action = isAfterG ? shortcuts[event.key] : findAction(event, shortcuts, getViewKeys());
      const wasAfterG = isAfterG;
      isAfterG = !wasAfterG && event.key === "g";
      if (!action) return;
      event.preventDefault();
      action();
    });
  }

  function findAction(event, shortcuts, viewKeys) {
    // Enter and the arrows mean something else on a control.
    if (event.key === "Enter" && event.target.closest?.("a, button, summary, input")) return null;
    if (event.key === "?") return help;
    if (event.key === "d") return assay.theme.toggle;
    if (viewKeys[event.key]) return viewKeys[event.key];
    return event.key === "/" ? shortcuts["/"] : null;
  }

  /** Show a dialog with the keys and the filters. */
  function help() {
    const list = (pairs) => element("dl.keys", {}, pairs.map(([key, words]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, words)]));
    const close = () => dialog.close();
    const dialog = element("dialog", { "aria-labelledby": "help-title" },
      element("h2", { id: "help-title" }, "Keys"), list(HELP), element("h2", {}, "Filters"), list(TERMS),
      element("p.note", {}, "A row must match all terms."), button("Close", close, { autofocus: true }));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  assay.keyboard = { listen, help };
})((globalThis.Assay ??= {}));
