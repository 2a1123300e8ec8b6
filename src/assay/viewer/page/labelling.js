/* Labelling: a form under a verdict, to overrule it with a note. The verdict of the judge stays.
   A choice is kept until it is saved or cancelled; leaving the row saves it. */
((assay) => {
  "use strict";
  const { element, button, fill } = assay.dom;
  /** The function that saves the choice of each open form. */
  const saveFunctions = new WeakMap();

  /** Open the form for a line, or close it if it is open. `save(label)` saves the label. */
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
    const form = makeForm(line, save, close);
    item.querySelector(".line-head").after(form);
    form.querySelector("input").focus();
    return form;
  }

  /** Return a form for a line with a verdict, a note and the name of the person. `save(label)` saves the label, or throws an
      error; `close` closes the form. */
  function makeForm(line, save, close) {
    const problem = element("p.filter-error", { role: "alert" });
    const note = element("textarea", { name: "note", rows: "2", maxlength: "10000" });
    const rater = element("input", { name: "rater", autocomplete: "name", required: true, maxlength: "200" });
    rater.value = assay.memory.get("rater") || "";
    const saveVerdict = makeSaveFunction(line, save, { problem, note, rater });
    const isMine = (label) => assay.personOf(label.rater) === assay.personOf(rater.value);
    // A label with the verdict null takes back the person's earlier one.
    const takeBack = line.labels?.some(isMine) ? button("Take mine back", () => saveVerdict(null)) : null;
    const form = element("form.labelling", { "aria-label": `Overrule ${line.name}` },
      makeChoices(line), makeField("Note", note), makeField("Your name", rater), problem,
      element("div.actions", {}, element("button.primary", { type: "submit" }, "Save label"), button("Cancel", close), takeBack));
    saveFunctions.set(form, () => saveVerdict(readVerdict(form)));
    form.addEventListener("submit", (event) => {
      event.preventDefault(); // a browser would send the form and leave the page
      saveVerdict(readVerdict(form));
    });
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation(); // elsewhere on the page Escape means something else
      close();
    });
    return form;
  }

  /** Return the function that saves a verdict with what is in the fields. It resolves to whether that worked; if not,
      `problem` says why. */
  function makeSaveFunction(line, save, { problem, note, rater }) {
    const trySaving = async (verdict) => {
      const name = rater.value.trim();
      if (verdict === undefined || verdict === "") {
        fill(problem, "Pick a verdict.");
        return false;
      }
      if (!name) {
        fill(problem, "Enter your name: every label has an author.");
        rater.focus();
        return false;
      }
      assay.memory.set("rater", name); // for the next form
      try {
        await save({ criterion: line.name, verdict, note: note.value.trim(), rater: name });
      } catch (error) {
        fill(problem, error.message);
        return false;
      }
      assay.dom.announce("label saved");
      return true;
    };
    let pendingSave = null;
    return (verdict) => {
      // A second click while the label is being saved waits for the same save.
      pendingSave ??= trySaving(verdict).finally(() => {
        pendingSave = null;
      });
      return pendingSave;
    };
  }

  /** The verdicts to choose from: those of the criterion, or a field for a number if code answered with one. */
  function makeChoices(line) {
    const isNumeric = !line.requirement && !line.choices?.includes(line.verdict) && assay.format.isNumber(line.value);
    if (isNumeric) return makeField("Value", element("input", { name: "value", type: "number", step: "any", required: true }));
    const choices = line.choices?.length ? line.choices : ["UNMET", "MET"];
    const offered = [...choices, ...(line.verdict === "N/A" || line.allow_na ? ["N/A"] : [])];
    return element("fieldset.choices", {}, element("legend", {}, "Your verdict"), offered.map((choice) => element("label", {},
      element("input", { type: "radio", name: "verdict", value: choice }), assay.verdicts.chip(choice, line))));
  }

  function readVerdict(form) {
    const data = new FormData(form);
    if (data.has("value")) return data.get("value") === "" ? undefined : Number(data.get("value"));
    return data.get("verdict") ?? undefined;
  }

  function makeField(name, input) {
    return element("label.field", {}, element("span", {}, name), input);
  }

  /** The forms below an element with a verdict or a note that is not saved. */
  function unsavedForms(main) {
    return [...main.querySelectorAll("form.labelling")].filter((form) => readVerdict(form) !== undefined || form.elements.note.value.trim());
  }

  /** Save the choices in all forms below an element. Return whether that worked; if not, the forms say why. */
  async function saveChoices(main) {
    for (const form of unsavedForms(main)) {
      if (!(await saveFunctions.get(form)())) {
        form.scrollIntoView({ block: "center" });
        return false;
      }
    }
    return true;
  }

  /** Download a text as a file. */
  function download(name, text) {
    const address = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
    element("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  assay.labelling = { labelForm, saveChoices, unsavedForms, download };
})((globalThis.Assay ??= {}));
