// In ten seconds: whether all is well.

import { listen } from "./api.js";
import { stacked } from "./chart.js";
import { card, h, put } from "./dom.js";
import { follow } from "./link.js";
import { lines } from "./told.js";
import { count, share, time } from "./words.js";

const LAYERS = ["edge", "tenant", "user", "endpoint"];
/** The seconds that tiles speak of. */
const RECENT = 10;
const FEED = 100;

const recent = (samples, value) => {
  const last = samples.slice(-RECENT);
  return last.length === 0 ? 0 : last.reduce((all, sample) => all + value(sample), 0) / last.length;
};
/** The kinds of a chart of what came of requests, as `of` finds that in a sample. */
const outcomes = (of) => [["allowed"], ["warned"], ["delayed", "slowed"], ["denied"]].map(([name, word = name]) => [(sample) => of(sample)[name], name, word]);
const all = (sample) => sample.allowed + sample.warned + sample.delayed + sample.denied;

/** What is not as it should be: [how bad, words]. */
function troubles({ latest, status, samples }) {
  const found = [];
  for (const [name, component] of Object.entries(status?.components ?? {})) {
    if (component.status === "failing") found.push(["bad", `The ${name} fails; it has failed ${count(component.failures)} times.`]);
  }
  if (status?.pinnedStrategy) found.push(["note", `The strategy is pinned to ${status.pinnedStrategy}.`]);
  else if (status && status.currentStrategy !== "full") found.push(["bad", `Decisions are made by ${status.currentStrategy}.`]);
  if (status?.health.policy && status.health.policy !== "current") found.push(["bad", "The policy's file is broken; the last good policy is in force."]);
  const [denied, asked] = [recent(samples, (one) => one.denied), recent(samples, all)];
  if (asked >= 1 && denied / asked > 0.5) found.push(["note", `${share(denied, asked)} of the requests of the last ${RECENT} seconds were refused.`]);
  const gateway = latest?.gateway;
  if (gateway && gateway.delayed >= gateway.delayedMax && gateway.delayedMax > 0) found.push(["note", "No more requests can be held back: those that should be are refused."]);
  if (latest?.dropped > 0) found.push(["note", `The archive has dropped ${count(latest.dropped)} rows.`]);
  return found;
}

function verdict(link) {
  const found = troubles(link);
  const worst = found.some(([kind]) => kind === "bad") ? "bad" : found.length > 0 ? "note" : "";
  const title = { bad: "Something is wrong", note: "Worth a look", "": "All is well" }[worst];
  return h("section", { class: `card verdict ${worst}` }, h("div", {}, h("h1", {}, title), found.length === 0 ? h("p", { class: "soft" }, "Every part answers, and the policy in its file is in force.") : h("ul", {}, found.map(([, words]) => h("li", {}, words)))));
}

function tiles({ latest, samples }) {
  const [asked, denied] = [recent(samples, all), recent(samples, (one) => one.denied)];
  const tile = (value, words, href) => h(href ? "a" : "div", { class: "tile", href }, h("b", {}, value), h("span", {}, words));
  return [
    tile(count(asked), "requests a second"),
    tile(share(denied, asked), "of them refused"),
    tile(count(recent(samples, (one) => one.warned)), "warned a second"),
    tile(count(recent(samples, (one) => one.delayed)), "slowed a second"),
    tile(count((latest.sanctions.ban ?? 0) + (latest.sanctions.shadow ?? 0) + (latest.sanctions.cooldown ?? 0)), "sanctions in force", "#/sanctions"),
    tile(latest.gateway ? count(latest.gateway.connections) : "–", "connections"),
  ];
}

function bars(title, rows, empty, href) {
  const most = rows[0]?.blocks ?? 1;
  const line = (row) =>
    h("li", {}, href ? h("a", { class: "name mono", href: href(row), title: row.name }, row.name) : h("span", { class: "name", title: row.name }, row.name), h("span", { class: "num" }, count(row.blocks)), h("progress", { max: most, value: row.blocks, "aria-label": `${row.name}: ${row.blocks} refusals` }));
  return card(title, rows.length === 0 ? h("p", { class: "empty" }, empty) : h("ul", { class: "bars" }, rows.map(line)));
}

function silence(link) {
  if (link.samples.some((sample) => all(sample) > 0)) return null;
  return card("No traffic yet", h("p", {}, "Nothing was asked within the last minutes. Send a request through the gateway, or let ", h("code", {}, "threshold demo"), " make some."), h("p", {}, h("code", {}, "curl -i http://127.0.0.1:8080/")));
}

/** Events as they come, the newest first. */
function feed(signal) {
  const list = h("ul", { class: "feed" });
  const empty = h("p", { class: "empty" }, "Strikes, sanctions, lockouts and operators' changes appear here as they happen.");
  const hear = (event) => {
    empty.remove();
    list.prepend(h("li", {}, h("time", {}, time(event.timestamp ?? event.at ?? Date.now())), h("span", {}, lines(event))));
    while (list.children.length > FEED) list.lastChild.remove();
  };
  const keep = async () => {
    while (!signal.aborted) {
      await listen("", hear, signal).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 2_000));
    }
  };
  keep();
  return card("What happens", empty, list);
}

/** Shows the overview in `root` until it is told to stop. */
export function overview(root) {
  const stop = new AbortController();
  const top = h("div", { class: "grid" });
  const some = h("div", { class: "tiles" });
  const quiet = h("div", { class: "grid" });
  const traffic = stacked("Traffic", outcomes((sample) => sample));
  const denied = stacked("Refusals by layer", [...LAYERS.map((layer) => [(one) => one.layers[layer].denied, layer, layer]), [(one) => one.barred, "banned", "banned"]]);
  const layers = LAYERS.map((layer) => stacked(layer[0].toUpperCase() + layer.slice(1), outcomes((sample) => sample.layers[layer]), { small: true }));
  const funnel = card("Traffic by layer", h("p", { class: "soft" }, "Per second, of the requests that reached a layer: allowed went on to the next, denied were denied by it. Who is banned reaches none."), h("div", { class: "grid four" }, layers.map((one) => one.element)));
  const most = h("div", { class: "grid three" });
  let drawn = "";
  put(root, top, some, quiet, h("div", { class: "grid two" }, traffic.element, denied.element), funnel, most, feed(stop.signal));
  const unfollow = follow((link) => {
    root.classList.toggle("stale", link.state === "lost");
    if (!link.latest) return;
    const says = JSON.stringify([troubles(link)]);
    if (says !== drawn) {
      drawn = says;
      put(top, verdict(link));
    }
    put(some, tiles(link));
    put(quiet, silence(link));
    quiet.hidden = quiet.childElementCount === 0;
    for (const chart of [traffic, denied, ...layers]) chart.draw(link.samples);
    const { tenants, endpoints, addresses } = link.latest.top;
    const next = JSON.stringify(link.latest.top);
    if (next === most.dataset.shown) return;
    most.dataset.shown = next;
    put(most, bars("Most refused tenants", tenants, "No tenant was refused."), bars("Most refusing endpoints", endpoints, "No endpoint refused anything."), bars("Most refused addresses", addresses, "No address was refused.", (row) => `#/subjects/${encodeURIComponent(row.name)}`));
  });
  return () => {
    stop.abort();
    unfollow();
    root.classList.remove("stale");
  };
}
