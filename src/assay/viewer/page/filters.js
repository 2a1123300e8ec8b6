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
  function readTerms(text) {
    return Array.from(text.matchAll(TERM), ({ groups }) => readTerm(groups));
  }

  function readTerm({ minus, name, operator, quoted, value, words, word }) {
    const negated = minus !== undefined;
    if (words !== undefined || word !== undefined) {
      if (FLAGS.includes(word)) return { name: word, operator: "has", value: "", negated };
      return { name: "text", operator: "~", value: words ?? word, negated };
    }
    return { ...readNamedTerm(name.toLowerCase(), operator, quoted ?? value), negated };
  }

  function readNamedTerm(name, operator, value) {
    if (NUMBERS.includes(name) && COMPARED.includes(operator)) {
      if (!NUMBER.test(value)) throw new FilterError(`${name} is compared with ${quoteForMessage(value)}: give a number`);
      return { name, operator: operator === ":" ? "=" : operator, value };
    }
    if (WORDS.includes(name) && ":~=".includes(operator)) {
      const isPart = operator === "~" || name === "text" || name === "error";
      return { name, operator: isPart ? "~" : ":", value };
    }
    const known = [...NUMBERS, ...WORDS];
    if (known.includes(name)) {
      const advice = NUMBERS.includes(name) ? "a number: use :, <, <=, > or >=" : "a text: use : or ~";
      throw new FilterError(`${name}${operator}${value} cannot be read: ${name} is ${advice}`);
    }
    throw new FilterError(`there is no '${name}' to filter by: ${assay.suggestWord(name, known)}`);
  }

  /** A value in quotes, as Python writes it: both sides of the page give the same messages. */
  function quoteForMessage(value) {
    const escaped = value.replaceAll("\\", "\\\\");
    return value.includes("'") ? `"${escaped}"` : `'${escaped}'`;
  }

  /** A filter over rows. `criteria` are names; `tags` gives for each tag the names that have it.

      `quick(row)` looks at the columns of the table, `slow(text)` at prompt and completion, which take longer to get at. */
  function makeFilter(text, criteria, tags) {
    const terms = readTerms(text);
    const criterionTerms = terms.filter((term) => ["criterion", "tag"].includes(term.name) && !term.negated);
    let named = criteria;
    for (const term of criterionTerms) {
      const matches = findCriteria(term, criteria, tags);
      named = named.filter((name) => matches.includes(name));
    }
    // With a verdict, `criterion:` and `verdict:` are one condition: one of the criteria has this verdict.
    const hasVerdict = terms.some((term) => term.name === "verdict" && !term.negated);
    const conditions = hasVerdict ? terms.filter((term) => !criterionTerms.includes(term)) : terms;
    const quick = [];
    const slow = [];
    for (const term of conditions) {
      if (term.name === "text") {
        slow.push(negateIf(term.negated, containsText(term.value)));
      } else {
        const names = criterionTerms.includes(term) ? named : findCriteria(term, criteria, tags);
        quick.push(negateIf(term.negated, makeCondition(term, names, named)));
      }
    }
    return {
      readsText: slow.length > 0,
      quick: (row) => quick.every((holds) => holds(row)),
      slow: (content) => slow.every((holds) => holds(content)),
    };
  }

  /** The criteria that a term names: by the whole name, or else by a part of it. */
  function findCriteria(term, criteria, tags) {
    if (term.name === "tag") return Object.hasOwn(tags, term.value) ? tags[term.value] : [];
    if (term.name !== "criterion") return criteria;
    const wanted = term.value.toLowerCase();
    const exact = criteria.filter((name) => name.toLowerCase() === wanted);
    return exact.length ? exact : criteria.filter((name) => name.toLowerCase().includes(wanted));
  }

  function negateIf(isNegated, holds) {
    return isNegated ? (row) => !holds(row) : holds;
  }

  /** Whether a row matches a term: `names` are the criteria of the term, `named` those of all terms together. */
  function makeCondition({ name, operator, value }, names, named) {
    if (operator === "has") return FLAG_CONDITIONS[name];
    if (name === "criterion" || name === "tag") return (row) => names.some((key) => row.verdicts[key] != null);
    if (name === "verdict") return (row) => named.some((key) => equalsText(row.verdicts[key], value));
    if (NUMBERS.includes(name)) return compareNumbers(name, operator, parseNumber(value));
    if (operator === "~") {
      const holds = containsText(value);
      return (row) => holds(row[name]);
    }
    return (row) => equalsText(row[name], value);
  }

  const FLAG_CONDITIONS = {
    error: (row) => Boolean(row.error),
    label: (row) => Boolean(row.labelled),
    unscored: (row) => !row.scored,
    disagreement: (row) => row.disagreement > 0,
  };

  function equalsText(actual, wanted) {
    return actual != null && String(actual).toLowerCase() === wanted.toLowerCase();
  }

  function containsText(value) {
    const wanted = value.toLowerCase();
    return (text) => text != null && String(text).toLowerCase().includes(wanted);
  }

  function parseNumber(value) {
    const text = value.trim().replaceAll("_", "").toLowerCase();
    if (/inf/.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
    return Number(text);
  }

  // A missing number is neither below, above nor equal to anything.
  function compareNumbers(name, operator, wanted) {
    const holds = {
      "<": (actual) => actual < wanted,
      "<=": (actual) => actual <= wanted,
      ">": (actual) => actual > wanted,
      ">=": (actual) => actual >= wanted,
      "=": (actual) => actual === wanted,
    }[operator];
    return (row) => row[name] != null && holds(row[name]);
  }

  /** A value as a filter takes it: in quotes where they are needed. */
  function quoteValue(value) {
    return /^[^\s"]+$/.test(value) ? value : `"${value.replaceAll('"', "")}"`;
  }

  assay.filters = { FilterError, readTerms, makeFilter, quoteValue };
})((globalThis.Assay ??= {}));
