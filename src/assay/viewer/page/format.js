/* Format: numbers, amounts and times as people read them. */
((assay) => {
  "use strict";
  const MISSING = "–";

  function isNumber(value) {
    return typeof value === "number" && Number.isFinite(value);
  }

  /** A whole number with its thousands apart. */
  function formatNumber(value) {
    return isNumber(value) ? value.toLocaleString("en-GB") : MISSING;
  }

  /** A large number in few digits. */
  function formatLarge(value) {
    return value >= 1e6 ? `${(value / 1e6).toPrecision(3)} M` : formatNumber(value);
  }

  /** A score: three places, a dash when it is missing. Missing is never zero. */
  function formatScore(value) {
    if (!isNumber(value)) return MISSING;
    return Math.abs(value) >= 1000 ? formatNumber(Math.round(value)) : value.toFixed(3);
  }

  /** A difference with its sign. */
  function formatDifference(value) {
    if (!isNumber(value)) return MISSING;
    return `${value > 0 ? "+" : value < 0 ? "−" : "±"}${Math.abs(value).toFixed(3)}`;
  }

  function formatPercent(share) {
    if (!isNumber(share)) return MISSING;
    const whole = share * 100;
    return `${whole > 0 && whole < 1 ? whole.toFixed(1) : Math.round(whole)} %`;
  }

  function formatInterval(low, high) {
    return isNumber(low) && isNumber(high) ? `${formatScore(low)} to ${formatScore(high)}` : "";
  }

  function formatDollars(value) {
    if (!isNumber(value)) return MISSING;
    if (value === 0) return "$0";
    return value < 1 ? `$${Number(value.toPrecision(2))}` : `$${value.toLocaleString("en-GB", places(2))}`;
  }

  function places(digits) {
    return { minimumFractionDigits: digits, maximumFractionDigits: digits };
  }

  function formatDuration(value) {
    if (!isNumber(value)) return MISSING;
    if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
    if (value < 1) return `${Math.round(value * 1000)} ms`;
    if (value < 120) return `${value.toFixed(1)} s`;
    return value < 7200 ? `${(value / 60).toFixed(1)} min` : `${(value / 3600).toFixed(1)} h`;
  }

  /** Characters of a text, in thousands or millions when there are many. */
  function formatSize(characters) {
    if (characters >= 1e6) return `${(characters / 1e6).toFixed(1)} million characters`;
    return formatCount(characters, "character");
  }

  /** `formatCount(3, "row")` is "3 rows". */
  function formatCount(number, word, many) {
    return `${formatNumber(number)} ${number === 1 ? word : many || `${word}s`}`;
  }

  function formatP(p) {
    if (!isNumber(p)) return MISSING;
    return p < 0.001 ? "< 0.001" : p.toFixed(3);
  }

  function formatTime(text) {
    const when = new Date(text);
    if (!text || Number.isNaN(when.getTime())) return String(text || "");
    return when.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  }

  /** JSON with two spaces, and a text as it is. */
  function formatValue(value) {
    return typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
  }

  assay.format = {
    MISSING, isNumber, formatNumber, formatLarge, formatScore, formatDifference, formatPercent, formatInterval, formatDollars,
    formatDuration, formatSize, formatCount, formatP, formatTime, formatValue,
  };
})((globalThis.Assay ??= {}));
