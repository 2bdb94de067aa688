// What would become of a request, limit by limit. Nothing is charged.

import { post } from "./api.js";
import { card, h, put, table, tag } from "./dom.js";
import { count, span } from "./words.js";

const FIELDS = [
  ["ip", "Address", { required: true, placeholder: "203.0.113.7" }],
  ["method", "Method", { value: "GET" }],
  ["path", "Path", { value: "/", required: true }],
  ["host", "Host", {}],
  ["tenant", "Tenant", {}],
  ["tier", "Tier", {}],
  ["user", "User", {}],
  ["cost", "Cost", { inputmode: "numeric", pattern: "[0-9]*" }],
];

function told(about) {
  const passes = about.refused === null && about.passesAfterMs === 0;
  const columns = [
    ["Layer", (one) => one.layer, "tight"],
    ["Limit", (one) => [h("code", {}, one.limit), !one.enforced && [" ", tag("only observed", "note")], one.grace && [" ", tag("grace", "note")]]],
    ["Rate", (one) => one.rate, "tight"],
    ["Left before", (one) => count(one.before), "num"],
    ["Cost", (one) => count(one.cost), "num"],
    ["Left after", (one) => count(one.after), "num"],
    ["Passes", (one) => (one.retryAfterMs === 0 ? tag("yes", "good") : tag(one.retryAfterMs === null ? "never" : `in ${span(one.retryAfterMs)}`, "bad"))],
    ["Known by", (one) => one.source, "tight"],
  ];
  const wait = about.passesAfterMs === null ? "No wait would help." : about.passesAfterMs > 0 ? `It would pass in ${span(about.passesAfterMs)}.` : "";
  return [
    card(null, h("h2", {}, "It ", passes ? tag("passes", "good") : tag(`is refused: ${about.refused ?? "rate limited"}`, "bad")), h("p", {}, wait), about.exempt && h("p", {}, "It is on an allow list: no limit applies."), about.held.length > 0 && h("p", {}, "Held against it: ", about.held.map((one) => [h("a", { class: "mono subject", href: `#/subjects/${encodeURIComponent(one)}` }, one), " "])), h("p", { class: "soft" }, about.routes.length > 0 ? `Routes: ${about.routes.join(", ")}` : "No route of the policy is for it.")),
    card("Limits that apply", table(columns, about.considered, { empty: "None.", label: "Limits that apply" })),
    about.skipped.length > 0 && card("Limits that do not", table([["Limit", (one) => h("code", {}, one.limit)], ["Why", (one) => one.why ?? one.reason ?? ""]], about.skipped, { label: "Limits that do not apply" })),
  ];
}

export function explain(root) {
  const place = h("div", { class: "grid", "aria-live": "polite" });
  const submit = async (event) => {
    event.preventDefault();
    const filled = Object.fromEntries([...new FormData(event.target)].filter(([, value]) => value !== ""));
    if (filled.cost) filled.cost = Number(filled.cost);
    try {
      put(place, told(await post("explain", filled)));
    } catch (error) {
      put(place, card(null, h("p", { class: "wrong", role: "alert" }, error.message)));
    }
  };
  const fields = FIELDS.map(([name, label, more]) => h("label", {}, label, h("input", { name, ...more, autocomplete: "off", spellcheck: "false" })));
  put(root, card(null, h("h1", {}, "Explain a request"), h("p", { class: "soft" }, "Every limit that has a part in it, what is left of each, and when it would pass. Nothing is charged."), h("form", { class: "form", onsubmit: submit }, fields, h("button", { class: "main", type: "submit" }, "Explain"))), place);
  return () => {};
}
