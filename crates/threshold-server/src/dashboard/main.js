// The page: who is signed in, which section is shown, and whether the server can be heard.

import { get, token } from "./api.js";
import { audit } from "./audit.js";
import { h, put } from "./dom.js";
import { explain } from "./explain.js";
import { health } from "./health.js";
import { begin, follow, stop } from "./link.js";
import { lockouts } from "./lockouts.js";
import { login } from "./login.js";
import { overview } from "./overview.js";
import { policy } from "./policy.js";
import { sanctions } from "./sanctions.js";
import { subjects } from "./subjects.js";
import { time } from "./words.js";

const SECTIONS = [
  ["", "Overview", overview],
  ["subjects", "Subjects", subjects],
  ["sanctions", "Sanctions", sanctions],
  ["lockouts", "Lockouts", lockouts],
  ["policy", "Policy", policy],
  ["explain", "Explain", explain],
  ["audit", "Audit", audit],
  ["health", "Health", health],
];
const SCOPES = ["read", "operate", "admin"];
const THEMES = ["auto", "light", "dark"];

const [main, nav, corner, banner] = ["main", "nav", "corner", "banner"].map((id) => document.getElementById(id));
let leave = () => {};
let unfollow = () => {};
let caller = null;

function theme(next) {
  const chosen = next ?? localStorage.getItem("threshold-theme") ?? "auto";
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  localStorage.setItem("threshold-theme", chosen);
  return chosen;
}

/** What the token allows. */
function may() {
  const rank = SCOPES.indexOf(caller.scope);
  return { operate: rank >= 1, admin: rank >= 2 };
}

function show() {
  if (!caller) return;
  leave();
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  const [path, title, section] = SECTIONS.find(([known]) => known === name) ?? SECTIONS[0];
  for (const link of nav.children) {
    if (link.dataset.path === path) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${title} · Threshold`;
  let about;
  try {
    about = decodeURIComponent(rest.join("/"));
  } catch {
    about = "";
  }
  put(main);
  leave = section(main, may(), about) ?? (() => {});
}

function enter(who) {
  caller = who;
  const chooser = h("select", { "aria-label": "Colours", onchange: (event) => theme(event.target.value) }, THEMES.map((one) => h("option", { value: one, selected: one === theme() }, one)));
  const state = h("span", { class: "link waiting" }, "connecting");
  put(nav, SECTIONS.map(([path, title]) => h("a", { href: `#/${path}`, "data-path": path }, title)));
  nav.hidden = false;
  put(corner, state, chooser, h("button", { class: "plain", onclick: () => out("You are signed out."), title: `${who.name} (${who.scope})` }, "Sign out"));
  begin((problem) => out(problem.message));
  unfollow = follow((link) => {
    state.className = `link ${link.state}`;
    put(state, { waiting: "connecting", live: "live", lost: "lost" }[link.state]);
    const since = link.heard ? `What is shown is from ${time(link.heard)}.` : "";
    const words = link.state === "lost" ? `The connection is lost: ${link.why}. ${since} Trying again…` : "";
    if (banner.textContent !== words) put(banner, words);
  });
  show();
}

function out(why) {
  stop();
  unfollow();
  leave();
  leave = () => {};
  caller = null;
  token.forget();
  nav.hidden = true;
  put(corner);
  put(banner);
  login(main, why, enter);
}

async function start() {
  if (!token.get()) return login(main, null, enter);
  try {
    enter(await get("token"));
  } catch (error) {
    if (error.status === 401) out("The token is no longer good.");
    else {
      put(banner, "The server does not answer. Trying again…");
      setTimeout(start, 2_000);
    }
  }
}

theme();
window.addEventListener("hashchange", () => {
  show();
  main.focus({ preventScroll: true });
});
start();
