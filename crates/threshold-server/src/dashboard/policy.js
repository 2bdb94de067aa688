// What the policy promises, what another would change, and the way to put it in force.

import { get, post } from "./api.js";
import { card, confirm, h, put, table, tag, toast } from "./dom.js";
import { whenBack } from "./link.js";
import { count, share, span } from "./words.js";

const limits = (report) =>
  table(
    [
      ["Layer", (one) => one.layer, "tight"],
      ["Limit", (one) => h("code", {}, one.id), "tight"],
      ["For", (one) => `${one.subject}, ${one.requests}`],
      ["Rate", (one) => [one.rate, one.tier && ` (${one.tier})`], "tight"],
      ["Promise", (one) => [one.normal, one.notes.map((note) => h("div", { class: "soft" }, note))]],
      ["While the store fails", (one) => one.storeFailure],
    ],
    report.limits,
    { empty: "It has no limits.", label: "Limits and what they promise" },
  );

function findings(report) {
  const place = (one) => (one.line ? `line ${one.line}: ` : "");
  const found = [...report.problems.map((one) => ({ severity: "error", ...one })), ...report.findings];
  if (found.length === 0) return h("p", { class: "empty" }, "Nothing looks wrong.");
  return h("ul", { class: "problems" }, found.map((one) => h("li", { class: one.severity }, h("strong", {}, one.severity), ` ${place(one)}${one.what ?? one.message ?? ""}`, h("div", { class: "soft" }, one.remedy ?? ""))));
}

const remarks = (report) => report.remarks.length > 0 && h("ul", {}, report.remarks.map((one) => h("li", {}, one)));

/** What recent requests would have met. */
function difference(told) {
  const outcomes = ["allowed", "warned", "slowed", "denied"];
  const rows = outcomes.map((name) => ({ name, now: told.current[name], then: told.proposed[name] }));
  const change = (one) => (one.then === one.now ? "–" : `${one.then > one.now ? "+" : "−"}${count(Math.abs(one.then - one.now))}`);
  const subjects = (title, list) => list && h("div", {}, h("h3", {}, `${title}: ${count(list.requests)} requests of ${count(list.subjects)} subjects`), table([["Whom", (one) => h("span", { class: "mono subject" }, one.subject)], ["Requests", (one) => count(one.requests), "num"]], list.top ?? [], { empty: "Nobody.", label: title }));
  return [
    h("p", {}, told.requests === 0 ? "Nothing was asked of late." : `${count(told.requests)} requests of ${span(new Date(told.to) - new Date(told.from))} were judged by both policies${told.oneClientIn > 1 ? `; they are those of one client in ${told.oneClientIn}` : ""}.`),
    table([["", (one) => one.name], ["In force", (one) => `${count(one.now)} (${share(one.now, told.requests)})`, "num"], ["This one", (one) => `${count(one.then)} (${share(one.then, told.requests)})`, "num"], ["Change", change, "num"]], rows, { label: "Outcomes under both policies" }),
    h("div", { class: "grid two" }, subjects("Newly denied", told.newlyDenied), subjects("Newly allowed", told.newlyAllowed)),
    h("ul", { class: "soft" }, told.notes.map((note) => h("li", {}, note))),
  ];
}

function editor(current, place, again) {
  const text = h("textarea", { "aria-label": "Policy", spellcheck: "false", value: current.text ?? "" });
  const doing = (work) => async () => {
    put(place, h("p", { class: "soft" }, "Looking…"));
    try {
      put(place, await work(text.value));
    } catch (error) {
      put(place, card(null, h("p", { class: "wrong", role: "alert" }, error.message)));
    }
  };
  const report = (told) => card(told.ok ? "It can be put in force" : "It cannot be put in force", findings(told), told.ok && limits(told));
  const validate = async (policy) => report(await post("policy/validate", { policy }));
  const dryRun = async (policy) => card("Against recent traffic", difference(await post("policy/dry-run", { policy })));
  const apply = async (policy) => {
    const sure = await confirm("Put this policy in force?", { text: `It is written to ${current.file} and counts from the next request on. Counters of limits that stay are kept.`, action: "Put it in force" });
    if (!sure) return null;
    const told = await post("policy/apply", { policy, base: current.version });
    // Only once the page shows it: the text would be exchanged under the hands of who types on.
    await again();
    toast(told.changed ? "The policy is in force." : "That policy was in force already.");
    return report(told.report);
  };
  const back = async () => {
    const sure = await confirm("Go back to the policy before?", { text: "What was changed last is undone.", action: "Go back" });
    if (!sure) return null;
    await post("policy/rollback", { base: current.version });
    await again();
    toast("The policy before is in force again.");
    return null;
  };
  const button = (words, work, more) => h("button", { onclick: doing(work), ...more }, words);
  return card("Change it", text, h("div", { class: "row" }, button("Check", validate), button("Dry run", dryRun), button("Put in force", apply, { class: "main", disabled: current.file === null }), current.canRollBack && button("Go back", back, { class: "danger" })), current.file === null && h("p", { class: "soft" }, "This is the demonstration's policy, which has no file: start the server with ", h("code", {}, "--config policy.toml"), " to change it from here."));
}

export function policy(root, may) {
  const result = h("div", { class: "grid", "aria-live": "polite" });
  const show = async () => {
    try {
      const current = await get("policy");
      put(root, card(null, h("h1", {}, "Policy"), h("p", { class: "soft" }, current.file ? ["From ", h("code", {}, current.file)] : "The demonstration's"), limits(current.report), remarks(current.report)), current.report.findings.length > 0 && card("What is worth a look", findings(current.report)), may.admin ? editor(current, result, show) : h("p", { class: "soft" }, "To see its text and to change it takes a token of the scope ", tag("admin"), "."), result);
    } catch (error) {
      put(root, card(null, h("p", { class: "wrong", role: "alert" }, error.message)));
      if (error.passing) whenBack(root, show);
    }
  };
  show();
  return () => {};
}
