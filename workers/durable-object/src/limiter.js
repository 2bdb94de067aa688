// Limits for Workers themselves, without a server: one decision is one call of a Durable Object.
//
//   import { rateLimit } from "./limiter.js";
//   export { ThresholdObject } from "./object.js";
//
//   export default {
//     fetch: rateLimit({ id: "api", rate: "100/min" }, async (request, env, ctx) => new Response("hello")),
//   };

import { Keys } from "./key.js";
import { Limit } from "./limit.js";

const SHARDS = 128;
const MOST_SHARDS = 65_536;
const SECOND = 1_000_000;
const TYPES = "https://iana.org/assignments/http-problem-types#";
// The largest number that a structured field holds.
const LARGEST = 999_999_999_999_999;

// One limit over the objects of a namespace. Limiters with the same id, algorithm, period and secret are the same limit,
// and so are those of the Rust library with the same keys.
export class RateLimiter {
  // `objects` is the namespace of the objects, `secret` a text that was drawn at random, the same wherever the limit is.
  constructor({ id, rate, algorithm, objects, secret, prefix = "threshold", shards = SHARDS }) {
    if (!objects) throw new Error("objects: name the binding of the Durable Objects, such as env.THRESHOLD");
    if (!secret) throw new Error("secret: give a random text, such as the secret env.THRESHOLD_SECRET");
    this.limit = new Limit({ id, rate, algorithm });
    this.keys = new Keys(secret, this.limit);
    this.objects = objects;
    this.prefix = prefix;
    this.shards = shardsOf(shards);
  }

  // Charges `cost` to `key`, a text or a list of texts, if the limit allows it.
  consume(key, cost = 1) {
    return this.ask(1, key, cost);
  }

  // What `consume` would answer now; charges nothing.
  peek(key, cost = 1) {
    return this.ask(2, key, cost);
  }

  // Takes back up to `cost` of what `decision` charged to `key`, as far as it is still felt. Once for each decision.
  async refund(key, cost, decision) {
    const back = Math.min(this.checked(cost), decision.charged);
    if (back > 0) await this.send("refund", key, { refunds: [[decision.at, this.limit.step(back)]] });
  }

  // Forgets all that was charged to `key`.
  async reset(key) {
    await this.send("reset", key, {});
  }

  async ask(op, key, cost) {
    const step = this.limit.step(this.checked(cost));
    const { now, charged, found } = await this.send("judge", key, { batches: [[op, step]] });
    const admitted = op === 1 ? charged[0] === 1 : this.wouldPass(found[0], cost, now);
    const { wait, remaining, reset } = this.limit.verdict(found[0], cost, op === 1 && admitted, now);
    return new Decision(this.limit, {
      allowed: admitted,
      wait: admitted ? 0 : wait,
      remaining,
      reset,
      at: now,
      charged: op === 1 && admitted ? cost : 0,
    });
  }

  wouldPass(found, cost, now) {
    const { wait, remaining } = this.limit.verdict(found, cost, false, now);
    return wait !== null && cost <= remaining;
  }

  checked(cost) {
    if (!Number.isSafeInteger(cost) || cost < 1) throw new Error(`cost ${cost}: write a whole number from 1 on`);
    return cost;
  }

  async send(verb, subject, asked) {
    const { key, partition } = this.keys.of(subject);
    const name = `${this.prefix}/${partition % this.shards}`;
    const object = this.objects.get(this.objects.idFromName(name));
    const [status, text] = await object[verb](JSON.stringify({ keys: [key], ...asked }), this.shards);
    if (status !== 200) throw new Error(`the object answered ${status}: ${text}`);
    return JSON.parse(text);
  }
}

// Text, as an environment has it, or a number.
function shardsOf(shards) {
  const count = Number(shards);
  if (Number.isInteger(count) && count >= 1 && count <= MOST_SHARDS) return count;
  throw new Error(`shards ${JSON.stringify(shards)}: write a whole number from 1 to ${MOST_SHARDS}`);
}

// What was decided: `allowed`, the `limit`, how much is `remaining`, `retryAfterMs` (null if it can never pass) and
// `resetMs`, after which the key is as new.
export class Decision {
  constructor(limit, { allowed, wait, remaining, reset, at, charged }) {
    this.allowed = allowed;
    this.limit = limit.capacity;
    this.remaining = remaining;
    this.retryAfterMs = wait === null ? null : Math.ceil(wait / 1000);
    this.resetMs = Math.ceil(reset / 1000);
    this.at = at;
    this.charged = charged;
    this.of = limit;
    this.wait = wait;
    this.reset = reset;
  }

  // The headers that show what is left.
  headers() {
    const { of: limit, remaining } = this;
    const refused = !this.allowed && this.wait !== null;
    const bytes = limit.rate.unit === "bytes" ? ';qu="content-bytes"' : "";
    const policy = `"${limit.id}";q=${Math.min(this.limit, LARGEST)};w=${wholeSeconds(limit.window())}${bytes}`;
    const next = [limit.next(this), refused ? this.wait : null].filter((one) => one !== null);
    const time = next.length === 0 ? "" : `;t=${Math.ceil(Math.min(...next) / SECOND)}`;
    const headers = {
      "RateLimit-Policy": policy,
      RateLimit: `"${limit.id}";r=${Math.min(remaining, LARGEST)}${time}`,
      "X-RateLimit-Limit": String(this.limit),
      "X-RateLimit-Remaining": String(remaining),
      "X-RateLimit-Reset": String(Math.ceil((this.at + (refused ? this.wait : this.reset)) / SECOND)),
    };
    return refused ? { ...headers, "Retry-After": String(wholeSeconds(this.wait)) } : headers;
  }

