/* Labelling: a form under a verdict, to overrule it with a note. What the judge said is not touched.
   A choice is kept until it is saved or cancelled: leaving the row saves it. */
((assay) => {
  "use strict";
  const { element, button, fill } = assay.dom;
  /** For each open form, what saves its choice. */
  const savers = new WeakMap();

  /** Open the form for a line, or close it when it is open. `save(label)` keeps what was said. */
  function labelForm(line, opener, save) {
    const item = opener.closest(".line");
    const open = item.querySelector("form.labelling");
    opener.setAttribute("aria-expanded", String(!open));
    if (open) return open.remove();
    const close = () => {
      form.remove();
      opener.setAttribute("aria-expanded", "false");
      opener.focus();
    };
    const form = formOf(line, save, close);
    item.querySelector(".line-head").after(form);
    form.querySelector("input").focus();
    return form;
  }

  function formOf(line, save, close) {
    const problem = element("p.filter-error", { role: "alert" });
    const note = element("textarea", { name: "note", rows: "2", maxlength: "10000" });
    const rater = element("input", { name: "rater", autocomplete: "name", required: true, maxlength: "200" });
    rater.value = assay.memory.get("rater") || "";
    let sending = null;
    /** Save a verdict. Gives whether that worked; if not, the form says why. */
    const send = (verdict) => (sending ??= attempt(verdict).finally(() => (sending = null)));
    const attempt = async (verdict) => {
      if (verdict === undefined || verdict === "") {
        fill(problem, "Pick a verdict.");
        return false;
      }
      if (!rater.value.trim()) {
        fill(problem, "Say who you are: a label has an author.");
        rater.focus();
        return false;
      }
      assay.memory.set("rater", rater.value.trim());
      try {
        await save({ criterion: line.name, verdict, note: note.value.trim(), rater: rater.value.trim() });
      } catch (error) {
        fill(problem, error.message);
        return false;
      }
      assay.dom.announce("label saved");
      return true;
    };
    const form = element("form.labelling", { "aria-label": `Overrule ${line.name}` },
      choicesOf(line), field("Note", note), field("Your name", rater), problem,
      element("div.actions", {}, element("button.primary", { type: "submit" }, "Save label"), button("Cancel", close),
        line.labels?.some((label) => assay.personOf(label.rater) === assay.personOf(rater.value)) ? button("Take mine back", () => send(null)) : null));
    savers.set(form, () => send(chosen(form)));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      send(chosen(form));
    });
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      close();
    });
    return form;
  }

  /** The verdicts that a person may give: those of the criterion, or a number where code gives one. */
  function choicesOf(line) {
    const isNumeric = !line.requirement && !line.choices?.includes(line.verdict) && assay.format.isNumber(line.value);
    if (isNumeric) return field("Value", element("input", { name: "value", type: "number", step: "any", required: true }));
    const choices = line.choices?.length ? line.choices : ["UNMET", "MET"];
    const offered = [...choices, ...(line.verdict === "N/A" || line.allow_na ? ["N/A"] : [])];
    return element("fieldset.choices", {}, element("legend", {}, "Your verdict"), offered.map((choice) => element("label", {},
      element("input", { type: "radio", name: "verdict", value: choice }), assay.verdicts.chip(choice, line))));
  }

  function chosen(form) {
    const data = new FormData(form);
    if (data.has("value")) return data.get("value") === "" ? undefined : Number(data.get("value"));
    return data.get("verdict") ?? undefined;
  }

  function field(name, input) {
    return element("label.field", {}, element("span", {}, name), input);
  }

  /** The forms below an element with a verdict or a note that is not saved. */
  function unsavedForms(main) {
    return [...main.querySelectorAll("form.labelling")].filter((form) => chosen(form) !== undefined || form.elements.note.value.trim());
  }

  /** Save the choices in all forms below an element. Gives whether that worked; if not, the forms say why. */
  async function saveChoices(main) {
    for (const form of unsavedForms(main)) {
      if (!(await savers.get(form)())) {
        form.scrollIntoView({ block: "center" });
        return false;
      }
    }
    return true;
  }

  /** Hand over a text as a file. */
  function download(name, text) {
    const address = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
    element("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  assay.labelling = { labelForm, saveChoices, unsavedForms, download };
})((globalThis.Assay ??= {}));
