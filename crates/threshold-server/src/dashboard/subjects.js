// In a minute: why a client was refused.

import { get, named, post } from "./api.js";
import { timeline } from "./chart.js";
import { card, confirm, h, holding, put, table, tag, toast } from "./dom.js";
import { whenBack } from "./link.js";
import { imposing, list } from "./sanctions.js";
import { count, moment } from "./words.js";

const WINDOWS = ["24h", "7d", "30d"];
const RISKS = { LOW: "good", MEDIUM: "note", HIGH: "bad", CRITICAL: "bad" };

const at = (moment_) => (moment_ ? moment(moment_).join(", ") : "never");

function standing(one) {
  const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];
  return h(
    "dl",
    { class: "facts" },
    fact("Subject", h("span", { class: "mono" }, one.subject)),
    fact("Now", one.sanctions.length === 0 ? tag("passes", "good") : one.sanctions.map((each) => [tag(each.kind, "bad"), " "])),
    fact("Strikes", one.strikes),
    fact("Violations", one.violations),
    one.reputationScore !== null && fact("Reputation", [one.reputationScore, " ", one.riskLevel && tag(`${one.riskLevel} risk`, RISKS[one.riskLevel] ?? "")]),
    fact("First seen", at(one.firstSeen)),
    fact("Last violation", at(one.lastViolation)),
  );
}

const violations = (items) =>
  table(
    [
      ["When", (one) => h("span", { title: moment(one.at)[0] }, moment(one.at)[1]), "tight"],
      ["Limit", (one) => h("code", {}, one.limit)],
      ["What", (one) => one.kind.replaceAll("_", " ")],
      ["Asked", (one) => `${count(one.count)} of ${count(one.allowed)}`, "tight"],
      ["With", (one) => [one.userAgent, one.country && ` (${one.country})`]],
    ],
    items,
    { empty: "No violation is written down.", label: "Violations" },
  );

function usage(rows) {
  if (!rows) return h("p", { class: "empty" }, "There is no archive. With ", h("code", {}, "--archive FOLDER"), " the server keeps how much clients use.");
  const columns = Object.keys(rows[0] ?? {}).map((key) => [key.replaceAll("_", " "), (row) => row[key], typeof rows[0][key] === "number" ? "num" : ""]);
  return table(columns, rows, { empty: "Nothing was used in that time.", label: "Usage" });
}

async function show(place, client, may, frame) {
  const back = holding(place);
  put(place, h("p", { class: "soft" }, "Looking…"));
  const again = () => show(place, client, may, frame);
  try {
    const about = await get(`client-analytics/${named(client)}?window=${frame}`);
    const all = (await Promise.all(about.subjects.map((one) => get(`sanctions?client=${named(one)}&active=false`)))).flatMap((page) => page.items);
    const reset = async () => {
      if (!(await confirm("Have this client begin anew?", { text: "Limits that count it alone start full again.", action: "Reset its counters" }))) return;
      await post("reset-limits", { clientId: client }).then(() => toast("Its counters begin anew."), (error) => toast(error.message, true));
    };
    put(
      place,
      h("div", { class: "grid two" }, about.standing.map((one) => card("Standing", standing(one), may.operate && h("div", { class: "row" }, h("button", { onclick: reset }, "Reset its counters"))))),
      card("Timeline", timeline(about.since, about.violations, all)),
      card("Sanctions", list(all, may, again)),
      card("Violations", violations(about.violations.toReversed()), about.olderViolations > 0 && h("p", { class: "soft" }, `${count(about.olderViolations)} older ones are not shown.`)),
      card("Usage", usage(about.usage)),
      may.operate && card("Keep it out", imposing(client, again)),
    );
  } catch (error) {
    put(place, card(null, h("p", { class: "wrong", role: "alert" }, error.message)));
    if (error.passing) whenBack(place, again);
  }
  back();
}

export function subjects(root, may, client) {
  const place = h("div", { class: "grid", "aria-live": "polite" });
  const field = h("input", { name: "client", value: client ?? "", required: true, "aria-label": "Client", placeholder: "203.0.113.7, acme/alice, tenant:acme, or a subject as lists show it", spellcheck: "false", autocomplete: "off" });
  const frame = h("select", { "aria-label": "How far back" }, WINDOWS.map((one) => h("option", { value: one }, one)));
  const search = (event) => {
    event.preventDefault();
    const to = `#/subjects/${named(field.value.trim())}`;
    if (location.hash === to) show(place, field.value.trim(), may, frame.value);
    else location.hash = to;
  };
  frame.addEventListener("change", () => client && show(place, client, may, frame.value));
  put(
    root,
    card(null, h("h1", {}, "Subjects"), h("p", { class: "soft" }, "Addresses and names are hashed when they arrive, and written down nowhere."), h("form", { class: "search", role: "search", onsubmit: search }, field, h("div", {}, frame), h("button", { class: "main", type: "submit" }, "Look"))),
    place,
  );
  if (client) show(place, client, may, frame.value);
  else field.focus();
  return () => {};
}
