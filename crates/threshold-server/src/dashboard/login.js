// The way in.

import { get, token } from "./api.js";
import { h, put } from "./dom.js";

/** Asks for a token, and calls `entered` once there is a good one. */
export function login(root, why, entered) {
  const wrong = h("p", { class: "wrong", role: "alert" }, why ?? "");
  const field = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true, spellcheck: "false", "aria-describedby": "token-help" });
  const button = h("button", { class: "main", type: "submit" }, "Sign in");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    token.set(field.value.trim());
    try {
      entered(await get("token"));
    } catch (error) {
      token.forget();
      put(wrong, error.message);
      button.disabled = false;
      field.select();
    }
  };
  put(
    root,
    h(
      "section",
      { class: "card login" },
      h("h1", {}, "Sign in"),
      h("form", { onsubmit: submit }, h("label", {}, "Token", field), h("p", { class: "soft", id: "token-help" }, "The first start of the server printed one. To make another: ", h("code", {}, "threshold token create --scope operate --name me")), wrong, h("div", { class: "row" }, button)),
    ),
  );
  field.focus();
}
