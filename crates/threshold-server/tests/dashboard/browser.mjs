// Walks through the dashboard in a real browser, as an operator would.
//
//   node browser.mjs WALK      with BASE, GATEWAY, TOKEN, SERVER (its process), SHOTS (a folder) and VISITS in the environment
//
// Two of the walks make the pictures of the documentation, if a folder is named:
//
//   THRESHOLD_PICTURES=$PWD/examples/grove/pictures cargo nextest run --workspace --test grove
//   THRESHOLD_PICTURES=$PWD/docs/pictures WAIT=75 cargo nextest run --workspace --test demo -E 'test(browser)'
//
// Prints "walked" at the end; whatever is not as it should be ends it with an error.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import http from "node:http";
import path from "node:path";

const { BASE, GATEWAY, TOKEN, SERVER, SHOTS, TOOLS, VISITS } = process.env;
const require = createRequire(path.join(TOOLS, "package.json"));
const puppeteer = require("puppeteer-core");
const SOON = { timeout: 20_000 };

/** What the gateway answers `address`, as a proxy that is trusted tells it. */
function ask(address, where = "/", headers = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request(GATEWAY + where, { headers: { "x-forwarded-for": address, ...headers } }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode));
    });
    request.on("error", reject).end();
  });
}

class Operator {
  static async arrives() {
    const browser = await puppeteer.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
    const page = await browser.newPage();
    const operator = Object.assign(new Operator(), { browser, page, wrong: [], elsewhere: [] });
    page.on("pageerror", (error) => operator.wrong.push(String(error)));
    page.on("dialog", (dialog) => operator.wrong.push(`a dialog: ${dialog.message()}`) && dialog.dismiss());
    page.on("request", (request) => request.url().startsWith(BASE) || operator.elsewhere.push(request.url()));
    page.on("console", (said) => said.type() === "error" && !/Failed to load resource|ERR_/.test(said.text()) && operator.wrong.push(said.text()));
    await page.setViewport({ width: 1280, height: 900 });
    await page.goto(BASE, { waitUntil: "load" });
    return operator;
  }

  async signsIn(token = TOKEN) {
    await this.page.waitForSelector("input[name=token]", SOON);
    await this.page.type("input[name=token]", token);
    await this.page.click("button.main");
    // What is typed before the first section is there would be gone with it.
    if (token === TOKEN) await this.page.waitForSelector("#nav a[aria-current]", SOON);
  }

  /** The text of the page, once `wanted` is in it. */
  async sees(wanted) {
    await this.page.waitForFunction((text) => document.body.innerText.includes(text), SOON, wanted);
  }

  async seesNoMore(wanted) {
    await this.page.waitForFunction((text) => !document.body.innerText.includes(text), SOON, wanted);
  }

  async goes(hash) {
    await this.page.evaluate((to) => (location.hash = to), hash);
    const path = hash.slice(2).split("/")[0];
    await this.page.waitForSelector(`#nav a[aria-current][data-path="${path}"]`, SOON);
  }

  /** Presses the button that says `words`, in a dialog if there is one. */
  async presses(words) {
    const button = await this.page.waitForFunction(
      (text) => [...(document.querySelector("dialog") ?? document).querySelectorAll("button")].find((one) => one.innerText.trim() === text && !one.disabled),
      SOON,
      words,
    );
    await button.asElement().click();
  }

  /** A picture of the page: all of it, or so much from the top. */
  async shot(name, { height } = {}) {
    const part = height ? { clip: { x: 0, y: 0, width: 1280, height }, captureBeyondViewport: true } : { fullPage: true };
    await this.page.screenshot({ path: path.join(SHOTS, `${name}.png`), ...part });
  }

  /** What axe finds at `where` that would keep somebody out. */
  async judges(where) {
    // Tests may read the page by a script that the page itself would not run.
    await this.page.addScriptTag({ path: require.resolve("axe-core/axe.min.js") });
    const { violations } = await this.page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    const serious = violations.filter((one) => ["serious", "critical"].includes(one.impact));
    assert.deepEqual(serious.map((one) => [where, one.id, one.nodes.map((node) => node.html)]), []);
  }

  async leaves() {
    await this.browser.close();
    assert.deepEqual(this.wrong, []);
    assert.deepEqual(this.elsewhere, [], "it asks nobody else");
  }
}

const SECTIONS = ["#/", "#/subjects", "#/sanctions", "#/lockouts", "#/policy", "#/explain", "#/audit", "#/health"];

