// Who changed what.

import { card, h, put, table } from "./dom.js";
import { pages } from "./sanctions.js";
import { moment } from "./words.js";

const COLUMNS = [
  ["When", (one) => h("span", { title: moment(one.at)[1] }, moment(one.at)[0]), "tight"],
  ["Who", (one) => one.by, "tight"],
  ["What", (one) => one.action, "tight"],
  ["Of", (one) => h("span", { class: "mono subject" }, one.target)],
  ["Before", (one) => one.before],
  ["After", (one) => one.after],
];

export function audit(root) {
  const place = h("div", {});
  put(root, card(null, h("h1", {}, "Audit log"), place));
  pages(place, "audit?order=newest", (items) => table(COLUMNS, items, { empty: "Nobody has changed anything yet.", label: "Audit log" }));
  return () => {};
}
