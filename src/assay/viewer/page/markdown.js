/* Markdown: the part of it that models write, as elements. HTML in it is text like any other. */
((assay) => {
  "use strict";
  const { element } = assay.dom;
  const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
  const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
  const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
  const QUOTE = /^ {0,3}> ?/;
  const ITEM = /^( {0,8})([-*+]|\d{1,9}[.)])([ \t]+)(?=\S)/;
  const DIVIDER = /^[\s|:]*-[\s|:-]*$/;
  const MATH_OPENING = /^\s*(\$\$|\\\[|\\begin\{(?:align|equation|gather|cases|multline|eqnarray)\*?\})/;
  const DEEPEST = 8;
  const TALLEST = 200; // lines of a formula

  /** A message as elements, with the quoted parts of it marked. */
  function markdown(text, marks) {
    return new Blocks(linesOf(text), { marks, all: false }, 0).read();
  }

  /** Lines with their places in the text. */
  function linesOf(text) {
    let at = 0;
    return text.split("\n").map((line) => {
      const made = { text: line, at };
      at += line.length + 1;
      return made;
    });
  }

  class Blocks {
    constructor(lines, how, depth) {
      Object.assign(this, { lines, how, depth, next: 0, made: [] });
    }

    read() {
      while (this.next < this.lines.length) {
        const { text } = this.lines[this.next];
        if (!text.trim()) this.next += 1;
        else this.made.push(this.block(text));
      }
      return this.made;
    }

    block(text) {
      const deep = this.depth >= DEEPEST;
      if (FENCE.test(text)) return this.fenced();
      if (HEADING.test(text)) return this.heading();
      if (RULE.test(text)) return this.taken(1) && element("hr");
      if (MATH_OPENING.test(text)) return this.math() || this.paragraph();
      if (!deep && QUOTE.test(text)) return this.quote();
      if (!deep && ITEM.test(text)) return this.list();
      if (this.isTable()) return assay.markdownTable(this.taken(this.tableLength()), this.how);
      return this.paragraph();
    }

    /** Lines from here on, which are then behind us. */
    taken(count) {
      const some = this.lines.slice(this.next, this.next + count);
      this.next += count;
      return some;
    }

    /** How many lines from here hold what `goesOn` says. */
    span(goesOn, from = 1, most = Infinity) {
      let count = from;
      const end = Math.min(this.lines.length - this.next, most);
      while (count < end && goesOn(this.lines[this.next + count].text)) count += 1;
      return count;
    }

    fenced() {
      const [, fence, language] = FENCE.exec(this.lines[this.next].text);
      const closes = (text) => text.trim().startsWith(fence) && !text.trim().replaceAll(fence[0], "");
      const count = this.span((text) => !closes(text));
      const code = this.taken(count).slice(1);
      this.next += 1;
      const lines = code.flatMap(({ text, at }) => assay.marks.markText(`${text}\n`, at, this.how));
      return element("div.code", {}, language.trim() ? element("div.language", {}, language.trim().slice(0, 40)) : null,
        element("pre", { tabindex: "0" }, element("code", {}, lines)));
    }

    heading() {
      const [line] = this.taken(1);
      const [whole, signs, words] = HEADING.exec(line.text);
      // Headings of an answer rank below those of the page.
      const level = Math.min(6, signs.length + 3);
      return element(`h${level}.size-${signs.length}`, { dir: "auto" }, this.words([{ text: words, at: line.at + whole.length - words.length }]));
    }

    /** A formula over several lines; null when it is none, or ends on its own line. */
    math() {
      const first = this.lines[this.next].text;
      const opening = MATH_OPENING.exec(first)[1];
      const closing = { "$$": "$$", "\\[": "\\]" }[opening] || opening.replace("begin", "end");
      if (first.includes(closing, first.indexOf(opening) + opening.length)) return null;
      const count = this.span((text) => !text.includes(closing), 1, TALLEST) + 1;
      const lines = this.lines.slice(this.next, this.next + count);
      return lines[count - 1]?.text.includes(closing) ? this.formula(lines, opening, closing) : null;
    }

    formula(lines, opening, closing) {
      const whole = lines.map((line) => line.text).join("\n");
      const end = whole.lastIndexOf(closing);
      const isEnvironment = opening.startsWith("\\begin");
      const tex = isEnvironment ? whole.slice(0, end + closing.length) : whole.slice(whole.indexOf(opening) + 2, end);
      const made = assay.formula(tex.trim(), true);
      const after = whole.slice(end + closing.length).trim();
      if (!made || after.length > 1) return null;
      this.next += lines.length;
      const last = lines[lines.length - 1];
      const over = assay.marks.findWithin(this.how.marks, lines[0].at, last.at + last.text.length);
      return element("p", {}, over.length ? assay.marks.wrapInMark(over, [made]) : made, after);
    }

    quote() {
      const lines = this.taken(this.span((text) => QUOTE.test(text))).map((line) => cut(line, QUOTE.exec(line.text)[0].length));
      return element("blockquote", {}, new Blocks(lines, this.how, this.depth + 1).read());
    }

    list() {
      const first = ITEM.exec(this.lines[this.next].text);
      const ordered = /\d/.test(first[2]);
      const items = [];
      while (this.next < this.lines.length && this.isSibling(first, ordered)) items.push(this.item());
      const start = ordered ? Number.parseInt(first[2], 10) : 1;
      return element(ordered ? "ol" : "ul", { start: start !== 1 && start }, items);
    }

    isSibling(first, ordered) {
      const found = ITEM.exec(this.lines[this.next].text);
      if (!found || RULE.test(this.lines[this.next].text)) return false;
      return found[1].length <= first[1].length + 1 && /\d/.test(found[2]) === ordered;
    }

    /** One item of a list: what is indented below it belongs to it. */
    item() {
      const [head, before] = ITEM.exec(this.lines[this.next].text);
      const deep = before.length + 2;
      let wasBlank = false;
      const count = this.span((text) => {
        const blank = !text.trim();
        const goesOn = blank || indentOf(text) >= deep || (!wasBlank && !startsBlock(text));
        wasBlank = blank;
        return goesOn;
      });
      const [first, ...rest] = this.taken(count);
      const lines = [cut(first, head.length), ...rest.map((line) => cut(line, Math.min(head.length, indentOf(line.text))))];
      return element("li", { dir: "auto" }, new Blocks(lines, this.how, this.depth + 1).read());
    }

    isTable() {
      const below = this.lines[this.next + 1]?.text || "";
      return this.lines[this.next].text.includes("|") && below.includes("|") && below.length < 2000 && DIVIDER.test(below);
    }

    tableLength() {
      return this.span((text) => text.includes("|") && text.trim() !== "", 2);
    }

    paragraph() {
      const lines = this.taken(this.span((text) => text.trim() && !startsBlock(text)));
      return element("p", { dir: "auto" }, this.words(lines));
    }

    /** The text of some lines, which need not follow each other in the message. */
    words(lines) {
      const starts = [];
      let length = 0;
      for (const { text } of lines) {
        starts.push(length);
        length += text.length + 1;
      }
      const place = (offset) => {
        const number = lastAtMost(starts, offset);
        return lines[number].at + offset - starts[number];
      };
      return assay.inline(lines.map((line) => line.text).join("\n"), place, this.how);
    }
  }

  function startsBlock(text) {
    return FENCE.test(text) || HEADING.test(text) || RULE.test(text) || QUOTE.test(text) || ITEM.test(text) || MATH_OPENING.test(text);
  }

  function indentOf(text) {
    return text.length - text.trimStart().length;
  }

  /** The place of the last of some rising numbers that is not above another. */
  function lastAtMost(numbers, wanted) {
    let [low, high] = [0, numbers.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (numbers[middle] <= wanted) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** A line without its first characters. */
  function cut({ text, at }, count) {
    return { text: text.slice(count), at: at + Math.min(count, text.length) };
  }

  assay.markdown = markdown;
})((globalThis.Assay ??= {}));
