// What the tests ask of the Worker from inside: its limits for Workers, and objects whose alarm can be looked at.

import { addressOf, rateLimit, RateLimiter } from "../src/limiter.js";
import { ThresholdObject as Deployed } from "../src/object.js";
import worker from "../src/worker.js";

export class ThresholdObject extends Deployed {
  async look() {
    const count = (table) => [...this.ctx.storage.sql.exec(`SELECT count(*) AS n FROM ${table}`)][0].n;
    const rows = { cells: count("cells"), entries: count("entries"), permits: count("permits") };
    return { rows, alarm: await this.ctx.storage.getAlarm(), sweeps: this.sweeps ?? 0 };
  }

  // The alarm of the hour, now.
  async ring() {
    await this.ctx.storage.setAlarm(Date.now());
  }

  // The alarm of the hour, in a second.
  async later() {
    await this.ctx.storage.setAlarm(Date.now() + 1000);
  }

  // Writes another time down than it is.
  ahead({ last }) {
    this.states.setNote("last", Number(last));
  }

  async alarm() {
    this.sweeps = (this.sweeps ?? 0) + 1;
    await super.alarm();
  }

  // Fails as a disk does that is full.
  breakStorage({ table }) {
    this.ctx.storage.sql.exec(`ALTER TABLE ${table} RENAME TO away`);
  }

  mendStorage({ table }) {
    this.ctx.storage.sql.exec(`ALTER TABLE away RENAME TO ${table}`);
  }
}

// Takes the time from the test.
class Timed extends RateLimiter {
  constructor(given, now) {
    super(given);
    this.time = now;
  }

  send(verb, subject, asked) {
    return super.send(verb, subject, { now: this.time, ...asked });
  }
}

const hello = async () => new Response("hello");
const key = (request) => request.headers.get("x-who");
const cost = (request) => Number(request.headers.get("x-cost") ?? 1);

const limited = {
  "/bucket": rateLimit({ id: "bucket", rate: "3/min", key, cost }, hello),
  "/window": rateLimit({ id: "window", rate: "3/hour", algorithm: "fixed-window", key, cost, error: "slow_down" }, hello),
  "/log": rateLimit({ id: "log", rate: "3/hour", algorithm: "sliding-log", key, cost }, hello),
  "/bytes": rateLimit({ id: "bytes", rate: "1kB/day", key, cost }, hello),
  "/silent": rateLimit({ id: "silent", rate: "1/hour", key, silent: true }, hello),
  "/address": rateLimit({ id: "address", rate: "1/hour" }, hello),
  "/both": rateLimit({ id: "outer", rate: "9/min", key }, rateLimit({ id: "inner", rate: "3/min", key }, hello)),
  "/outer": rateLimit({ id: "tight", rate: "3/min", key }, rateLimit({ id: "wide", rate: "9/min", key }, hello)),
  "/closed": rateLimit({ id: "closed", rate: "3/min", key, objects: "NOWHERE" }, hello),
  "/open": rateLimit({ id: "open", rate: "3/min", key, cost, objects: "NOWHERE", onFailure: "open" }, hello),
};

// A namespace whose objects never answer.
const NOWHERE = {
  idFromName: (name) => name,
  get: () => ({
    judge: async () => {
      throw new Error("nobody is there");
    },
  }),
};

async function inside(url, env) {
  const asked = Object.fromEntries(url.searchParams);
  const object = (name) => env.THRESHOLD.get(env.THRESHOLD.idFromName(name));
  switch (url.pathname) {
    case "/inside/look":
    case "/inside/ring":
    case "/inside/later":
    case "/inside/ahead":
    case "/inside/breakStorage":
    case "/inside/mendStorage":
      return Response.json((await object(asked.object)[url.pathname.slice(8)](asked)) ?? {});
    case "/inside/open": {
      const secret = "0123456789abcdef0123456789abcdef";
      return Response.json(await object("threshold/root").open(JSON.stringify({ secret }), Number(asked.shards)));
    }
    case "/inside/address":
      return new Response(addressOf(new Request("http://a", { headers: { "CF-Connecting-IP": asked.of } })));
    default: {
      const { id, rate, algorithm, prefix, shards, who, price, now, decision } = asked;
      const given = { id, rate, algorithm, prefix, shards, objects: env.THRESHOLD, secret: "a secret" };
      const limiter = now === undefined ? new RateLimiter(given) : new Timed(given, Number(now));
      const arguments_ = [JSON.parse(who), Number(price), decision && JSON.parse(decision)];
      const said = await limiter[url.pathname.slice(8)](...arguments_);
      return Response.json({ ...said, of: undefined });
    }
  }
}

export default {
  async fetch(request, env, ctx) {
    const url = new URL(request.url);
    if (url.pathname.startsWith("/inside/")) {
      try {
        return await inside(url, env);
      } catch (error) {
        return new Response(error.stack, { status: 500 });
      }
    }
    const handler = limited[url.pathname];
    return handler ? handler(request, { ...env, NOWHERE }, ctx) : worker.fetch(request, env, ctx);
  },
};
