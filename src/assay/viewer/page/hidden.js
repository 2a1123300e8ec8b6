/* Hidden characters: those that cannot be seen are made visible, and those that reorder text harmless. */
((assay) => {
  "use strict";
  // Direction marks and overrides: these reorder what stands around them, so they are shown in every view.
  const REORDERING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;
  // The rest that has no shape: controls but for tab and newline, zero-width characters, soft hyphens,
  // odd spaces, variation selectors and tags.
  const SHAPELESS =
    /[\0-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e0fff}]/u;
  const NAMES = {
    "\u200b": "ZWSP", "\u200c": "ZWNJ", "\u200d": "ZWJ", "\u200e": "LRM", "\u200f": "RLM", "\u202a": "LRE",
    "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO", "\u202e": "RLO", "\u2066": "LRI", "\u2067": "RLI",
    "\u2068": "FSI", "\u2069": "PDI", "\ufeff": "BOM", "\xad": "SHY", "\xa0": "NBSP", "\r": "CR", "\x1b": "ESC",
    "\0": "NUL", "\u2028": "LS", "\u2029": "PS",
  };
  const reordering = new RegExp(REORDERING.source, "gu");
  const shapeless = new RegExp(SHAPELESS.source, "gu");

  /** The name of a character that has no shape. */
  function nameOf(character) {
    return NAMES[character] || `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
  }

  /** A text in pieces: strings, and a badge for each hidden character. `all` shows also those that do no harm. */
  function withBadges(text, all = false) {
    if (!(all ? SHAPELESS : REORDERING).test(text)) return [text];
    const pieces = [];
    let start = 0;
    for (const match of text.matchAll(all ? shapeless : reordering)) {
      pieces.push(text.slice(start, match.index), makeBadge(match[0]));
      start = match.index + match[0].length;
    }
    return [...pieces, text.slice(start)];
  }

  function makeBadge(character) {
    const name = nameOf(character);
    const badge = document.createElement("span");
    badge.className = "hidden-character";
    badge.textContent = name;
    badge.title = `hidden character ${name}`;
    return badge;
  }

  /** How many characters of a text have no shape; no-break spaces and line ends are too usual to count. */
  function countIn(text) {
    return (text.match(shapeless) || []).filter((c) => c !== "\xa0" && c !== "\r" && !isEmojiPart(c)).length;
  }

  function isEmojiPart(character) {
    return character === "\u200d" || character === "\ufe0f";
  }

  assay.hidden = { withBadges, countIn, nameOf };
})((globalThis.Assay ??= {}));
