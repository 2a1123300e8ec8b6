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

  /** Turn from one to the other. Back at what the system has, the choice is forgotten. */
  function toggle() {
    const wanted = isDark() ? "light" : "dark";
    const own = wanted === (system.matches ? "dark" : "light") ? null : wanted;
    assay.memory.set("theme", own);
    apply(own);
  }

  /** A colour of the style by its name, as a drawing can use it. */
  function colour(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  system.addEventListener("change", () => document.dispatchEvent(new CustomEvent("themechange")));
  apply(assay.memory.get("theme"));
  assay.theme = { isDark, toggle, colour };
})((globalThis.Assay ??= {}));
