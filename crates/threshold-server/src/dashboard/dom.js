// Elements, made of text that is only ever text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(shown(child)));
  }
  return element;
}

/** An element of HTML. */
export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An element of SVG. */
export function s(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** Text of strangers: what would move a cursor, turn the line round or hide, is shown as what it is. */
export function shown(text) {
  const hidden = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
  return String(text).replace(hidden, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
}

/** Replaces what is in `element`. */
export function put(element, ...children) {
  element.replaceChildren();
  return fill(element, {}, children);
}

/** Who is in `element` with the keyboard before it is drawn anew; the answer brings them back, as near as there is something. */
export function holding(element) {
  const named = (one) => one.getAttribute("aria-label") ?? one.textContent;
  const held = element.contains(document.activeElement) ? document.activeElement : null;
  return () => {
    if (!held || held.isConnected) return;
    const same = [...element.querySelectorAll("button, a, input, [tabindex]")].find((one) => named(one) === named(held));
    (same ?? element.querySelector("[tabindex]") ?? document.getElementById("main")).focus({ preventScroll: true });
  };
}

/** A table; each column is [title, cell of a row, class]. */
export function table(columns, rows, { caption, empty = "There is nothing here.", label } = {}) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  const head = h("tr", {}, columns.map(([title, , kind]) => h("th", { scope: "col", class: kind }, title)));
  const line = (row) =>
    h("tr", {}, columns.map(([title, cell, kind]) => h("td", { class: kind, "data-label": title }, cell(row))));
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label ?? caption ?? "Table" },
    h("table", { class: "cards" }, caption && h("caption", {}, caption), h("thead", {}, head), h("tbody", {}, rows.map(line))),
  );
}

export const card = (title, ...children) => h("section", { class: "card" }, title && h("h2", {}, title), children);
export const tag = (text, kind = "") => h("span", { class: `tag ${kind}` }, text);

/** A message that goes away by itself. */
export function toast(text, bad = false) {
  const one = h("div", { class: bad ? "toast bad" : "toast" }, text);
  document.getElementById("toasts").append(one);
  setTimeout(() => one.remove(), bad ? 10_000 : 5_000);
}

/** Asks before something is done; resolves to what was filled in, or null. */
export function confirm(title, { text, action, danger = true, fields = [] }) {
  return new Promise((resolve) => {
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", { id: "dialog-title" }, title),
      text && h("p", {}, text),
      fields.map(([name, label, attributes]) => h("label", {}, label, h("input", { name, ...attributes }))),
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", onclick: () => dialog.close("") }, "Cancel"),
        h("button", { type: "submit", value: "yes", class: danger ? "danger" : "main", autofocus: true }, action),
      ),
    );
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? Object.fromEntries(new FormData(form)) : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
