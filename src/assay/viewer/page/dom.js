/* DOM: elements are made from names and text, never from markup, so that nothing in a run can run. */
((assay) => {
  "use strict";
  const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

  /** An element. `element("a.row", {href: "#/"}, "text", child)`: classes follow the name, empty children are left out. */
  function element(selector, attributes, ...children) {
    return fillElement(document.createElement(selector.split(".")[0]), selector, attributes, children);
  }

  /** The same for an element of a drawing. */
  function svg(selector, attributes, ...children) {
    return fillElement(document.createElementNS(SVG_NAMESPACE, selector.split(".")[0]), selector, attributes, children);
  }

  function fillElement(node, selector, attributes, children) {
    const classes = selector.split(".").slice(1);
    if (classes.length) node.classList.add(...classes);
    // One by one here and below: a call takes only some ten thousands of arguments, and a long text has more pieces.
    for (const child of children.flat(Infinity)) if (isShown(child)) node.append(child);
    // After the children: under `dir="auto"` each of them would be looked through as it comes in.
    for (const [name, value] of Object.entries(attributes || {})) applyAttribute(node, name, value);
    return node;
  }

  function applyAttribute(node, name, value) {
    if (value === null || value === undefined || value === false) return;
    if (name === "class") node.classList.add(...value.split(" "));
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    // Through the object model, since the content policy refuses a style attribute.
    else if (name === "styles") for (const [property, setting] of Object.entries(value)) node.style.setProperty(property, setting);
    else node.setAttribute(name, value === true ? "" : String(value));
  }

  function isShown(child) {
    return child !== null && child !== undefined && child !== false && child !== "";
  }

  /** Replace the children of an element. */
  function fill(parent, ...children) {
    parent.replaceChildren();
    for (const child of children.flat(Infinity)) if (isShown(child)) parent.append(child);
    return parent;
  }

  /** Text from a run or a model, kept from reordering the text beside it. */
  function untrusted(text, attributes) {
    return element("bdi", attributes, assay.hidden.withBadges(String(text ?? "")));
  }

  /** A button that does something in the page. */
  function button(label, onclick, attributes) {
    return element("button", { type: "button", onclick, ...attributes }, label);
  }

  /** A part of the page under a heading. */
  function section(title, attributes, ...children) {
    const { note, ...rest } = attributes || {};
    const id = `s-${title.toLowerCase().replace(/\W+/g, "-")}`;
    return element("section.card", { "aria-labelledby": id, ...rest },
      element("h2", { id }, title, note ? element("span.note", {}, note) : null), ...children);
  }

  /** Say something to screen readers, without showing it. */
  function announce(text) {
    const announcer = document.getElementById("announcer");
    if (announcer) announcer.textContent = text;
  }

  assay.dom = { element, svg, fill, untrusted, button, section, announce };
})((globalThis.Assay ??= {}));
