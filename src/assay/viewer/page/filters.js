/* Filters: what to show of a run, in a line such as `criterion:polite verdict:UNMET -task:math score<0.5`.
   The same language as `filters.py`; both are held to tests/cases/run_filters.jsonl. */
((assay) => {
  "use strict";
  const NUMBERS = ["score", "reward", "seconds", "cost", "sample"];
  const WORDS = ["example", "task", "error", "text", "criterion", "verdict", "tag"];
  const FLAGS = ["error", "label", "unscored", "disagreement"];
  const COMPARED = ["<", "<=", ">", ">=", "=", ":"];
  const TERM = new RegExp(
    "(?<minus>-)?(?:(?<name>[A-Za-z_]+)(?<operator><=|>=|[:~<>=])(?:\"(?<quoted>[^\"]*)\"?|(?<value>[^\\s\"]*))" +
      '|"(?<words>[^"]*)"?|(?<word>\\S+))',
    "g",
  );
  const NUMBER = /^\s*[+-]?(?:(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:e[+-]?\d+)?|inf(?:inity)?|nan)\s*$/i;

  /** A filter that cannot be read. */
  class FilterError extends Error {}

  /** The terms of a filter. */
  function termsOf(text) {
    return Array.from(text.matchAll(TERM), ({ groups }) => term(groups));
  }

  function term({ minus, name, operator, quoted, value, words, word }) {
    const negated = minus !== undefined;
    if (words !== undefined || word !== undefined) {
      if (FLAGS.includes(word)) return { name: word, operator: "has", value: "", negated };
      return { name: "text", operator: "~", value: words ?? word, negated };
    }
    return { ...named(name.toLowerCase(), operator, quoted ?? value), negated };
  }

  function named(name, operator, value) {
    if (NUMBERS.includes(name) && COMPARED.includes(operator)) {
      if (!NUMBER.test(value)) throw new FilterError(`${name} is compared with ${quotedText(value)}: give a number`);
      return { name, operator: operator === ":" ? "=" : operator, value };
    }
    if (WORDS.includes(name) && ":~=".includes(operator)) {
      const within = operator === "~" || name === "text" || name === "error";
      return { name, operator: within ? "~" : ":", value };
    }
    const known = [...NUMBERS, ...WORDS];
    if (known.includes(name)) {
      const advice = NUMBERS.includes(name) ? "a number: use :, <, <=, > or >=" : "a text: use : or ~";
      throw new FilterError(`${name}${operator}${value} cannot be read: ${name} is ${advice}`);
    }
    throw new FilterError(`there is no '${name}' to filter by: ${assay.meant(name, known)}`);
  }

  function quotedText(value) {
    const escaped = value.replaceAll("\\", "\\\\");
    return value.includes("'") ? `"${escaped}"` : `'${escaped}'`;
  }

  /** A filter over rows. `criteria` are names; `tags` gives for each tag the names that have it.

      `quick(row)` looks at the columns of the table, `slow(text)` at prompt and completion, which take longer to get at. */
  function filterOf(text, criteria, tags) {
    const terms = termsOf(text);
    const named = terms.filter((one) => ["criterion", "tag"].includes(one.name) && !one.negated);
    const among = named.reduce((left, one) => left.filter((name) => namesOf(one, criteria, tags).includes(name)), criteria);
    const judged = terms.some((one) => one.name === "verdict" && !one.negated);
    // `criterion:` and `verdict:` belong together: one criterion has to have the verdict.
    const looked = judged ? terms.filter((one) => !named.includes(one)) : terms;
    const slow = looked.filter((one) => one.name === "text");
    const quick = looked
      .filter((one) => one.name !== "text")
      .map((one) => signed(one, condition(one, named.includes(one) ? among : namesOf(one, criteria, tags), among)));
    const within = slow.map((one) => signed(one, contains(one.value)));
    return {
      readsText: slow.length > 0,
      quick: (row) => quick.every((holds) => holds(row)),
      slow: (whole) => within.every((holds) => holds(whole)),
    };
  }

  /** The criteria that a term names: by the whole name, else by a part of it. */
  function namesOf(one, criteria, tags) {
    if (one.name === "tag") return Object.hasOwn(tags, one.value) ? tags[one.value] : [];
    if (one.name !== "criterion") return criteria;
    const wanted = one.value.toLowerCase();
    const exact = criteria.filter((name) => name.toLowerCase() === wanted);
    return exact.length ? exact : criteria.filter((name) => name.toLowerCase().includes(wanted));
  }

  function signed(one, holds) {
    return one.negated ? (row) => !holds(row) : holds;
  }

  function condition(one, names, among) {
    const { name, operator, value } = one;
    if (operator === "has") return HAS[name];
    if (name === "criterion" || name === "tag") return (row) => names.some((key) => row.verdicts[key] != null);
    if (name === "verdict") return (row) => among.some((key) => same(row.verdicts[key], value));
    if (NUMBERS.includes(name)) return compared(name, operator, numberOf(value));
    if (operator === "~") return ((holds) => (row) => holds(row[name]))(contains(value));
    return (row) => same(row[name], value);
  }

  const HAS = {
    error: (row) => Boolean(row.error),
    label: (row) => Boolean(row.labelled),
    unscored: (row) => !row.scored,
    disagreement: (row) => row.disagreement > 0,
  };

  function same(here, wanted) {
    return here != null && String(here).toLowerCase() === wanted.toLowerCase();
  }

  function contains(value) {
    const wanted = value.toLowerCase();
    return (text) => text != null && String(text).toLowerCase().includes(wanted);
  }

  function numberOf(value) {
    const text = value.trim().replaceAll("_", "").toLowerCase();
    if (/inf/.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
    return Number(text);
  }

  // A row without the number is on no side of it.
  function compared(name, operator, wanted) {
    const holds = {
      "<": (here) => here < wanted,
      "<=": (here) => here <= wanted,
      ">": (here) => here > wanted,
      ">=": (here) => here >= wanted,
      "=": (here) => here === wanted,
    }[operator];
    return (row) => row[name] != null && holds(row[name]);
  }

  /** A value as a filter takes it: in quotes when it has to be. */
  function quoted(value) {
    return /^[^\s"]+$/.test(value) ? value : `"${value.replaceAll('"', "")}"`;
  }

  assay.filters = { FilterError, termsOf, filterOf, quoted };
})((globalThis.Assay ??= {}));
