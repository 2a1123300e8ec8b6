/* Inline: emphasis, code, formulas and links within a paragraph. Each text keeps its place in the message. */
((assay) => {
  "use strict";
  const { element } = assay.dom;
  const SPECIAL = /[\\`*_~$![<]/g;
  const PUNCTUATION = /[!-/:-@[-`{-~]/;
  const TAG = /<\/?[A-Za-z][\w-]{0,40}>/y;
  const REACH = 3000;
  const DEEPEST = 6;

  /** Text in pieces. `place(offset)` gives the place in the message of a character of the text. */
  function inline(text, place, how, depth = 0) {
    return new Inline(text, place, how, depth).read();
  }

  class Inline {
    constructor(text, place, how, depth) {
      Object.assign(this, { text, place, how, depth, made: [], plain: 0, at: 0, searched: {} });
    }

    read() {
      while (this.at < this.text.length) {
        SPECIAL.lastIndex = this.at;
        const found = SPECIAL.exec(this.text);
        if (!found) break;
        this.at = found.index;
        if (this.depth > DEEPEST || !this.special(found[0])) this.at += 1;
      }
      this.leave(this.text.length);
      return this.made;
    }

    special(character) {
      if (character === "\\") return this.escape();
      if (character === "`") return this.code();
      if (character === "$") return this.dollars();
      if (character === "<") return this.tag();
      if (character === "[" || character === "!") return this.link(character === "!");
      return this.emphasis(character);
    }

    /** Put down the plain text before `until`, and then `nodes`; go on at `next`. */
    put(until, next, ...nodes) {
      this.leave(until);
      this.made.push(...nodes);
      this.at = this.plain = next;
      return true;
    }

    leave(until) {
      if (until > this.plain) this.made.push(this.leaf(this.plain, until));
    }

    /** Plain text; a line of it at a time, since lines may lie apart in the message. */
    leaf(from, to) {
      const pieces = [];
      while (from < to) {
        const end = this.text.indexOf("\n", from);
        const until = end < 0 || end >= to ? to : end + 1;
        pieces.push(assay.marks.markText(this.text.slice(from, until), this.place(from), this.how));
        from = until;
      }
      return pieces;
    }

    inner(from, to) {
      const { place } = this;
      return inline(this.text.slice(from, to), (offset) => place(from + offset), this.how, this.depth + 1);
    }

    /** Where a closing sign stands, within reach; -1 when nowhere. */
    closing(sign, from) {
      const found = this.text.slice(from, from + REACH).indexOf(sign);
      return found < 0 ? -1 : from + found;
    }

    escape() {
      const next = this.text[this.at + 1];
      if (next === "(" || next === "[") {
        const end = this.closing(next === "(" ? "\\)" : "\\]", this.at + 2);
        if (end >= 0) return this.math(this.at + 2, end, end + 2, next === "[");
      }
      if (!next || !PUNCTUATION.test(next)) return false;
      return this.put(this.at, this.at + 2, this.leaf(this.at + 1, this.at + 2));
    }

    code() {
      const ticks = /`+/y;
      ticks.lastIndex = this.at;
      const [fence] = ticks.exec(this.text);
      const from = this.at + fence.length;
      let end = this.closing(fence, from);
      while (end >= 0 && this.text[end + fence.length] === "`") {
        while (this.text[end] === "`") end += 1;
        end = this.closing(fence, end);
      }
      if (end < 0) return this.skip("`");
      return this.put(this.at, end + fence.length, element("code", {}, this.leaf(from, end)));
    }

    dollars() {
      const display = this.text[this.at + 1] === "$";
      const sign = display ? "$$" : "$";
      const from = this.at + sign.length;
      const end = this.closing(sign, from);
      // Two prices in a sentence are no formula: no space inside, and no digit after.
      const isPrice = !display && (/\s/.test(this.text[from] || " ") || /\s/.test(this.text[end - 1]) || /\d/.test(this.text[end + 1] || ""));
      if (end <= from || isPrice) return this.skip("$");
      return this.math(from, end, end + sign.length, display);
    }

    math(from, to, next, display) {
      const made = assay.formula(this.text.slice(from, to), display);
      const raw = made || element("code.math-source", {}, this.leaf(this.at, next));
      const over = made ? assay.marks.findWithin(this.how.marks, this.place(this.at), this.place(next - 1) + 1) : [];
      return this.put(this.at, next, over.length ? assay.marks.wrapInMark(over, [raw]) : raw);
    }

    tag() {
      TAG.lastIndex = this.at;
      const found = TAG.exec(this.text);
      if (!found) return false;
      const end = this.at + found[0].length;
      return this.put(this.at, end, element("span.tag-text", {}, this.leaf(this.at, end)));
    }

    /** A link is shown with its address, and leads nowhere: who wrote it is not to be trusted. */
    link(isImage) {
      const from = this.at + (isImage ? 2 : 1);
      if (isImage && this.text[this.at + 1] !== "[") return false;
      const middle = this.closing("](", from);
      const end = middle < 0 ? -1 : this.closing(")", middle + 2);
      if (end < 0 || this.text.slice(from, middle).includes("\n")) return false;
      const words = isImage ? ["image: ", this.inner(from, middle)] : this.inner(from, middle);
      const address = element("span.address", {}, " (", this.leaf(middle + 2, end), ")");
      return this.put(this.at, end + 1, element("span.link-text", {}, words, address));
    }

    emphasis(character) {
      const doubled = this.text[this.at + 1] === character;
      const sign = doubled ? character.repeat(2) : character;
      const from = this.at + sign.length;
      if ((character === "~" && !doubled) || /\s/.test(this.text[from] || " ")) return this.skip(character);
      if (character === "_" && /\w/.test(this.text[this.at - 1] || " ")) return this.skip(character);
      const end = this.closer(sign, character, from);
      if (end < 0) return this.skip(character);
      const name = character === "~" ? "s" : doubled ? "strong" : "em";
      return this.put(this.at, end + sign.length, element(name, {}, this.inner(from, end)));
    }

    /** The sign that ends an emphasis: not after a space, and of the same length or in a run of three. */
    closer(sign, character, from) {
      const limit = from + REACH;
      // Up to here no sign ends an emphasis, wherever one begins: each place is looked at once.
      let at = Math.max(from, this.searched[sign] || 0);
      while (at < limit) {
        const end = this.closing(sign, at);
        if (end < 0 || end >= limit) break;
        const run = this.runAt(end, character);
        const fits = run === sign.length || run >= 3;
        if (fits && !/\s/.test(this.text[end - 1])) return sign.length === 2 ? end + run - 2 : end;
        at = end + run;
      }
      this.searched[sign] = Math.max(at, limit - sign.length + 1);
      return -1;
    }

    runAt(at, character) {
      let run = 0;
      while (this.text[at + run] === character) run += 1;
      return run;
    }

    /** A run of signs that begins nothing is text. */
    skip(character) {
      this.at += this.runAt(this.at, character);
      return true;
    }
  }

  assay.inline = inline;
})((globalThis.Assay ??= {}));
