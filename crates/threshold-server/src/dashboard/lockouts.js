// Who is locked out of which account after failed logins.

import { named, remove } from "./api.js";
import { card, confirm, h, put, table, toast } from "./dom.js";
import { pages } from "./sanctions.js";
import { moment } from "./words.js";

export function lockouts(root, may) {
  const place = h("div", {});
  let again = () => {};
  const unlock = async (account) => {
    const sure = await confirm("Forget the failed logins?", { text: `${account} can sign in again at once, from everywhere.`, action: "Unlock" });
    if (!sure) return;
    try {
      await remove(`lockouts/${named(account)}`);
      toast("The account is unlocked.");
      again();
    } catch (error) {
      toast(error.message, true);
    }
  };
  const columns = [
    ["Account", (one) => h("span", { class: "mono subject" }, one.account)],
    ["Source", (one) => h("span", { class: "mono subject" }, one.source)],
    ["Failures", (one) => one.failures, "num"],
    ["Locked", (one) => `until ${moment(one.lockedUntil)[0]}`, "tight"],
    ["", (one) => may.operate && h("button", { onclick: () => unlock(one.account), "aria-label": `Unlock ${one.account}` }, "Unlock"), "tight"],
  ];
  put(root, card(null, h("h1", {}, "Lockouts"), h("p", { class: "soft" }, "Accounts are hashes. To unlock one by its name: ", h("code", {}, "threshold lockouts lift --account NAME")), place));
  again = pages(place, "lockouts", (items) => table(columns, items, { empty: "Nobody is locked out.", label: "Lockouts" }));
  return () => {};
}