  // The answer to a refused request.
  response(error = "rate_limited") {
    const { of: limit } = this;
    if (this.wait === null) {
      const status = limit.rate.unit === "bytes" ? 413 : 422;
      const detail = `this costs more than the limit ${limit.id} ever allows (${limit.rate.text}); send less`;
      const title = status === 413 ? "Payload Too Large" : "Unprocessable Entity";
      const problem = { type: "about:blank", title, status, error: "cost_exceeds_capacity", detail };
      return answer({ ...problem, "violated-policies": [limit.id] }, this.headers());
    }
    const seconds = wholeSeconds(this.wait);
    const problem = {
      type: `${TYPES}quota-exceeded`,
      title: "Request cannot be satisfied as assigned quota has been exceeded",
      status: 429,
      error,
      detail: `the limit ${limit.id} allows ${limit.rate.text}`,
      "violated-policies": [limit.id],
      retryAfter: seconds,
      resetAt: new Date(Math.ceil(this.at / 1000) + seconds * 1000).toISOString(),
      remaining: this.remaining,
    };
    return answer(problem, this.headers());
  }
}

// A handler for `fetch` behind a limit. `key` says whom a request is charged to, by default its address as Cloudflare gives
// it; `cost` what it costs, where 0 passes and is charged nothing. `onFailure` is "closed" (503 while the objects cannot be
// asked) or "open". With `silent` nothing is shown until the limit is exceeded. A key or a cost that is none is a mistake of
// the Worker, and ends the request as its other mistakes do: neither "open" nor "closed" is meant for that.
export function rateLimit(options, handler) {
  const { key = addressOf, cost = () => 1, error, onFailure = "closed", silent = false } = options;
  if (onFailure !== "closed" && onFailure !== "open") throw new Error('onFailure: write "closed" or "open"');
  // Refuses what makes no sense when the Worker starts, and not when it is first asked.
  const limit = new Limit(options);
  const limiters = new WeakMap();
  const limiterOf = (env) => {
    const objects = env[options.objects ?? "THRESHOLD"];
    if (!objects || !limiters.has(objects)) {
      const { prefix, shards = env.SHARDS } = options;
      const given = { id: limit.id, rate: options.rate, algorithm: limit.kind, prefix, shards };
      const limiter = new RateLimiter({ ...given, objects, secret: env[options.secret ?? "THRESHOLD_SECRET"] });
      limiters.set(objects, limiter);
    }
    return limiters.get(objects);
  };
  return async (request, env, ctx) => {
    const limiter = limiterOf(env);
    const [subject, price] = [await key(request, env), await cost(request, env)];
    limiter.keys.checked(subject);
    if (price === 0) return handler(request, env, ctx);
    limiter.checked(price);
    let decision;
    try {
      decision = await limiter.consume(subject, price);
    } catch (failure) {
      console.error(`limit ${limit.id}: ${failure.stack}`);
      return onFailure === "open" ? handler(request, env, ctx) : unavailable();
    }
    if (!decision.allowed) return decision.response(error);
    const response = await handler(request, env, ctx);
    return silent ? response : noted(response, decision);
  };
}

// Adds what is left to an answer. What another limiter has written stays: lists grow, and what names one limit is that of
// the one with the least left.
function noted(response, decision) {
  const shown = new Response(response.body, response);
  const theirs = shown.headers.get("X-RateLimit-Remaining");
  const tightest = theirs === null || decision.remaining < Number(theirs);
  for (const [name, value] of Object.entries(decision.headers())) {
    if (!name.startsWith("X-")) shown.headers.append(name, value);
    else if (tightest) shown.headers.set(name, value);
  }
  return shown;
}

function unavailable() {
  const problem = {
    type: `${TYPES}temporary-reduced-capacity`,
    title: "Request cannot be satisfied due to temporary server capacity constraints",
    status: 503,
    error: "temporarily_unavailable",
    detail: "limits cannot be checked just now",
    retryAfter: 1,
  };
  return answer(problem, { "Retry-After": "1" });
}

function answer(problem, headers) {
  const own = { "Content-Type": "application/problem+json", "Cache-Control": "no-store" };
  return new Response(JSON.stringify(problem), { status: problem.status, headers: { ...own, ...headers } });
}

function wholeSeconds(micros) {
  return Math.max(Math.ceil(micros / SECOND), 1);
}

// The address of who asks, as Cloudflare itself gives it: a client cannot set this header. Of an IPv6 address the network
// of 64 bits, because whoever has one address has them all.
export function addressOf(request) {
  const address = request.headers.get("CF-Connecting-IP");
  if (!address) throw new Error("CF-Connecting-IP is missing; give a `key` that says whom a request is charged to");
  if (!address.includes(":")) return address;
  const [head, tail = null] = address.split("::");
  const [before, behind] = [numbersOf(head), numbersOf(tail ?? "")];
  const groups = tail === null ? before : [...before, ...new Array(Math.max(8 - before.length - behind.length, 0)).fill(0), ...behind];
  // IPv4 in the clothes of IPv6 is that address of IPv4, however it is written.
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    return [groups[6] >> 8, groups[6] & 255, groups[7] >> 8, groups[7] & 255].join(".");
  }
  return `${groups.slice(0, 4).map((group) => group.toString(16)).join(":")}::/64`;
}

// The groups of one side of an address; one of IPv4 at its end is two.
function numbersOf(side) {
  if (side === "") return [];
  return side.split(":").flatMap((group) => {
    if (!group.includes(".")) return [parseInt(group, 16)];
    const [a, b, c, d] = group.split(".").map(Number);
    return [(a << 8) | b, (c << 8) | d];
  });
}
