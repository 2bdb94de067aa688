// What decisions are measured against: a Durable Object that is asked in the same way and answers the same to everybody.

import { DurableObject } from "cloudflare:workers";

export class Constant extends DurableObject {
  answer() {
    return '{"now":0,"charged":[1],"found":[null]}';
  }
}

export default {
  async fetch(request, env) {
    const shard = new URL(request.url).searchParams.get("shard");
    const text = await env.CONSTANT.get(env.CONSTANT.idFromName(shard)).answer();
    return new Response(text, { headers: { "content-type": "application/json" } });
  },
};
