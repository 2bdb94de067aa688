// Events in words.

import { h, tag } from "./dom.js";

const subject = (id) => id && h("a", { class: "mono subject", href: `#/subjects/${encodeURIComponent(id)}` }, id.length > 24 ? `${id.slice(0, 23)}…` : id);

const KINDS = { abuse_escalation: "bad", sanction_imposed: "bad", sanction_lifted: "good", auth_user_lockout: "bad", auth_account_ceiling: "bad", auth_ip_rate_limit: "note", lockout_lifted: "good", component_changed: "note", ledger_failed: "bad", ledger_recovered: "good", alert: "bad" };

/** What one event says: its name, whom it is about, and the rest as it is. */
export function lines(event) {
  const { event: name, timestamp, at, subject: whom, userId, ip, ...rest } = event;
  if (name === "alert") return [tag(event.severity, event.state === "firing" ? "bad" : "good"), " ", event.text];
  const shown = Object.entries(rest).filter(([, value]) => value !== null && value !== "" && typeof value !== "object");
  return [tag((name ?? "event").replaceAll("_", " "), KINDS[name] ?? ""), " ", subject(whom ?? userId ?? ip), " ", h("span", { class: "soft" }, shown.map(([key, value]) => `${key} ${value}`).join(" · "))];
}
