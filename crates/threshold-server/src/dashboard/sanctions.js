// Who is kept out, and the way back in.

import { get, named, post, remove } from "./api.js";
import { card, confirm, h, holding, put, table, tag, toast } from "./dom.js";
import { whenBack } from "./link.js";
import { moment } from "./words.js";

const KINDS = { ban: "bad", shadow: "note", cooldown: "note" };

/** Lifts what is held against `subject`, once that was confirmed; true if it was. */
export async function lift(subject, kind) {
  const sure = await confirm(`Lift the ${kind}?`, { text: `${subject} passes again at once. The audit log keeps who lifted it.`, action: "Lift it" });
  if (!sure) return false;
  try {
    const { changed } = await remove(`sanctions/${named(subject)}?kind=${kind}`);
    toast(changed ? `The ${kind} is lifted.` : "It was over already.");
    return true;
  } catch (error) {
    toast(error.message, true);
    return false;
  }
}

const when = (at) => {
  const [date, away] = moment(at);
  return h("span", { title: date }, away);
};

/** Sanctions as a table; `again` is called after a change. */
export function list(items, may, again) {
  const ended = (one) => (one.liftedAt ? `lifted by ${one.liftedBy}` : "over");
  return table(
    [
      ["Kind", (one) => tag(one.kind, KINDS[one.kind]), "tight"],
      ["Whom", (one) => h("a", { class: "mono subject", href: `#/subjects/${named(one.subject)}` }, one.subject)],
      ["Why", (one) => [one.reason, one.limit && [" (", h("code", {}, one.limit), `, ${one.strikes} strikes)`]]],
      ["By", (one) => one.operator ?? one.imposedBy, "tight"],
      ["Since", (one) => when(one.from), "tight"],
      ["Ends", (one) => (one.inForce ? when(one.until) : ended(one)), "tight"],
      ["", (one) => one.inForce && may.operate && h("button", { onclick: async () => (await lift(one.subject, one.kind)) && again(), "aria-label": `Lift the ${one.kind} of ${one.subject}` }, "Lift"), "tight"],
    ],
    items,
    { empty: "Nobody is kept out.", label: "Sanctions" },
  );
}

/** A form that keeps somebody out. */
export function imposing(client, again) {
  const submit = async (event) => {
    event.preventDefault();
    const filled = Object.fromEntries(new FormData(event.target));
    try {
      await post("sanctions", filled);
      toast(`${filled.client} is kept out for ${filled.for}.`);
      event.target.reset();
      again();
    } catch (error) {
      toast(error.message, true);
    }
  };
  const option = (value, words) => h("option", { value }, words);
  return h(
    "form",
    { class: "form", onsubmit: submit },
    h("label", {}, "Whom", h("input", { name: "client", required: true, value: client ?? "", placeholder: "203.0.113.7, or acme/alice" })),
    h("label", {}, "How", h("select", { name: "kind" }, option("ban", "ban: refused"), option("shadow", "shadow: slowed, not told"), option("cooldown", "cooldown: refused, told when"))),
    h("label", {}, "For", h("input", { name: "for", required: true, value: "1h", pattern: "[0-9]+(s|min|h|d)" })),
    h("label", {}, "Why", h("input", { name: "reason", required: true, placeholder: "scraping" })),
    h("button", { type: "submit", class: "danger" }, "Impose"),
  );
}

/** Pages of a list, one after the other. */
export function pages(root, path, render) {
  let [items, after] = [[], null];
  const page = (from) => get(`${path}${from ? `${path.includes("?") ? "&" : "?"}after=${named(from)}` : ""}`);
  const draw = () => {
    const back = holding(root);
    put(root, render(items), after && h("div", { class: "row" }, h("button", { onclick: () => load(more) }, "Show more")));
    back();
  };
  const more = async () => {
    const next = await page(after);
    [items, after] = [items.concat(next.items), next.next];
  };
  /** As much as there is now. */
  const anew = async () => {
    let [all, next] = [[], null];
    do {
      const one = await page(next);
      [all, next] = [all.concat(one.items), one.next];
    } while (next && all.length < items.length);
    [items, after] = [all, next];
  };
  const load = async (work) => {
    try {
      await work();
      draw();
    } catch (error) {
      // What is there is old, and better than nothing.
      if (items.length === 0) put(root, h("p", { class: "wrong", role: "alert" }, error.message));
      if (error.passing) whenBack(root, () => load(work));
    }
  };
  load(anew);
  return () => load(anew);
}

export function sanctions(root, may) {
  const place = h("div", {});
  let [path, again] = ["sanctions?active=true", () => {}];
  const show = () => (again = pages(place, path, (items) => list(items, may, () => again())));
  const choose = (event) => {
    path = event.target.checked ? "sanctions" : "sanctions?active=true";
    show();
  };
  put(
    root,
    card(null, h("div", { class: "row apart" }, h("h1", {}, "Sanctions"), h("label", { class: "row" }, h("input", { type: "checkbox", onchange: choose }), "also those that are over")), place),
    may.operate && card("Keep somebody out", imposing(null, () => again())),
  );
  show();
  const timer = setInterval(() => document.querySelector("dialog") || again(), 15_000);
  return () => clearInterval(timer);
}
