// Charts of the latest seconds.

import { h, put, s } from "./dom.js";
import { count, time } from "./words.js";

/** As many seconds as there are, but for the first and the last. */
const [FEWEST, MOST] = [60, 300];
const [WIDTH, LEFT, BOTTOM, TOP] = [800, 44, 22, 8];
const [LARGE, SMALL] = [220, 130];

/** A round number not below `most`, for the top of an axis. */
function ceiling(most) {
  if (most <= 4) return 4;
  const size = 10 ** Math.floor(Math.log10(most));
  return [1, 1.2, 1.6, 2, 3, 4, 6, 8, 10].map((step) => step * size).find((step) => step >= most);
}

/** The area of one kind, over those below it. */
function area(samples, x, y, below, value) {
  const up = samples.map((sample, at) => `${x(sample.at)},${y(below[at] + value(sample))}`);
  const down = samples.map((sample, at) => `${x(sample.at)},${y(below[at])}`).reverse();
  return `M${up.join("L")}L${down.join("L")}Z`;
}

/** Stretches of samples that follow each other without a gap. */
function stretches(samples) {
  const all = [];
  for (const sample of samples) {
    const last = all.at(-1);
    if (last && sample.at - last.at(-1).at <= 2) last.push(sample);
    else all.push([sample]);
  }
  return all;
}

/** A chart of what `kinds` name: [[field's reader, class, word], …], stacked from the bottom. */
export function stacked(title, kinds, { small = false } = {}) {
  const height = small ? SMALL : LARGE;
  const keys = kinds.map(([, , word]) => [word, h("b", {}, "0")]);
  const legend = h("ul", { class: "legend" }, kinds.map(([, kind, word], at) => h("li", {}, h("span", { class: `key c-${kind}` }), `${word} `, keys[at][1])));
  const picture = s("svg", { class: small ? "chart small" : "chart", viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": title });
  const element = h(small ? "div" : "section", { class: small ? "" : "card" }, h("div", { class: "row apart" }, h(small ? "h3" : "h2", {}, title), !small && h("span", { class: "soft" }, "per second")), legend, picture);
  let drawn = null;
  const draw = (samples) => {
    const latest = samples.at(-1);
    if (!latest || latest === drawn) return;
    drawn = latest;
    const now = latest.at;
    const seconds = Math.min(MOST, Math.max(FEWEST, now - samples[0].at));
    const seen = samples.filter((sample) => sample.at >= now - seconds);
    const sum = (sample) => kinds.reduce((all, [value]) => all + value(sample), 0);
    const most = ceiling(Math.max(...seen.map(sum)));
    // The picture is as wide as its place, so that letters are not stretched.
    const wide = Math.max(small ? 180 : 280, picture.clientWidth || WIDTH);
    picture.setAttribute("viewBox", `0 0 ${wide} ${height}`);
    const x = (at) => (LEFT + ((at - now + seconds) / seconds) * (wide - LEFT)).toFixed(1);
    const y = (value) => (TOP + (1 - value / most) * (height - TOP - BOTTOM)).toFixed(1);
    const shapes = stretches(seen).map((stretch) => {
      const some = stretch.length === 1 ? [stretch[0], { ...stretch[0], at: stretch[0].at + 0.6 }] : stretch;
      const below = some.map(() => 0);
      return kinds.map(([value, kind]) => {
        const path = s("path", { class: `c-${kind}`, d: area(some, x, y, below, value), "fill-opacity": 0.82 });
        some.forEach((sample, at) => (below[at] += value(sample)));
        return path;
      });
    });
    const rules = [0, 0.5, 1].map((part) => [
      s("line", { class: "rule", x1: LEFT, x2: wide, y1: y(most * part), y2: y(most * part) }),
      s("text", { x: LEFT - 6, y: Number(y(most * part)) + 4, "text-anchor": "end" }, count(most * part)),
    ]);
    const step = [15, 30, 60, 120].find((some) => (some / seconds) * (wide - LEFT) > 70) ?? 120;
    const times = [];
    for (let back = 0; back < seconds - step / 4; back += step) {
      const words = back === 0 ? time(now * 1000) : back % 60 === 0 ? `−${back / 60} min` : `−${back} s`;
      times.push(s("text", { x: x(now - back), y: height - 5, "text-anchor": back === 0 ? "end" : "middle" }, words));
    }
    put(picture, rules, shapes, times);
    kinds.forEach(([value], at) => (keys[at][1].textContent = count(value(latest))));
    picture.setAttribute("aria-label", `${title}, per second, at ${time(now * 1000)}: ${kinds.map(([value, , word]) => `${word} ${count(value(latest))}`).join(", ")}`);
  };
  return { element, draw };
}

/** What became of a subject, on a line of time: dots for violations, bars for sanctions. */
export function timeline(since, violations, sanctions) {
  const [wide, from, to] = [900, new Date(since).getTime(), Date.now()];
  const x = (at) => 8 + Math.min(1, Math.max(0, (new Date(at).getTime() - from) / (to - from))) * (wide - 16);
  const bars = sanctions.map((one) => {
    const end = Math.min(to, new Date(one.liftedAt ?? one.until).getTime());
    const width = Math.max(4, x(end) - x(one.from));
    return s("rect", { class: one.kind === "ban" ? "c-banned" : "c-delayed", x: x(one.from), y: 14, width, height: 12, rx: 3 }, s("title", {}, `${one.kind}: ${one.reason}, ${time(one.from)}`));
  });
  const dots = violations.map((one) => s("circle", { class: "c-denied", cx: x(one.at), cy: 50, r: 5, "fill-opacity": 0.7 }, s("title", {}, `${one.limit}, ${time(one.at)}`)));
  const text = (at, words, anchor) => s("text", { x: at, y: 84, "text-anchor": anchor }, words);
  const label = `${violations.length} violations and ${sanctions.length} sanctions since ${new Date(since).toLocaleString()}`;
  return s(
    "svg",
    { class: "timeline", viewBox: `0 0 ${wide} 92`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("line", { class: "rule", x1: 8, x2: wide - 8, y1: 66, y2: 66, stroke: "var(--line)" }),
    bars,
    dots,
    text(8, new Date(since).toLocaleString(), "start"),
    text(wide - 8, "now", "end"),
  );
}
