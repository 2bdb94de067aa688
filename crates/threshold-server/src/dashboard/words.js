// Numbers and times as people read them.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });

export const time = (at) => clock.format(new Date(at));

/** A number, short enough for a tile. */
export function count(number) {
  if (number >= 1e9) return `${(number / 1e9).toFixed(1)} G`;
  if (number >= 1e6) return `${(number / 1e6).toFixed(1)} M`;
  if (number >= 1e4) return `${(number / 1e3).toFixed(1)} k`;
  if (number < 10) return number.toFixed(1).replace(".0", "");
  return Math.round(number).toLocaleString("en");
}

export function share(part, whole) {
  if (!(whole > 0)) return "0 %";
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 0.1) return "< 0.1 %";
  return `${percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? number : number.toFixed(1)} ${units[unit]}`;
}

/** A span in milliseconds. */
export function span(ms) {
  const all = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]];
  const parts = [];
  let left = Math.max(0, ms);
  for (const [unit, size] of all) {
    const some = Math.floor(left / size);
    if (some > 0 && parts.length < 2) parts.push(`${some} ${unit}`);
    left -= some * size;
  }
  return parts.join(" ") || (ms > 0 ? `${Math.ceil(ms)} ms` : "now");
}

/** A moment, and how far away it is. */
export function moment(at) {
  const away = new Date(at) - Date.now();
  const far = away >= 0 ? `in ${span(away)}` : `${span(-away)} ago`;
  return [date.format(new Date(at)), far];
}
