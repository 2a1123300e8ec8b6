/* Math: LaTeX as MathML. KaTeX reads it; only elements and attributes named here are made. */
((assay) => {
  "use strict";
  const MATHML = "http://www.w3.org/1998/Math/MathML";
  const ELEMENTS = new Set(
    ("math semantics mrow mi mn mo ms mtext mspace msup msub msubsup mfrac msqrt mroot mover munder munderover " +
      "mtable mtr mtd mlabeledtr mstyle mpadded mphantom menclose mmultiscripts mprescripts none merror").split(" "),
  );
  const ATTRIBUTES = new Set(
    ("accent accentunder columnalign columnlines columnspacing columnspan depth display displaystyle fence form " +
      "height largeop linebreak linethickness lspace mathbackground mathcolor mathsize mathvariant maxsize minsize " +
      "movablelimits notation rowlines rowspacing rowspan rspace scriptlevel separator stretchy symmetric voffset " +
      "width").split(" "),
  );
  const LONGEST = 5000;
  const OPTIONS = { output: "mathml", throwOnError: true, strict: "ignore", trust: false, maxSize: 20, maxExpand: 500 };

  /** A formula, or null when it is none that can be read; the caller then shows it as it was written. */
  function formula(tex, display) {
    if (!tex.trim() || tex.length > LONGEST) return null;
    try {
      const tree = globalThis.katex.__renderToDomTree(tex, { ...OPTIONS, displayMode: display });
      const made = built(find(tree));
      return assay.dom.element(display ? "span.math.display" : "span.math", { title: tex }, made);
    } catch {
      // KaTeX refuses what is no formula, in more ways than its own error.
      return null;
    }
  }

  function find(node) {
    if (node.type === "math") return node;
    for (const child of node.children || []) {
      const found = find(child);
      if (found) return found;
    }
    return null;
  }

  function built(node) {
    if (node.type === undefined) return document.createTextNode(node.text ?? "");
    const made = document.createElementNS(MATHML, ELEMENTS.has(node.type) ? node.type : "mrow");
    for (const [name, value] of Object.entries(node.attributes || {})) if (ATTRIBUTES.has(name)) made.setAttribute(name, value);
    // The annotation repeats the LaTeX, which the title has.
    for (const child of node.children || []) if (child.type !== "annotation") made.append(built(child));
    return made;
  }

  assay.formula = formula;
})((globalThis.Assay ??= {}));
