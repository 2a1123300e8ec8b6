/* Theme: light or dark, as the system has it or as the reader chose. */
((assay) => {
  "use strict";
  const system = matchMedia("(prefers-color-scheme: dark)");

  function isDark() {
    return (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  }

  function apply(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    document.dispatchEvent(new CustomEvent("themechange"));
  }

  /** Switch between light and dark. A choice that agrees with the system is not kept. */
  function toggle() {
    const wanted = isDark() ? "light" : "dark";
    const choice = wanted === (system.matches ? "dark" : "light") ? null : wanted;
    assay.memory.set("theme", choice);
    apply(choice);
  }

  /** The value of a colour of the style sheet, for drawings. */
  function colour(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const computed = getComputedStyle(probe).color;
    probe.remove();
    return computed;
  }

  system.addEventListener("change", () => document.dispatchEvent(new CustomEvent("themechange")));
  apply(assay.memory.get("theme"));
  assay.theme = { isDark, toggle, colour };
})((globalThis.Assay ??= {}));
