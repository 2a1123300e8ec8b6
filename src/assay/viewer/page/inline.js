/* Inline: emphasis, code, formulas and links within a paragraph. Each text keeps its place in the message. */
((assay) => {
  "use strict";
  const { element } = assay.dom;
  const SPECIAL = /[\\`*_~$![<]/g;
  const PUNCTUATION = /[!-/:-@[-`{-~]/;
  const TAG = /<\/?[A-Za-z][\w-]{0,40}>/y;
  const REACH = 3000;
  const DEEPEST = 6;

  /** A text as nodes. `offsetOf(index)` is the offset in the message of a character of the text. */
  function inline(text, offsetOf, options, depth = 0) {
    return new Inline(text, offsetOf, options, depth).read();
  }

  class Inline {
    constructor(text, offsetOf, options, depth) {
      Object.assign(this, { text, offsetOf, options, depth, nodes: [], plainStart: 0, index: 0, searchedUntil: {} });
    }

    read() {
      while (this.index < this.text.length) {
        SPECIAL.lastIndex = this.index;
        const match = SPECIAL.exec(this.text);
        if (!match) break;
        this.index = match.index;
        if (this.depth > DEEPEST || !this.readSpecial(match[0])) this.index += 1;
      }
      this.flushPlain(this.text.length);
      return this.nodes;
    }

    readSpecial(character) {
      if (character === "\\") return this.escape();
      if (character === "`") return this.code();
      if (character === "$") return this.dollars();
      if (character === "<") return this.tag();
      if (character === "[" || character === "!") return this.link(character === "!");
      return this.emphasis(character);
    }

    /** Add the plain text before `until`, and then `nodes`; continue at `next`. */
    replaceWith(until, next, ...nodes) {
      this.flushPlain(until);
      this.nodes.push(...nodes);
      this.index = this.plainStart = next;
      return true;
    }

    flushPlain(until) {
      if (until > this.plainStart) this.nodes.push(this.plainText(this.plainStart, until));
    }

    /** Plain text with its marks, line by line, since lines that follow each other here may be apart in the message. */
    plainText(start, to) {
      const pieces = [];
      while (start < to) {
        const end = this.text.indexOf("\n", start);
        const until = end < 0 || end >= to ? to : end + 1;
        pieces.push(assay.marks.markText(this.text.slice(start, until), this.offsetOf(start), this.options));
        start = until;
      }
      return pieces;
    }

    readInside(start, to) {
      const { offsetOf } = this;
      return inline(this.text.slice(start, to), (offset) => offsetOf(start + offset), this.options, this.depth + 1);
    }

    /** The index of a sign, not too far away; -1 if there is none. */
    findSign(sign, start) {
      const match = this.text.slice(start, start + REACH).indexOf(sign);
      return match < 0 ? -1 : start + match;
    }

    escape() {
      const next = this.text[this.index + 1];
      if (next === "(" || next === "[") {
        const end = this.findSign(next === "(" ? "\\)" : "\\]", this.index + 2);
        if (end >= 0) return this.math(this.index + 2, end, end + 2, next === "[");
      }
      if (!next || !PUNCTUATION.test(next)) return false;
      return this.replaceWith(this.index, this.index + 2, this.plainText(this.index + 1, this.index + 2));
    }

    code() {
      const ticks = /`+/y;
      ticks.lastIndex = this.index;
      const [fence] = ticks.exec(this.text);
      const start = this.index + fence.length;
      let end = this.findSign(fence, start);
      while (end >= 0 && this.text[end + fence.length] === "`") {
        while (this.text[end] === "`") end += 1;
        end = this.findSign(fence, end);
      }
      if (end < 0) return this.skipRun("`");
      return this.replaceWith(this.index, end + fence.length, element("code", {}, this.plainText(start, end)));
    }

    dollars() {
      const display = this.text[this.index + 1] === "$";
      const sign = display ? "$$" : "$";
      const start = this.index + sign.length;
      const end = this.findSign(sign, start);
      // Two prices in a sentence are not a formula, which has no space inside and no digit after it.
      const isPrice = !display && (/\s/.test(this.text[start] || " ") || /\s/.test(this.text[end - 1]) || /\d/.test(this.text[end + 1] || ""));
      if (end <= start || isPrice) return this.skipRun("$");
      return this.math(start, end, end + sign.length, display);
    }

    math(start, to, next, display) {
      const formula = assay.formula(this.text.slice(start, to), display);
      const content = formula || element("code.math-source", {}, this.plainText(this.index, next));
      const marks = formula ? assay.marks.findWithin(this.options.marks, this.offsetOf(this.index), this.offsetOf(next - 1) + 1) : [];
      return this.replaceWith(this.index, next, marks.length ? assay.marks.wrapInMark(marks, [content]) : content);
    }

    tag() {
      TAG.lastIndex = this.index;
      const match = TAG.exec(this.text);
      if (!match) return false;
      const end = this.index + match[0].length;
      return this.replaceWith(this.index, end, element("span.tag-text", {}, this.plainText(this.index, end)));
    }

    /** A link is shown with its address and cannot be followed, because its author is not to be trusted. */
    link(isImage) {
      const start = this.index + (isImage ? 2 : 1);
      if (isImage && this.text[this.index + 1] !== "[") return false;
      const middle = this.findSign("](", start);
      const end = middle < 0 ? -1 : this.findSign(")", middle + 2);
      if (end < 0 || this.text.slice(start, middle).includes("\n")) return false;
      const words = isImage ? ["image: ", this.readInside(start, middle)] : this.readInside(start, middle);
      const address = element("span.address", {}, " (", this.plainText(middle + 2, end), ")");
      return this.replaceWith(this.index, end + 1, element("span.link-text", {}, words, address));
    }

    emphasis(character) {
      const doubled = this.text[this.index + 1] === character;
      const sign = doubled ? character.repeat(2) : character;
      const start = this.index + sign.length;
      if ((character === "~" && !doubled) || /\s/.test(this.text[start] || " ")) return this.skipRun(character);
      if (character === "_" && /\w/.test(this.text[this.index - 1] || " ")) return this.skipRun(character);
      const end = this.findEmphasisEnd(sign, character, start);
      if (end < 0) return this.skipRun(character);
      const name = character === "~" ? "s" : doubled ? "strong" : "em";
      return this.replaceWith(this.index, end + sign.length, element(name, {}, this.readInside(start, end)));
    }

    /** The index of the sign that ends an emphasis: not after a space, and of the same length or in a run of three. */
    findEmphasisEnd(sign, character, start) {
      const limit = start + REACH;
      // Before this index, no sign ends an emphasis. So each index is looked at only once.
      let index = Math.max(start, this.searchedUntil[sign] || 0);
      while (index < limit) {
        const end = this.findSign(sign, index);
        if (end < 0 || end >= limit) break;
        const run = this.runAt(end, character);
        const fits = run === sign.length || run >= 3;
        if (fits && !/\s/.test(this.text[end - 1])) return sign.length === 2 ? end + run - 2 : end;
        index = end + run;
      }
      this.searchedUntil[sign] = Math.max(index, limit - sign.length + 1);
      return -1;
    }

    runAt(index, character) {
      let run = 0;
      while (this.text[index + run] === character) run += 1;
      return run;
    }

    /** A run of signs that begins nothing is plain text. */
    skipRun(character) {
      this.index += this.runAt(this.index, character);
      return true;
    }
  }

  assay.inline = inline;
})((globalThis.Assay ??= {}));
