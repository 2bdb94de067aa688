// Rates as people write them: "100/min", "5 per 15min", "50MB/day", "100/day burst 10". Reads what threshold-core reads.

const DECIMAL = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };
const BINARY = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };
const SIZES = { ...DECIMAL, ...BINARY };

const PERIODS = [
  [1, "us microsecond microseconds"],
  [1e3, "ms millisecond milliseconds"],
  [1e6, "s sec secs second seconds"],
  [60e6, "m min mins minute minutes"],
  [3600e6, "h hr hour hours"],
  [86_400e6, "d day days"],
  [604_800e6, "w week weeks"],
];
const LENGTHS = new Map(PERIODS.flatMap(([length, names]) => names.split(" ").map((name) => [name, length])));

// The largest count, and the longest period, that every store counts exactly.
export const LARGEST_COUNT = 2 ** 52 - 1;
export const LONGEST = 2 ** 48 - 1;

const FORM = /^\s*([\d_]+)\s*([A-Za-z]+)?\s*(?:\/|\bper\b)\s*([\d_]+)?\s*([a-z]+)\s*(?:burst\s+([\d_]+)\s*([A-Za-z]+)?\s*)?$/;
const EXAMPLE = 'write a rate such as "100/min", "5 per 15min", "50MB/day" or "100/day burst 10"';

function wrong(text, what) {
  return new Error(`rate ${JSON.stringify(text)}: ${what}`);
}

function number(text) {
  return Number(text.replaceAll("_", ""));
}

function amount(text, digits, unit) {
  const size = unit === undefined ? 1 : SIZES[unit];
  if (size === undefined) throw wrong(text, `unknown unit ${JSON.stringify(unit)}; for bytes write kB, MB, GB or KiB, MiB, GiB`);
  const count = number(digits) * size;
  if (!(count >= 1 && count <= LARGEST_COUNT)) throw wrong(text, `a count is at least 1 and at most ${LARGEST_COUNT}`);
  return count;
}

export function readRate(text) {
  if (typeof text !== "string") throw wrong(text ?? null, EXAMPLE);
  // "5 per 15min": the word is no unit of bytes.
  const parts = FORM.exec(text.replace(/^(\s*[\d_]+)\s*per(?![a-zA-Z])/, "$1/"));
  if (!parts) throw wrong(text, EXAMPLE);
  const [, digits, unit, times, name, burstDigits, burstUnit] = parts;
  const length = LENGTHS.get(name);
  if (length === undefined) throw wrong(text, `unknown period ${JSON.stringify(name)}; write us, ms, s, min, hour, day or week`);
  const period = (times === undefined ? 1 : number(times)) * length;
  if (!(period >= 1 && period <= LONGEST)) throw wrong(text, "a period is at least 1us and at most 3257 days");
  const count = amount(text, digits, unit);
  const burst = burstDigits === undefined ? null : amount(text, burstDigits, burstUnit);
  if (burst !== null && (unit === undefined) !== (burstUnit === undefined)) {
    throw wrong(text, "count and burst are both in bytes or both not");
  }
  return { text: text.trim(), count, period, burst, unit: unit === undefined ? "requests" : "bytes" };
}
