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
  const MAX_DEPTH = 8; // of lists and quotations in each other
  const MAX_FORMULA_LINES = 200;

  /** A message as elements, with its quoted parts marked. */
  function markdown(text, marks) {
    return new Blocks(linesOf(text), { marks, all: false }, 0).read();
  }

  /** Return the lines of a text, each with its offset in the message. */
  function linesOf(text) {
    let offset = 0;
    return text.split("\n").map((line) => {
      const start = offset;
      offset += line.length + 1;
      return { text: line, offset: start };
    });
  }

  /** Reads lines from the first to the last. Each method that returns an element reads one block, such as a list, which
      begins at the line `next`, and continues after it. */
  class Blocks {
    constructor(lines, options, depth) {
      this.lines = lines;
      this.options = options; // those of `assay.marks.markText`
      this.depth = depth;
      this.next = 0;
      this.nodes = [];
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
      const isTooDeep = this.depth >= MAX_DEPTH;
      if (FENCE.test(text)) return this.fenced();
      if (HEADING.test(text)) return this.heading();
      if (RULE.test(text)) return this.takeLines(1) && element("hr");
      if (MATH_OPENING.test(text)) return this.formula() || this.paragraph();
      if (!isTooDeep && QUOTE.test(text)) return this.quote();
      if (!isTooDeep && ITEM.test(text)) return this.list();
      if (this.isTable()) return assay.markdownTable(this.takeLines(this.tableLength()), this.options);
      return this.paragraph();
    }

    /** Return the next lines, and continue after them. */
    takeLines(count) {
      const taken = this.lines.slice(this.next, this.next + count);
      this.next += count;
      return taken;
    }

    /** Return how many lines of a block there are from here on: the first `least`, and those after them for whose text
        `continues` returns true; at most `most`. */
    countLines(continues, least = 1, most = Infinity) {
      let count = least;
      const end = Math.min(this.lines.length - this.next, most);
      while (count < end && continues(this.lines[this.next + count].text)) count += 1;
      return count;
    }

    /** Code between two lines of backticks or tildes; without the second, all lines that follow. */
    fenced() {
      const [, fence, info] = FENCE.exec(this.lines[this.next].text);
      const isClosing = (text) => text.trim().startsWith(fence) && !text.trim().replaceAll(fence[0], "");
      const count = this.countLines((text) => !isClosing(text));
      const [, ...codeLines] = this.takeLines(count);
      this.next += 1; // the closing fence
      const code = codeLines.flatMap(({ text, offset }) => assay.marks.markText(`${text}\n`, offset, this.options));
      const language = info.trim().slice(0, 40);
      return element("div.code", {}, language ? element("div.language", {}, language) : null,
        element("pre", { tabindex: "0" }, element("code", {}, code)));
    }

    heading() {
      const [line] = this.takeLines(1);
      const [source, signs, title] = HEADING.exec(line.text);
      // Headings of an answer rank below those of the page.
      const level = Math.min(6, signs.length + 3);
      return element(`h${level}.size-${signs.length}`, { dir: "auto" }, this.words([{ text: title, offset: line.offset + source.length - title.length }]));
    }

    /** A formula over several lines. Null, with nothing read, if the lines are not a formula, or if it ends on its first line:
        then it is read as part of a paragraph. */
    formula() {
      const firstText = this.lines[this.next].text;
      const opening = MATH_OPENING.exec(firstText)[1]; // `$$`, `\[` or `\begin{align}`, for example
      const closing = findMathClosing(opening);
      const endsOnFirstLine = firstText.includes(closing, firstText.indexOf(opening) + opening.length);
      if (endsOnFirstLine) return null;
      const countBeforeLast = this.countLines((text) => !text.includes(closing), 1, MAX_FORMULA_LINES);
      const lines = this.lines.slice(this.next, this.next + countBeforeLast + 1);
      const last = lines[lines.length - 1];
      if (lines.length === 1 || !last.text.includes(closing)) return null; // it has no end
      const source = lines.map((line) => line.text).join("\n");
      const closingIndex = source.lastIndexOf(closing);
      // At most a full stop may follow the formula, which is shown after it.
      const textAfter = source.slice(closingIndex + closing.length).trim();
      if (textAfter.length > 1) return null;
      // KaTeX reads an environment with its `\begin` and `\end`, and other formulas without their signs.
      const isEnvironment = opening.startsWith("\\begin");
      const tex = isEnvironment
        ? source.slice(0, closingIndex + closing.length)
        : source.slice(source.indexOf(opening) + opening.length, closingIndex);
      const formula = assay.formula(tex.trim(), true);
      if (!formula) return null; // KaTeX cannot read it
      this.next += lines.length;
      // A formula cannot be marked in part, so all of it is marked if a judge quotes a part of it.
      const marks = assay.marks.findWithin(this.options.marks, lines[0].offset, last.offset + last.text.length);
      return element("p", {}, marks.length ? assay.marks.wrapInMark(marks, [formula]) : formula, textAfter);
    }

    quote() {
      const count = this.countLines((text) => QUOTE.test(text));
      const lines = this.takeLines(count).map((line) => cutStart(line, QUOTE.exec(line.text)[0].length));
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

    /** Whether the next line is another item of the list that begins with the match `first`: of the same kind, and not
        indented further. */
    isSibling(first, ordered) {
      const { text } = this.lines[this.next];
      const match = ITEM.exec(text);
      if (!match || RULE.test(text)) return false;
      const [, indent, sign] = match;
      return indent.length <= first[1].length + 1 && /\d/.test(sign) === ordered;
    }

    /** One item of a list, with the lines below it that belong to it: indented ones, and those of its first paragraph. */
    item() {
      const [head, indent] = ITEM.exec(this.lines[this.next].text); // the head is the sign with the spaces around it
      const leastIndent = indent.length + 2;
      let wasBlank = false;
      const count = this.countLines((text) => {
        const isBlank = !text.trim();
        const isIndented = indentOf(text) >= leastIndent;
        const isSameParagraph = !wasBlank && !beginsBlock(text);
        wasBlank = isBlank;
        return isBlank || isIndented || isSameParagraph;
      });
      const [first, ...rest] = this.takeLines(count);
      const lines = [cutStart(first, head.length)];
      for (const line of rest) lines.push(cutStart(line, Math.min(head.length, indentOf(line.text))));
      return element("li", { dir: "auto" }, new Blocks(lines, this.options, this.depth + 1).read());
    }

    isTable() {
      const below = this.lines[this.next + 1]?.text || "";
      return this.lines[this.next].text.includes("|") && below.includes("|") && below.length < 2000 && DIVIDER.test(below);
    }

    tableLength() {
      return this.countLines((text) => text.includes("|") && text.trim() !== "", 2);
    }

    paragraph() {
      const count = this.countLines((text) => text.trim() && !beginsBlock(text));
      return element("p", { dir: "auto" }, this.words(this.takeLines(count)));
    }

    /** The text of some lines as nodes. The lines may be apart in the message, as those of a quotation are. */
    words(lines) {
      const starts = []; // the index of each line in the joined text
      let length = 0;
      for (const { text } of lines) {
        starts.push(length);
        length += text.length + 1;
      }
      const offsetOf = (index) => {
        const number = findLastAtMost(starts, index);
        return lines[number].offset + index - starts[number];
      };
      return assay.inline(lines.map((line) => line.text).join("\n"), offsetOf, this.options);
    }
  }

  function beginsBlock(text) {
    return FENCE.test(text) || HEADING.test(text) || RULE.test(text) || QUOTE.test(text) || ITEM.test(text) || MATH_OPENING.test(text);
  }

  /** Return what ends a formula that begins with this sign. */
  function findMathClosing(opening) {
    if (opening === "$$") return "$$";
    if (opening === "\\[") return "\\]";
    return opening.replace("begin", "end");
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

  /** A line without its first `count` characters. */
  function cutStart({ text, offset }, count) {
    return { text: text.slice(count), offset: offset + Math.min(count, text.length) };
  }

  assay.markdown = markdown;
})((globalThis.Assay ??= {}));
