// How the parts are, and what an operator can have them do.

import { post, put as change } from "./api.js";
import { card, confirm, h, put, table, tag, toast } from "./dom.js";
import { follow } from "./link.js";
import { bytes, count } from "./words.js";

const STRATEGIES = ["full", "store-only", "cache-only", "memory-only"];
const STATES = { healthy: "good", failing: "bad" };

async function tried(doing, done) {
  try {
    const told = await doing();
    toast(typeof done === "function" ? done(told) : done);
    return true;
  } catch (error) {
    toast(error.message, true);
    return false;
  }
}

function components(status, may) {
  const recover = (component) => tried(() => post("force-recovery", { component }), `The ${component} is tried again.`);
  const rows = Object.entries(status.components).map(([name, one]) => ({ name, ...one }));
  return table(
    [
      ["Part", (one) => one.name],
      ["State", (one) => (one.status === "none" ? h("span", { class: "soft" }, "not used") : tag(one.status, STATES[one.status]))],
      ["Latest answer", (one) => (one.latency === null ? "–" : `${one.latency.toFixed(2)} ms`), "num"],
      ["Failures", (one) => count(one.failures), "num"],
      ["", (one) => may.operate && one.status === "failing" && h("button", { onclick: () => recover(one.name) }, "Try again now"), "tight"],
    ],
    rows,
    { label: "Parts" },
  );
}

function strategy(status, may) {
  const pin = async (event) => {
    const wanted = event.target.value || null;
    const text = wanted ? `Decisions are made by ${wanted}, whatever else there is.` : "The server chooses by what answers.";
    const changed = (await confirm("Change the strategy?", { text, action: "Change it" })) && (await tried(() => change("strategy", { strategy: wanted }), "The strategy is changed."));
    // It shows what is, and not what somebody thought of.
    if (!changed) event.target.value = status.pinnedStrategy ?? "";
  };
  const options = [["", "by itself"], ...STRATEGIES.map((one) => [one, one])];
  const chosen = options.map(([value, words]) => h("option", { value, selected: value === (status.pinnedStrategy ?? "") }, words));
  return [h("p", {}, "Decisions are made by ", tag(status.currentStrategy, status.currentStrategy === "full" ? "good" : "note"), "."), may.operate && h("label", {}, "Pinned to", h("select", { onchange: pin }, chosen))];
}

function memory({ memoryStore, standings }) {
  const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];
  return h("dl", { class: "facts" }, fact("Keys", `${count(memoryStore.entries)} of at most ${count(memoryStore.maxEntries)}`), fact("Memory", `${bytes(memoryStore.bytes)} of ${bytes(memoryStore.maxBytes)}`), fact("Subjects held", `${count(standings.subjects)}${standings.notKept > 0 ? `, ${count(standings.notKept)} found no room` : ""}`));
}

export function health(root, may) {
  const maintain = () => tried(() => post("maintenance", {}), (told) => `Done: ${Object.entries(told).filter(([, value]) => typeof value === "number").map(([key, value]) => `${key} ${value}`).join(", ") || "nothing was left to do"}.`);
  const place = h("div", { class: "grid" });
  put(root, h("h1", {}, "Health"), place);
  let shown = "";
  return follow(({ status }) => {
    const next = JSON.stringify(status);
    if (!status || next === shown || document.querySelector("dialog") || root.contains(document.activeElement?.closest("select"))) return;
    shown = next;
    put(place, card("Parts", components(status, may)), h("div", { class: "grid two" }, card("Strategy", strategy(status, may)), card("Memory", memory(status))), may.operate && card("Maintenance", h("p", { class: "soft" }, "Forgets what is over and writes what waits for the archive. It happens by itself, too."), h("button", { onclick: maintain }, "Do it now")));
  });
}
