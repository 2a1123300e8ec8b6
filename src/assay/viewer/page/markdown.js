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

  /** A message as elements, with its quoted parts marked. */
  function markdown(text, marks) {
    return new Blocks(linesOf(text), { marks, all: false }, 0).read();
  }

  /** The lines of a text, with the offset of each. */
  function linesOf(text) {
    let offset = 0;
    return text.split("\n").map((line) => {
      const start = offset;
      offset += line.length + 1;
      return { text: line, offset: start };
    });
  }

  class Blocks {
    constructor(lines, options, depth) {
      Object.assign(this, { lines, options, depth, next: 0, nodes: [] });
    }

    read() {
      while (this.next < this.lines.length) {
        const { text } = this.lines[this.next];
        if (!text.trim()) this.next += 1;
        else this.nodes.push(this.block(text));
      }
      return this.nodes;
    }

    block(text) {
      const isTooDeep = this.depth >= DEEPEST;
      if (FENCE.test(text)) return this.fenced();
      if (HEADING.test(text)) return this.heading();
      if (RULE.test(text)) return this.takeLines(1) && element("hr");
      if (MATH_OPENING.test(text)) return this.math() || this.paragraph();
      if (!isTooDeep && QUOTE.test(text)) return this.quote();
      if (!isTooDeep && ITEM.test(text)) return this.list();
      if (this.isTable()) return assay.markdownTable(this.takeLines(this.tableLength()), this.options);
      return this.paragraph();
    }

    /** Return the next lines, and continue after them. */
    takeLines(count) {
      const some = this.lines.slice(this.next, this.next + count);
      this.next += count;
      return some;
    }

    /** The number of lines from here on that belong together: the first `from`, and those after them while `continues` is true. */
    countWhile(continues, from = 1, most = Infinity) {
      let count = from;
      const end = Math.min(this.lines.length - this.next, most);
      while (count < end && continues(this.lines[this.next + count].text)) count += 1;
      return count;
    }

    fenced() {
      const [, fence, language] = FENCE.exec(this.lines[this.next].text);
      const closes = (text) => text.trim().startsWith(fence) && !text.trim().replaceAll(fence[0], "");
      const count = this.countWhile((text) => !closes(text));
      const code = this.takeLines(count).slice(1);
      this.next += 1;
      const lines = code.flatMap(({ text, offset }) => assay.marks.markText(`${text}\n`, offset, this.options));
      return element("div.code", {}, language.trim() ? element("div.language", {}, language.trim().slice(0, 40)) : null,
        element("pre", { tabindex: "0" }, element("code", {}, lines)));
    }

    heading() {
      const [line] = this.takeLines(1);
      const [source, signs, title] = HEADING.exec(line.text);
      // Headings of an answer rank below those of the page.
      const level = Math.min(6, signs.length + 3);
      return element(`h${level}.size-${signs.length}`, { dir: "auto" }, this.words([{ text: title, offset: line.offset + source.length - title.length }]));
    }

    /** A formula over several lines; null if it is not one, or ends on the line on which it begins. */
    math() {
      const first = this.lines[this.next].text;
      const opening = MATH_OPENING.exec(first)[1];
      const closing = { "$$": "$$", "\\[": "\\]" }[opening] || opening.replace("begin", "end");
      if (first.includes(closing, first.indexOf(opening) + opening.length)) return null;
      const count = this.countWhile((text) => !text.includes(closing), 1, TALLEST) + 1;
      const lines = this.lines.slice(this.next, this.next + count);
      return lines[count - 1]?.text.includes(closing) ? this.formula(lines, opening, closing) : null;
    }

    formula(lines, opening, closing) {
      const source = lines.map((line) => line.text).join("\n");
      const end = source.lastIndexOf(closing);
      const isEnvironment = opening.startsWith("\\begin");
      const tex = isEnvironment ? source.slice(0, end + closing.length) : source.slice(source.indexOf(opening) + 2, end);
      const formula = assay.formula(tex.trim(), true);
      const after = source.slice(end + closing.length).trim();
      if (!formula || after.length > 1) return null;
      this.next += lines.length;
      const last = lines[lines.length - 1];
      const overlapping = assay.marks.findWithin(this.options.marks, lines[0].offset, last.offset + last.text.length);
      return element("p", {}, overlapping.length ? assay.marks.wrapInMark(overlapping, [formula]) : formula, after);
    }

    quote() {
      const lines = this.takeLines(this.countWhile((text) => QUOTE.test(text))).map((line) => cutStart(line, QUOTE.exec(line.text)[0].length));
      return element("blockquote", {}, new Blocks(lines, this.options, this.depth + 1).read());
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

    /** One item of a list, with the indented lines below it. */
    item() {
      const [head, before] = ITEM.exec(this.lines[this.next].text);
      const leastIndent = before.length + 2;
      let wasBlank = false;
      const count = this.countWhile((text) => {
        const blank = !text.trim();
        const continues = blank || indentOf(text) >= leastIndent || (!wasBlank && !beginsBlock(text));
        wasBlank = blank;
        return continues;
      });
      const [first, ...rest] = this.takeLines(count);
      const lines = [cutStart(first, head.length), ...rest.map((line) => cutStart(line, Math.min(head.length, indentOf(line.text))))];
      return element("li", { dir: "auto" }, new Blocks(lines, this.options, this.depth + 1).read());
    }

    isTable() {
      const below = this.lines[this.next + 1]?.text || "";
      return this.lines[this.next].text.includes("|") && below.includes("|") && below.length < 2000 && DIVIDER.test(below);
    }

    tableLength() {
      return this.countWhile((text) => text.includes("|") && text.trim() !== "", 2);
    }

    paragraph() {
      const lines = this.takeLines(this.countWhile((text) => text.trim() && !beginsBlock(text)));
      return element("p", { dir: "auto" }, this.words(lines));
    }

    /** The text of some lines as nodes. The lines may be apart in the message. */
    words(lines) {
      const starts = [];
      let length = 0;
      for (const { text } of lines) {
        starts.push(length);
        length += text.length + 1;
      }
      const offsetOf = (offset) => {
        const number = findLastAtMost(starts, offset);
        return lines[number].offset + offset - starts[number];
      };
      return assay.inline(lines.map((line) => line.text).join("\n"), offsetOf, this.options);
    }
  }

  function beginsBlock(text) {
    return FENCE.test(text) || HEADING.test(text) || RULE.test(text) || QUOTE.test(text) || ITEM.test(text) || MATH_OPENING.test(text);
  }

  function indentOf(text) {
    return text.length - text.trimStart().length;
  }

  /** The index of the last of some rising numbers that is not above `wanted`. */
  function findLastAtMost(numbers, wanted) {
    let [low, high] = [0, numbers.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (numbers[middle] <= wanted) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** A line without its first characters. */
  function cutStart({ text, offset }, count) {
    return { text: text.slice(count), offset: offset + Math.min(count, text.length) };
  }

  assay.markdown = markdown;
})((globalThis.Assay ??= {}));
