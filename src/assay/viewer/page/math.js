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

  /** A formula; null if KaTeX cannot read it, and then the caller shows the text as it is. */
  function formula(tex, display) {
    if (!tex.trim() || tex.length > LONGEST) return null;
    try {
      const tree = globalThis.katex.__renderToDomTree(tex, { ...OPTIONS, displayMode: display });
      const mathml = buildMathML(findMath(tree));
      return assay.dom.element(display ? "span.math.display" : "span.math", { title: tex }, mathml);
    } catch {
      // Besides its own error, KaTeX raises others for what is not a formula.
      return null;
    }
  }

  function findMath(node) {
    if (node.type === "math") return node;
    for (const child of node.children || []) {
      const match = findMath(child);
      if (match) return match;
    }
    return null;
  }

  function buildMathML(node) {
    if (node.type === undefined) return document.createTextNode(node.text ?? "");
    const mathml = document.createElementNS(MATHML, ELEMENTS.has(node.type) ? node.type : "mrow");
    for (const [name, value] of Object.entries(node.attributes || {})) if (ATTRIBUTES.has(name)) mathml.setAttribute(name, value);
    // The annotation repeats the LaTeX, which the title has.
    for (const child of node.children || []) if (child.type !== "annotation") mathml.append(buildMathML(child));
    return mathml;
  }

  assay.formula = formula;
})((globalThis.Assay ??= {}));
