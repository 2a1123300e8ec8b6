/* Content: text and tool calls out of messages, whatever shape they have; the same readings as `messages.py`. */
((assay) => {
  "use strict";

  /** The text of a message's content: parts joined by a space, other kinds of part left out. */
  function textOf(content) {
    if (typeof content === "string") return content;
    if (Array.isArray(content)) return content.map(partText).filter(Boolean).join(" ");
    return content == null ? "" : partText(content);
  }

  function partText(part) {
    if (typeof part === "string") return part;
    return typeof part?.text === "string" ? part.text : "";
  }

  /** What a message holds beside text: images, sounds, files. Each by its type. */
  function otherParts(content) {
    if (!Array.isArray(content)) return [];
    return content.filter((part) => part && typeof part === "object" && typeof part.text !== "string");
  }

  /** What was asked: the last user message. */
  function questionText(prompt) {
    const questions = (prompt || []).filter((message) => message.role === "user");
    return questions.length ? textOf(questions[questions.length - 1].content) : "";
  }

  /** The index of the message that is judged: the last one of the assistant. -1 if there is none. */
  function findJudged(completion) {
    return (completion || []).findLastIndex((message) => message.role === "assistant");
  }

  /** The tool calls of a message, as name, arguments and id; arguments are as the model wrote them. */
  function toolCalls(message) {
    const calls = Array.isArray(message.tool_calls) ? message.tool_calls : [];
    return calls.map(toolCall).filter(Boolean);
  }

  function toolCall(entry) {
    const call = typeof entry === "string" ? parseJson(entry) : entry;
    const named = call?.function || call;
    if (typeof named?.name !== "string") return null;
    return { name: named.name, arguments: assay.format.formatValue(named.arguments ?? {}), id: String(call.id || "") };
  }

  function parseJson(text) {
    try {
      return JSON.parse(text);
    } catch {
      return null;
    }
  }

  /** A text that is JSON with each entry on a line of its own; any other text as it is. */
  function indentJson(text) {
    const value = text.length < 100000 ? parseJson(text) : null;
    return value && typeof value === "object" ? JSON.stringify(value, null, 2) : text;
  }

  assay.content = { textOf, otherParts, questionText, findJudged, toolCalls, indentJson };
})((globalThis.Assay ??= {}));
