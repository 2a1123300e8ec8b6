/* Said: text and tool calls out of messages, whatever shape they have; the same readings as `messages.py`. */
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
    const asked = (prompt || []).filter((message) => message.role === "user");
    return asked.length ? textOf(asked[asked.length - 1].content) : "";
  }

  /** The place of the message that a rollout is judged by: the last of the assistant's. -1 when there is none. */
  function judgedMessage(completion) {
    return (completion || []).findLastIndex((message) => message.role === "assistant");
  }

  /** The tool calls of a message, as name, arguments and id; arguments are as the model wrote them. */
  function toolCalls(message) {
    const calls = Array.isArray(message.tool_calls) ? message.tool_calls : [];
    return calls.map(toolCall).filter(Boolean);
  }

  function toolCall(entry) {
    const call = typeof entry === "string" ? read(entry) : entry;
    const asked = call?.function || call;
    if (typeof asked?.name !== "string") return null;
    return { name: asked.name, arguments: assay.words.plain(asked.arguments ?? {}), id: String(call.id || "") };
  }

  function read(text) {
    try {
      return JSON.parse(text);
    } catch {
      return null;
    }
  }

  /** JSON laid out over lines where a text is JSON, else the text. */
  function laidOut(text) {
    const value = text.length < 100000 ? read(text) : null;
    return value && typeof value === "object" ? JSON.stringify(value, null, 2) : text;
  }

  assay.said = { textOf, otherParts, questionText, judgedMessage, toolCalls, laidOut };
})((globalThis.Assay ??= {}));
