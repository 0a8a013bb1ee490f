// Numbers for people: grouped digits, a suitable unit, three significant digits.

/** Shown for a missing value. */
export const NONE = "\u2013";

const SPACE = "\u00a0";
const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** Three significant digits: 1.23, 12.3, 123. */
function digits(value) {
  const size = Math.abs(value);
  if (size >= 99.95 || Number.isInteger(value)) return String(Math.round(value));
  return value.toFixed(size >= 9.995 ? 1 : 2);
}

/** A count in full: 1,234,567. */
export function count(value) {
  return isNumber(value) ? grouped.format(value) : NONE;
}

/** A short count: in full up to 99,999, then 123 k, 1.23 M. */
export function compact(value) {
  if (!isNumber(value)) return NONE;
  const size = Math.abs(value);
  if (size < 99_999.5) return grouped.format(value);
  for (const [unit, factor] of [["k", 1e3], ["M", 1e6], ["G", 1e9]]) {
    if (size < factor * 999.5) return digits(value / factor) + SPACE + unit;
  }
  return digits(value / 1e12) + SPACE + "T";
}

/** A number a second, without its unit: 0, 0.3, 12, 12,345, 123 k. */
export function perSecond(value) {
  if (!isNumber(value)) return NONE;
  if (value === 0) return "0";
  if (value < 0.05) return "<0.1";
  return value < 9.95 ? value.toFixed(1) : compact(Math.round(value));
}

/** The same with its unit. */
export function rate(value) {
  return isNumber(value) ? `${perSecond(value)}/s` : NONE;
}

const TIMES = [["ns", 1], ["\u00b5s", 1e3], ["ms", 1e6], ["s", 1e9]];

/** A duration in nanoseconds: 850 ns, 12.3 µs, 4.56 ms, 1.23 s, 2 min 5 s. */
export function duration(nanoseconds) {
  if (!isNumber(nanoseconds)) return NONE;
  const seconds = nanoseconds / 1e9;
  if (seconds >= 120) return clock(seconds);
  let [unit, factor] = TIMES[0];
  for (const [larger, size] of TIMES) {
    if (nanoseconds >= size * 0.9995) [unit, factor] = [larger, size];
  }
  return digits(nanoseconds / factor) + SPACE + unit;
}

/** A long duration in seconds, two units of it: 2 min 5 s, 3 h 52 min, 4 d 1 h. */
function clock(seconds) {
  const whole = Math.floor(seconds);
  const units = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => whole >= size);
  return units
    .slice(first, first + 2)
    .map(([unit, size], at) => {
      const left = at === 0 ? whole : whole % units[first][1];
      return Math.floor(left / size) + SPACE + unit;
    })
    .join(" ");
}

/** An age in nanoseconds, with few digits because it changes: 0.4 s, 12 s, 2 min 5 s. */
export function age(nanoseconds) {
  if (!isNumber(nanoseconds)) return NONE;
  const seconds = nanoseconds / 1e9;
  if (seconds >= 60) return clock(seconds);
  return (seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)) + SPACE + "s";
}

/** A size: 120 B, 16.4 KiB, 64 MiB. */
export function bytes(value) {
  if (!isNumber(value)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 999.5 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return digits(at === 0 ? Math.round(value) : value) + SPACE + units[at];
}

/** A size a second. */
export function bytesPerSecond(value) {
  return isNumber(value) ? `${bytes(value)}/s` : NONE;
}

/** A share of one: 0 %, 0.4 %, 87 %. */
export function percent(share) {
  if (!isNumber(share)) return NONE;
  const value = share * 100;
  const text = value > 0 && value < 0.95 ? value.toFixed(1) : String(Math.round(value));
  return text + SPACE + "%";
}

/** A ratio: 1.02. */
export function ratio(value) {
  return isNumber(value) ? value.toFixed(2) : NONE;
}

/** "3 more groups are not shown"; empty for 0. */
export function notShown(number, noun) {
  if (!(number > 0)) return "";
  return number === 1 ? `1 more ${noun} is not shown` : `${count(number)} more ${noun}s are not shown`;
}

/** A name in snake case as words. */
export function words(name) {
  return name.replaceAll("_", " ");
}

/** A type without the paths of its parts: `a::b::Server<c::Key>` is `Server<Key>`. */
export function shortType(path) {
  return path.replace(/(?:[A-Za-z_]\w*::)+/g, "");
}

/** A time in milliseconds since 1970 as local time: 14:03:22. */
export function wallTime(milliseconds) {
  const at = new Date(milliseconds);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}