const walks = {
  /** A wrong token is told so; a good one opens the overview, and charts move with the traffic. */
  async traffic() {
    const operator = await Operator.arrives();
    await operator.signsIn("not-a-token-of-this-server");
    await operator.sees("there is no such token");
    await operator.page.$eval("input[name=token]", (field) => (field.value = ""));
    await operator.signsIn();
    await operator.sees("No traffic yet");
    const shape = () => operator.page.$$eval(".chart path", (paths) => paths.map((one) => one.getAttribute("d")).join());
    const before = await shape();
    for (let round = 0; round < 20; round += 1) await ask("203.0.113.50");
    await operator.page.waitForFunction(() => [...document.querySelectorAll(".legend li")].some((key) => /denied [1-9]/.test(key.innerText)) || document.querySelector(".bars li"), SOON);
    assert.notEqual(await shape(), before, "the charts have moved");
    const layers = await operator.page.$$eval(".four .chart", (charts) => charts.map((one) => one.getAttribute("aria-label")));
    assert.deepEqual(layers.map((one) => one.split(",")[0]), ["Edge", "Tenant", "User", "Endpoint"]);
    const reached = () => [...document.querySelectorAll(".four > div")].some((one) => one.querySelector("h3").innerText === "Endpoint" && one.querySelector("path")?.getAttribute("d"));
    await operator.page.waitForFunction(reached, SOON);
    await operator.seesNoMore("No traffic yet");
    await operator.sees("Most refused addresses");
    await operator.leaves();
  },

  /** Who is banned is found by its address, and passes again two clicks later. */
  async lift() {
    assert.equal(await ask("203.0.113.7"), 429);
    const operator = await Operator.arrives();
    await operator.signsIn();
    await operator.sees("sanctions in force");
    await operator.goes("#/subjects");
    await operator.page.waitForSelector("input[name=client]", SOON);
    await operator.page.type("input[name=client]", "203.0.113.7");
    await operator.presses("Look");
    await operator.sees("scraping");
    await operator.presses("Lift");
    await operator.presses("Lift it");
    await operator.sees("The ban is lifted.");
    assert.equal(await ask("203.0.113.7"), 200);
    // Who works by keys goes on where it was, and not at the top of the page.
    await operator.page.waitForFunction(() => document.querySelector("main").contains(document.activeElement), SOON);
    await operator.goes("#/audit");
    await operator.sees("lift");
    await operator.leaves();
  },

  /** What another policy would have done is told before it is put in force; then it is, and back. */
  async policy() {
    for (let round = 0; round < 3; round += 1) assert.equal(await ask("203.0.113.60"), 200);
    const operator = await Operator.arrives();
    await operator.signsIn();
    await operator.goes("#/policy");
    await operator.page.waitForSelector("textarea", SOON);
    await operator.page.$eval("textarea", (text) => (text.value = text.value.replace('rate = "5/day"', 'rate = "2/day"')));
    await operator.presses("Dry run");
    await operator.sees("Against recent traffic");
    await operator.sees("Newly denied: 1 requests of 1 subjects");
    await operator.presses("Put in force");
    await operator.presses("Put it in force");
    await operator.sees("The policy is in force.");
    assert.equal(await ask("203.0.113.61"), 200);
    assert.equal(await ask("203.0.113.61"), 200);
    assert.equal(await ask("203.0.113.61"), 429);
    await operator.presses("Go back");
    await operator.page.waitForSelector("dialog", SOON);
    await operator.presses("Go back");
    await operator.sees("The policy before is in force again.");
    await operator.page.$eval("textarea", (text) => (text.value = "[[limit]]\nid = 7"));
    await operator.presses("Check");
    await operator.sees("It cannot be put in force");
    await operator.leaves();
  },

  /** A server that does not answer is told so, and what is shown is marked as old; then it goes on by itself. */
  async lost() {
    const operator = await Operator.arrives();
    await operator.signsIn();
    await operator.sees("requests a second");
    process.kill(Number(SERVER), "SIGSTOP");
    await operator.sees("The connection is lost");
    assert.ok(await operator.page.$("main.stale"), "what is shown is marked as old");
    process.kill(Number(SERVER), "SIGCONT");
    await operator.seesNoMore("The connection is lost");
    await operator.sees("live");
    // What could not be shown meanwhile is shown now, and what was shown stays.
    await operator.goes("#/audit");
    await operator.sees("Nobody has changed anything yet.");
    process.kill(Number(SERVER), "SIGSTOP");
    await operator.goes("#/sanctions");
    await operator.sees("the server does not answer");
    process.kill(Number(SERVER), "SIGCONT");
    await operator.sees("Nobody is kept out.");
    // A promise is told whole.
    await operator.goes("#/policy");
    await operator.sees("the ladder's grace lets at most 1 more through");
    // What was thought of and not done is not shown as done.
    await operator.goes("#/health");
    await operator.page.waitForSelector("main select", SOON);
    await operator.page.select("main select", "memory-only");
    await operator.presses("Cancel");
    await operator.page.waitForFunction(() => document.querySelector("main select").value === "", SOON);
    await operator.leaves();
  },

  /** What strangers wrote is text, wherever it is shown. */
  async strangers() {
    const operator = await Operator.arrives();
    await operator.signsIn();
    await operator.sees("requests a second");
    for (const section of [...SECTIONS, `#/subjects/${encodeURIComponent("203.0.113.66")}`, `#/subjects/${encodeURIComponent("<script>window.harmed=1</script>")}`]) {
      await operator.goes(section);
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      assert.equal(await operator.page.evaluate(() => window.harmed), undefined, section);
      assert.equal(await operator.page.$$eval("main script, main img, main iframe", (found) => found.length), 0, section);
      const raw = await operator.page.evaluate(() => /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u202e]/.test(document.body.innerText));
      assert.equal(raw, false, `${section}: control characters are shown as what they are`);
    }
    await operator.goes("#/subjects/203.0.113.66");
    await operator.sees("<script>window.harmed=1</script>");
    await operator.leaves();
  },

  /** Grove: what was done shows, and who is banned is found. */
  async grove() {
    const operator = await Operator.arrives();
    await operator.signsIn();
    await operator.sees("sprout");
    await operator.sees("sanctions in force");
    await operator.shot("overview", { height: 780 });
    await operator.goes("#/subjects");
    await operator.page.waitForSelector("input[name=client]", SOON);
    await operator.page.type("input[name=client]", "user:canopy/jay");
    await operator.presses("Look");
    await operator.sees("strike 5");
    await operator.shot("subject", { height: 1050 });
    await operator.leaves();
  },

  /** Grove: who is locked out. */
  async locked() {
    const operator = await Operator.arrives();
    await operator.signsIn();
    await operator.goes("#/lockouts");
    await operator.presses("Unlock");
    await operator.page.waitForSelector("dialog", SOON);
    await operator.page.keyboard.press("Escape");
    await operator.shot("lockouts", { height: 290 });
    await operator.leaves();
  },

  /** A server under all kinds of traffic at once: everything has something to show, and nobody is kept out by it. */
  async demo() {
    const operator = await Operator.arrives();
    await operator.page.setBypassCSP(true);
    await operator.page.reload();
    await operator.signsIn();
    await operator.sees("sprout");
    await operator.page.waitForFunction(() => document.querySelectorAll(".feed li").length > 3, SOON);
    // A chart is worth a picture once it has something behind it.
    await new Promise((resolve) => setTimeout(resolve, Number(process.env.WAIT ?? 0) * 1_000));
    for (const colours of ["light", "dark"]) {
      await operator.page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: colours }]);
      for (const section of SECTIONS) {
        await operator.goes(section);
        await new Promise((resolve) => setTimeout(resolve, 700));
        await operator.judges(`${colours} ${section}`);
      }
      await operator.goes("#/");
      await operator.sees("Most refused addresses");
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      await operator.shot(`dashboard-${colours}`, { height: 900 });
    }
    await operator.leaves();
  },

  /** What the page weighs with all its sections, and how soon something of it is seen: the median of some visits. */
  async weight() {
    const operator = await Operator.arrives();
    const { page } = operator;
    await page.setCacheEnabled(false);
    const paints = [];
    for (let visit = 0; visit < Number(VISITS); visit += 1) {
      await page.goto(BASE, { waitUntil: "load" });
      const painted = await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime, SOON);
      paints.push(await painted.jsonValue());
    }
    await operator.signsIn();
    for (const section of SECTIONS) await operator.goes(section);
    // Not what it asks of the API: that depends on what there is to tell.
    const sizes = await page.evaluate(() =>
      [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
        .filter((entry) => entry.initiatorType !== "fetch")
        .map((entry) => entry.transferSize),
    );
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    const paint = paints.sort((one, other) => one - other)[Math.floor(paints.length / 2)];
    console.log(JSON.stringify({ bytes, pieces: sizes.length, paint, visits: paints.length }));
    await operator.leaves();
  },

  /** No serious fault for who does not see or does not use a mouse; and pictures to look at. */
  async looks() {
    const operator = await Operator.arrives();
    await operator.page.setBypassCSP(true);
    await operator.page.reload();
    await operator.page.waitForSelector("input[name=token]", SOON);
    await operator.judges("sign in");
    await operator.signsIn();
    await operator.sees("requests a second");
    for (const colours of ["light", "dark"]) {
      await operator.page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: colours }]);
      for (const section of SECTIONS) {
        await operator.goes(section);
        await new Promise((resolve) => setTimeout(resolve, 700));
        await operator.judges(`${colours} ${section}`);
        await operator.shot(`${colours}-${section.slice(2) || "overview"}`);
      }
    }
    await operator.page.setViewport({ width: 390, height: 844, isMobile: true });
    for (const section of SECTIONS) {
      await operator.goes(section);
      await new Promise((resolve) => setTimeout(resolve, 700));
      const over = await operator.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(over <= 0, `${section} is wider than a phone by ${over}`);
      await operator.shot(`phone-${section.slice(2) || "overview"}`);
    }
    // By keys alone: to the sections and into one.
    await operator.page.setViewport({ width: 1280, height: 900 });
    await operator.goes("#/");
    await operator.page.evaluate(() => document.querySelector("#nav a").focus());
    await operator.page.keyboard.press("Tab");
    await operator.page.keyboard.press("Enter");
    await operator.page.waitForFunction(() => location.hash === "#/subjects", SOON);
    await operator.leaves();
  },
};

await walks[process.argv[2]]();
console.log("walked");
