/* Messages: the conversation of a rollout, rendered or raw. Long texts are cut, so that the page stays fast. */
((assay) => {
  "use strict";
  const { element, button, fill } = assay.dom;
  const CUT_LENGTH = 20000;
  const MARKDOWN_UP_TO = 300000;
  const PIECE = 4000;
  // Reasoning at the beginning of a text; without an end it extends to the end of the text.
  const REASONING = /^\s*<(think|thinking|reasoning)>[^]*?(?:<\/\1>|$)/i;

  /** Messages below each other. `first` is the number of the first one in the conversation, which is part of the
      addresses by which judges cite; `marksOf(index, address, text)` returns the marks of a message's text. */
  function messages(list, { marksOf = () => [], first = 0, raw = false, media = [] } = {}) {
    return list.map((message, index) => {
      const address = first ? `m${first + index}` : "";
      const isText = typeof message.content === "string";
      const messageMedia = media.filter((item) => item.address.split(".")[0] === address);
      return makeMessage(message, marksOf(index, isText ? address : "", assay.content.textOf(message.content)), raw, address, messageMedia);
    });
  }

  function makeMessage(message, marks, raw, address, media) {
    const addressOf = (kind, index = 0) => ({ "data-address": address ? `${address}.${kind}${index + 1}` : null });
    const role = String(message.role || "message");
    const name = [role, message.name || message.tool_call_id].filter(Boolean).join(" · ");
    const text = assay.content.textOf(message.content);
    const thinking = assay.content.textOf(message.reasoning_content ?? message.reasoning ?? "");
    const hidden = assay.hidden.countIn(text.slice(0, CUT_LENGTH));
    return element(`article.message.role-${classOfRole(role)}`, { "aria-label": `${role} message`, "data-address": address || null },
      element("header", {}, element("span.role", {}, assay.dom.untrusted(name)),
        hidden ? element("span.note", {}, `${assay.format.formatCount(hidden, "hidden character")}: raw text shows them`) : null),
      thinking ? element("details.thinking", addressOf("thinking"), element("summary", {}, "Reasoning"), textBody(thinking, [], raw)) : null,
      text ? foldedReasoning(text, marks, raw) : null,
      media.map(makeFigure),
      assay.content.otherParts(message.content).filter((part) => raw || !media.length || !isMedium(part)).map(makePart),
      assay.content.toolCalls(message).map((call, index) => makeToolCall(call, addressOf("call", index))));
  }

  /** A text whose reasoning at its beginning is folded; raw text is shown as it is. */
  function foldedReasoning(text, marks, raw) {
    const match = raw ? null : REASONING.exec(text);
    if (!match) return textBody(text, marks, raw);
    const end = match[0].length;
    const reasoning = element("details.thinking", {}, element("summary", {}, "Reasoning"), textBody(match[0], marks, true));
    const after = marks.filter((mark) => mark.end > end).map((mark) => ({ ...mark, start: Math.max(0, mark.start - end), end: mark.end - end }));
    return [reasoning, text.length > end ? textBody(text.slice(end), after, raw) : null];
  }

  function classOfRole(role) {
    return ["system", "user", "assistant", "tool"].includes(role) ? role : "other";
  }

  /** A text; one that is very long is cut, with a button for the rest. */
  function textBody(text, marks, raw) {
    const body = element("div.body", {});
    if (text.length <= CUT_LENGTH) return fill(body, renderText(text, marks, raw));
    const showAll = () => fill(body, renderText(text, marks, raw || text.length > MARKDOWN_UP_TO));
    const cutNote = element("p.cut", {}, `${assay.format.formatSize(text.length)}, of which ${assay.format.formatNumber(CUT_LENGTH)} are shown. `,
      button("Show all", showAll, { class: "show-all" }));
    return fill(body, renderText(text.slice(0, CUT_LENGTH), marks, raw), cutNote);
  }

  function renderText(text, marks, raw) {
    return raw ? rawText(text, marks) : assay.markdown(text, marks);
  }

  /** A text as it is, every hidden character made visible. In pieces, so that the browser lays out only what is seen. */
  function rawText(text, marks) {
    const pieces = [];
    for (let from = 0; from < text.length; ) {
      const to = endOfPiece(text, from);
      pieces.push(element("span.piece", {}, assay.marks.markText(text.slice(from, to), from, { marks, all: true })));
      from = to;
    }
    return element("pre.raw", { dir: "auto", tabindex: "0" }, pieces);
  }

  function endOfPiece(text, from) {
    const until = Math.min(text.length, from + PIECE);
    if (until === text.length) return until;
    const line = text.slice(from, until).lastIndexOf("\n");
    if (line > PIECE / 2) return from + line + 1;
    // Not between the halves of one character.
    return /[\udc00-\udfff]/.test(text[until]) ? until + 1 : until;
  }

  function isMedium(part) {
    return /image|audio|file|document/.test(part.type) || "inlineData" in part || "inline_data" in part;
  }

  /** An image, an audio clip or a PDF, whose type is one that the bytes show; why, where it cannot be shown. */
  function makeFigure(item) {
    const size = item.error ? "" : `${item.media_type}, ${assay.format.formatNumber(item.bytes)} bytes`;
    const caption = element("figcaption.note", {}, `${item.address}: `, assay.dom.untrusted(item.error || size));
    return element("figure.medium", { "data-address": item.address }, item.error ? null : makePlayer(item), caption);
  }

  function makePlayer({ type, url, address }) {
    if (type === "image") return element("a", { href: url, download: address, title: "Save the image" }, element("img", { src: url, alt: address, loading: "lazy" }));
    if (type === "audio") return element("audio", { src: url, controls: true, preload: "metadata", "aria-label": address });
    // Not a `data:` URL, because browsers show only small PDFs of those.
    const bytes = Uint8Array.from(atob(url.slice(url.indexOf(",") + 1)), (letter) => letter.charCodeAt(0));
    const pdfUrl = URL.createObjectURL(new Blob([bytes], { type: "application/pdf" }));
    const open = element("a", { href: pdfUrl, download: `${address}.pdf` }, "Save the PDF");
    return element("details.pdf", { open: true }, element("summary", {}, "PDF"),
      element("object", { data: pdfUrl, type: "application/pdf", "aria-label": address }, open), element("p.note", {}, open.cloneNode(true)));
  }

  function makePart(part) {
    const kind = String(part.type || "part");
    const text = assay.format.formatValue(part);
    return element("details.part", {}, element("summary", {}, `${kind} (${assay.format.formatSize(text.length)})`), textBody(text, [], true));
  }

  function makeToolCall(call, attributes) {
    return element("div.tool-call", attributes,
      element("div.tool-name", {}, "calls ", assay.dom.untrusted(call.name), call.id ? element("span.note", {}, assay.dom.untrusted(call.id)) : null),
      textBody(assay.content.indentJson(call.arguments), [], true));
  }

  /** The value of a column: a text as it is, anything else as JSON. */
  function columnValue(value) {
    return textBody(assay.format.formatValue(value), [], true);
  }

  assay.messages = { messages, textBody, value: columnValue };
})((globalThis.Assay ??= {}));
