/* DOM: elements are made from names and text, never from markup, so that nothing in a run can run. */
((assay) => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";

  /** An element. `element("a.row", {href: "#/"}, "text", child)`: classes follow the name, empty children are left out. */
  function element(selector, given, ...children) {
    return filled(document.createElement(selector.split(".")[0]), selector, given, children);
  }

  /** The same for a drawing. */
  function drawn(selector, given, ...children) {
    return filled(document.createElementNS(SVG, selector.split(".")[0]), selector, given, children);
  }

  function filled(made, selector, given, children) {
    const classes = selector.split(".").slice(1);
    if (classes.length) made.classList.add(...classes);
    // One by one here and below: a call takes only some ten thousands of arguments, and a long text has more pieces.
    for (const child of children.flat(Infinity)) if (isShown(child)) made.append(child);
    // After the children: under `dir="auto"` each of them would be looked through as it comes in.
    for (const [name, value] of Object.entries(given || {})) set(made, name, value);
    return made;
  }

  function set(made, name, value) {
    if (value === null || value === undefined || value === false) return;
    if (name === "class") made.classList.add(...value.split(" "));
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    // Through the object model, since the content policy refuses a style attribute.
    else if (name === "styles") for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
    else made.setAttribute(name, value === true ? "" : String(value));
  }

  function isShown(child) {
    return child !== null && child !== undefined && child !== false && child !== "";
  }

  /** Put these children in place of those that an element has. */
  function fill(parent, ...children) {
    parent.replaceChildren();
    for (const child of children.flat(Infinity)) if (isShown(child)) parent.append(child);
    return parent;
  }

  /** Text from elsewhere, kept from turning round what stands beside it. */
  function foreign(text, given) {
    return element("bdi", given, assay.hidden.shown(String(text ?? "")));
  }

  /** A button that does something in the page. */
  function button(label, onclick, given) {
    return element("button", { type: "button", onclick, ...given }, label);
  }

  /** A part of the page under a heading. */
  function section(title, given, ...children) {
    const { note, ...rest } = given || {};
    const id = `s-${title.toLowerCase().replace(/\W+/g, "-")}`;
    return element("section.card", { "aria-labelledby": id, ...rest },
      element("h2", { id }, title, note ? element("span.note", {}, note) : null), ...children);
  }

  /** Say something to screen readers, without showing it. */
  function announce(text) {
    const place = document.getElementById("announcer");
    if (place) place.textContent = text;
  }

  assay.dom = { element, drawn, fill, foreign, button, section, announce };
})((globalThis.Assay ??= {}));
