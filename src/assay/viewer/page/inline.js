/* Inline: emphasis, code, formulas and links within a paragraph, as elements. Each character keeps its offset in
   the message, so that the parts which judges quote can be marked. */
((assay) => {
  "use strict";
  const { element } = assay.dom;
  const SPECIAL = /[\\`*_~$![<]/g; // characters that may begin something other than plain text
  const PUNCTUATION = /[!-/:-@[-`{-~]/; // what a backslash may escape
  const TAG = /<\/?[A-Za-z][\w-]{0,40}>/y;
  const MAX_DISTANCE = 3000; // characters from the sign that opens something to the one that closes it
  const MAX_DEPTH = 6; // of emphasis in emphasis, or in links

  /** Return a text as nodes. `offsetOf(index)` is the offset in the message of a character of the text, and
      `options` are those of `assay.marks.markText`. */
  function inline(text, offsetOf, options, depth = 0) {
    return new InlineReader(text, offsetOf, options, depth).read();
  }

  /** Reads a text from left to right. Each method `read…` looks at a special character at `index`. It returns true if
      it has moved the index, past an element or past plain text, and false if the character is plain text. */
  class InlineReader {
    constructor(text, offsetOf, options, depth) {
      this.text = text;
      this.offsetOf = offsetOf;
      this.options = options;
      this.depth = depth;
      this.nodes = []; // what is read so far
      this.plainStart = 0; // where the plain text begins that is not yet in `nodes`
      this.index = 0;
      this.searchedUntil = {}; // by sign: before this index, no such sign ends an emphasis
    }

    read() {
      while (this.index < this.text.length) {
        SPECIAL.lastIndex = this.index;
        const match = SPECIAL.exec(this.text);
        if (!match) break;
        this.index = match.index;
        const isRead = this.depth <= MAX_DEPTH && this.readSpecial(match[0]);
        if (!isRead) this.index += 1;
      }
      this.flushPlainText(this.text.length);
      return this.nodes;
    }

    readSpecial(character) {
      if (character === "\\") return this.readBackslash();
      if (character === "`") return this.readCode();
      if (character === "$") return this.readDollars();
      if (character === "<") return this.readTag();
      if (character === "[") return this.readLink(this.index + 1, false);
      if (character === "!") return this.text[this.index + 1] === "[" && this.readLink(this.index + 2, true);
      return this.readEmphasis(character);
    }

    /** Add the plain text before the index, and then a node in place of the text up to `next`. */
    addNode(node, next) {
      this.flushPlainText(this.index);
      this.nodes.push(node);
      this.index = next;
      this.plainStart = next;
      return true;
    }

    flushPlainText(end) {
      if (end > this.plainStart) this.nodes.push(this.makePlainText(this.plainStart, end));
    }

    /** Return a part of the text as nodes, with its quoted pieces marked. Lines are marked one by one, since lines that
        follow each other here may be apart in the message. */
    makePlainText(start, end) {
      const nodes = [];
      let lineStart = start;
      while (lineStart < end) {
        const newline = this.text.indexOf("\n", lineStart);
        const lineEnd = newline < 0 || newline >= end ? end : newline + 1;
        const line = this.text.slice(lineStart, lineEnd);
        nodes.push(assay.marks.markText(line, this.offsetOf(lineStart), this.options));
        lineStart = lineEnd;
      }
      return nodes;
    }

    /** Return a part of the text as nodes, with emphasis, code and so on inside it. */
    readInside(start, end) {
      const offsetOf = (index) => this.offsetOf(start + index);
      return inline(this.text.slice(start, end), offsetOf, this.options, this.depth + 1);
    }

    /** Return the index of a sign from `start` on, not too far away; -1 if there is none. */
    findSign(sign, start) {
      const distance = this.text.slice(start, start + MAX_DISTANCE).indexOf(sign);
      return distance < 0 ? -1 : start + distance;
    }

    /** Read a formula in `\(…\)` or `\[…\]`, or a character that is escaped. */
    readBackslash() {
      const next = this.text[this.index + 1];
      if (next === "(" || next === "[") {
        const start = this.index + 2;
        const end = this.findSign(next === "(" ? "\\)" : "\\]", start);
        if (end >= 0) return this.addFormula(start, end, end + 2, next === "[");
      }
      if (!next || !PUNCTUATION.test(next)) return false;
      const escaped = this.makePlainText(this.index + 1, this.index + 2);
      return this.addNode(escaped, this.index + 2);
    }

    /** Read code between runs of backticks of the same length. */
    readCode() {
      const fenceLength = this.countRun(this.index, "`");
      const start = this.index + fenceLength;
      let end = this.findSign("`", start);
      while (end >= 0 && this.countRun(end, "`") !== fenceLength) {
        end = this.findSign("`", end + this.countRun(end, "`"));
      }
      if (end < 0 || end > start + MAX_DISTANCE) return this.skipRun("`");
      return this.addNode(element("code", {}, this.makePlainText(start, end)), end + fenceLength);
    }

    /** Read a formula in `$…$`, or in `$$…$$` as a display. */
    readDollars() {
      const isDisplay = this.text[this.index + 1] === "$";
      const sign = isDisplay ? "$$" : "$";
      const start = this.index + sign.length;
      const end = this.findSign(sign, start);
      if (end <= start) return this.skipRun("$"); // there is no end, or nothing inside
      if (!isDisplay && this.arePrices(start, end)) return this.skipRun("$");
      return this.addFormula(start, end, end + sign.length, isDisplay);
    }

    /** Whether the text between two dollar signs is that between two prices, as in "from $5 to $8". A formula has no space
        inside of its signs, and no digit after them. */
    arePrices(start, end) {
      const hasSpaceInside = /\s/.test(this.text[start]) || /\s/.test(this.text[end - 1]);
      const hasDigitAfter = /\d/.test(this.text[end + 1] || "");
      return hasSpaceInside || hasDigitAfter;
    }

    /** Add the formula whose LaTeX is from `start` to `end`, or its source if KaTeX cannot read it. */
    addFormula(start, end, next, isDisplay) {
      const formula = assay.formula(this.text.slice(start, end), isDisplay);
      if (!formula) return this.addNode(element("code.math-source", {}, this.makePlainText(this.index, next)), next);
      // A formula cannot be marked in part, so all of it is marked if a judge quotes a part of it.
      const messageEnd = this.offsetOf(next - 1) + 1;
      const marks = assay.marks.findWithin(this.options.marks, this.offsetOf(this.index), messageEnd);
      return this.addNode(marks.length ? assay.marks.wrapInMark(marks, [formula]) : formula, next);
    }

    /** Read an HTML tag, which is shown as text and never obeyed. */
    readTag() {
      TAG.lastIndex = this.index;
      const match = TAG.exec(this.text);
      if (!match) return false;
      const end = this.index + match[0].length;
      return this.addNode(element("span.tag-text", {}, this.makePlainText(this.index, end)), end);
    }

    /** Read `[words](address)`, whose words begin at `start`, or an image. It is shown with its address and cannot be
        followed, because its author is not to be trusted. */
    readLink(start, isImage) {
      const middle = this.findSign("](", start);
      if (middle < 0 || this.text.slice(start, middle).includes("\n")) return false;
      const end = this.findSign(")", middle + 2);
      if (end < 0) return false;
      const words = this.readInside(start, middle);
      const address = element("span.address", {}, " (", this.makePlainText(middle + 2, end), ")");
      return this.addNode(element("span.link-text", {}, isImage ? "image: " : null, words, address), end + 1);
    }

    /** Read `*emphasis*`, `**strong**` or `~~deleted~~` text; `_` may stand for `*`. */
    readEmphasis(character) {
      const isDouble = this.text[this.index + 1] === character;
      const sign = isDouble ? character.repeat(2) : character;
      const start = this.index + sign.length;
      const isTilde = character === "~";
      if (isTilde && !isDouble) return this.skipRun(character); // as in "~5"
      if (/\s/.test(this.text[start] || " ")) return this.skipRun(character);
      const isInsideWord = /\w/.test(this.text[this.index - 1] || " ");
      if (character === "_" && isInsideWord) return this.skipRun(character); // as in `snake_case`
      const end = this.findEmphasisEnd(sign, character, start);
      if (end < 0) return this.skipRun(character);
      let name = isDouble ? "strong" : "em";
      if (isTilde) name = "s";
      return this.addNode(element(name, {}, this.readInside(start, end)), end + sign.length);
    }

    /** Return the index of the sign that ends an emphasis: not after a space, and in a run of its own length or of three and
        more, in which another emphasis ends too. -1 if there is none. */
    findEmphasisEnd(sign, character, start) {
      const limit = start + MAX_DISTANCE;
      // Earlier searches found nothing before `searchedUntil`. So each character is looked at only once.
      let index = Math.max(start, this.searchedUntil[sign] || 0);
      while (index < limit) {
        const end = this.findSign(sign, index);
        if (end < 0 || end >= limit) break;
        const runLength = this.countRun(end, character);
        const fits = runLength === sign.length || runLength >= 3;
        // A double sign is the last two characters of its run.
        if (fits && !/\s/.test(this.text[end - 1])) return sign.length === 2 ? end + runLength - 2 : end;
        index = end + runLength;
      }
      this.searchedUntil[sign] = Math.max(index, limit - sign.length + 1);
      return -1;
    }

    /** Return how many of this character follow each other from an index on. */
    countRun(index, character) {
      let end = index;
      while (this.text[end] === character) end += 1;
      return end - index;
    }

    /** Leave a run of signs that begins nothing as plain text. */
    skipRun(character) {
      this.index += this.countRun(this.index, character);
      return true;
    }
  }

  assay.inline = inline;
})((globalThis.Assay ??= {}));
