// Opens the page of a report in a real browser, as somebody would who was sent it.
//
//   node page.mjs FILE      with SHOTS (a folder) and TOOLS in the environment
//
// Prints "opened" at the end; whatever is not as it should be ends it with an error.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { SHOTS, TOOLS } = process.env;
const require = createRequire(path.join(TOOLS, "package.json"));
const puppeteer = require("puppeteer-core");
const url = pathToFileURL(process.argv[2]).href;

const browser = await puppeteer.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const wrong = [];
for (const [name, colours, width] of [["light", "light", 1280], ["dark", "dark", 1280], ["phone", "light", 390]]) {
  const page = await browser.newPage();
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("console", (said) => wrong.push(said.text()));
  page.on("dialog", (dialog) => wrong.push(dialog.message()) && dialog.dismiss());
  page.on("request", (request) => request.url() === url || wrong.push(request.url()));
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: colours }]);
  await page.setViewport({ width, height: 900 });
  await page.goto(url, { waitUntil: "load" });
  await page.screenshot({ path: path.join(SHOTS, `report-${name}.png`), fullPage: true });
  const seen = await page.evaluate(() => ({
    text: document.body.innerText,
    bars: document.querySelectorAll("svg rect").length,
    over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    scripts: document.scripts.length,
  }));
  assert.ok(seen.bars > 10, "there are charts");
  assert.equal(seen.scripts, 0, "there is no script");
  assert.ok(seen.over <= 0, `${name}: it is wider than the window by ${seen.over}`);
  assert.ok(seen.text.includes("203.0.113.9"), "who is hit is named");
  await page.close();
  // Tests may read the page by a script that the page itself would not run.
  const judged = await browser.newPage();
  await judged.setBypassCSP(true);
  await judged.emulateMediaFeatures([{ name: "prefers-color-scheme", value: colours }]);
  await judged.setViewport({ width, height: 900 });
  await judged.goto(url, { waitUntil: "load" });
  await judged.addScriptTag({ path: require.resolve("axe-core/axe.min.js") });
  const { violations } = await judged.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter((one) => ["serious", "critical"].includes(one.impact));
  assert.deepEqual(serious.map((one) => `${one.id}: ${one.nodes[0].html}`), [], name);
  await judged.close();
}
await browser.close();
assert.deepEqual(wrong, []);
console.log("opened");
