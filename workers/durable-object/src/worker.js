// The door: who may ask, how much, and which object answers. One request carries many batches for one shard.

import { MOST } from "./request.js";

export { ThresholdObject } from "./object.js";

const SHARDS = 128;
const PREFIX = /^[A-Za-z0-9._:-]{1,64}$/;
const VERBS = new Set(["judge", "refund", "reset"]);

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    const verb = url.pathname.startsWith("/v1/") ? url.pathname.slice(4) : "";
    if (!VERBS.has(verb) && verb !== "open" && verb !== "health") {
      return refusal(404, `there is nothing at ${url.pathname}; ask /v1/judge, refund, reset, open or health`);
    }
    if (!env.THRESHOLD_TOKEN) {
      return refusal(500, "no token is set, so nobody may ask; set one with `wrangler secret put THRESHOLD_TOKEN`");
    }
    if (!isAllowed(request.headers.get("authorization"), env.THRESHOLD_TOKEN)) {
      return refusal(401, "the token is missing or wrong; send `Authorization: Bearer TOKEN`", {
        "www-authenticate": "Bearer",
      });
    }
    try {
      return await answer(request, env, url.searchParams, verb);
    } catch (error) {
      console.error(error.stack);
      return refusal(503, `the object did not answer: ${error.message}`);
    }
  },
};

async function answer(request, env, asked, verb) {
  const prefix = asked.get("prefix") ?? "threshold";
  if (!PREFIX.test(prefix)) return refusal(400, "prefix: write up to 64 letters, digits, -, _, . and :");
  const shards = shardsOf(env);
  if (verb === "health") {
    const [status, text] = await objectOf(env, prefix, "root").open("{}", shards);
    return said(status, text);
  }
  if (request.method !== "POST") return refusal(405, "send it as POST", { allow: "POST" });
  const length = request.headers.get("content-length");
  if (length === null) return refusal(411, "say how long the body is: send Content-Length");
  if (!(Number(length) <= MOST.bytes)) {
    return refusal(413, `the body is longer than ${MOST.bytes} bytes; send the rest in another request`);
  }
  if (verb === "open") {
    const [status, text] = await objectOf(env, prefix, "root").open(await request.text(), shards);
    return said(status, text);
  }
  const [shard, of] = [Number(asked.get("shard") ?? "-1"), Number(asked.get("shards") ?? shards)];
  if (of !== shards) {
    // Keys would be looked for where they are not, and every limit would start afresh.
    return refusal(409, `there are ${shards} shards here, not ${of}; open the store again`);
  }
  if (!Number.isInteger(shard) || shard < 0 || shard >= shards) {
    return refusal(400, `shard: write a whole number from 0 to ${shards - 1}`);
  }
  const [status, text] = await objectOf(env, prefix, shard)[verb](await request.text());
  return said(status, text);
}

export function shardsOf(env) {
  const shards = Number(env.SHARDS ?? SHARDS);
  if (!Number.isInteger(shards) || shards < 1 || shards > 4096) {
    throw new Error("SHARDS: write a whole number from 1 to 4096");
  }
  return shards;
}

export function objectOf(env, prefix, shard) {
  return env.THRESHOLD.get(env.THRESHOLD.idFromName(`${prefix}/${shard}`));
}

function said(status, text) {
  if (status !== 200) return refusal(status, text);
  return new Response(text, { headers: { "content-type": "application/json" } });
}

function refusal(status, detail, headers = {}) {
  const body = JSON.stringify({ status, detail });
  return new Response(body, { status, headers: { "content-type": "application/problem+json", ...headers } });
}

// Takes as long for a wrong token as for the right one: it never stops at the first letter that differs.
function isAllowed(header, token) {
  const given = header ?? "";
  const right = `Bearer ${token}`;
  let different = given.length ^ right.length;
  for (let i = 0; i < right.length; i++) different |= right.charCodeAt(i) ^ given.charCodeAt(i % (given.length || 1));
  return different === 0;
}
