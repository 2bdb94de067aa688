// The Durable Object: one shard of the keys, one thread, one database.

import { DurableObject } from "cloudflare:workers";

import { Group } from "./group.js";
import { Malformed, readJudge, readOpen, readRefund, readReset } from "./request.js";
import { States } from "./states.js";

// The version of what is said between nodes and this Worker.
const VERSION = 1;
const HOUR = 3_600_000;
// How often the time is written down, in microseconds: a row for every decision would double what decisions cost.
const NOTED_EVERY = 1_000_000;

// A turn that has not come after so many milliseconds never will.
const LOST = 100;

export class ThresholdObject extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.states = new States(ctx.storage.sql);
    this.last = this.noted = this.states.note("last") ?? 0;
    this.waiting = [];
    // When the last turn was asked for.
    this.turn = 0;
    // An alarm that was set before a restart still stands: to set it anew would put the sweep off with every restart.
    ctx.blockConcurrencyWhile(async () => {
      this.armed = (await ctx.storage.getAlarm()) !== null;
    });
  }

  // Each of these takes the text of a request and gives a status and the text of an answer.

  // Limits of Workers say over how many shards they are spread; nodes have asked `open`.

  judge(text, shards) {
    return this.queued(text, readJudge, (group, asked) => this.misplaced(shards) ?? group.judge(asked));
  }

  refund(text, shards) {
    return this.queued(text, readRefund, (group, asked) => this.misplaced(shards) ?? group.refund(asked));
  }

  reset(text, shards) {
    return this.queued(text, readReset, (group, { keys }) => {
      const misplaced = this.misplaced(shards);
      if (misplaced) return misplaced;
      this.states.reset(keys);
      return { now: group.now };
    });
  }

  // Keeps the fingerprint of the secret and the number of shards, and says what is kept.
  open(text, shards) {
    return this.queued(text, readOpen, (group, { secret, previous }) => {
      const kept = this.states.note("secret");
      const misplaced = this.misplaced(shards, Boolean(secret));
      if (misplaced) return misplaced;
      if (secret && (kept === undefined || kept === previous)) this.states.setNote("secret", secret);
      return { version: VERSION, now: group.now, secret: this.states.note("secret") ?? null, shards };
    });
  }

  // Keeps the number of shards the first time, if it is to be kept, and refuses any other.
  misplaced(shards, keep = true) {
    if (shards === undefined || shards === this.shards) return null;
    const kept = this.states.note("shards");
    if (kept === undefined && !keep) return null;
    if (kept === undefined) this.states.setNote("shards", shards);
    this.shards = kept ?? shards;
    if (shards === this.shards) return null;
    // Keys would be looked for where they are not, and every limit would start afresh.
    const remedy = `set SHARDS to ${kept} again, or choose another prefix`;
    return [409, `what is kept here is spread over ${kept} shards, not ${shards}; ${remedy}`];
  }

  // Whatever comes while others are on their way is judged together and written as one: a write to disk takes far longer
  // than a decision.
  queued(text, read, run) {
    let asked;
    try {
      asked = read(text);
      if (asked.now !== undefined && this.env.TEST_CLOCK !== "allowed") {
        throw new Malformed("now: the time is this object's own; leave it out");
      }
    } catch (error) {
      if (error instanceof Malformed) return [400, error.message];
      throw error;
    }
    return new Promise((answer) => {
      this.waiting.push({ asked, run, answer });
      // One turn for all who wait: an object has 10,000 of them at most. If it should not come, the next takes another.
      if (this.waiting.length === 1 || Date.now() > this.turn + LOST) {
        this.turn = Date.now();
        setTimeout(() => this.work(), 0);
      }
    });
  }

  work() {
    const jobs = this.waiting;
    if (jobs.length === 0) return;
    this.waiting = [];
    let answers;
    try {
      const { said, wrote } = this.ctx.storage.transactionSync(() => this.workOn(jobs));
      answers = said;
      if (wrote) this.noted = wrote.last;
      if (wrote && !this.armed) this.arm(HOUR);
    } catch (error) {
      this.states.forget();
      this.shards = undefined;
      // Nothing of it was kept: all or nothing.
      console.error(`nothing was charged: ${error.stack}`);
      const said = `the object could not write: ${error.message}`;
      answers = jobs.map(() => [503, said]);
    }
    jobs.forEach(({ answer }, index) => answer(answers[index]));
  }

  workOn(jobs) {
    const now = this.now();
    const said = jobs.map(({ asked, run }) => {
      const group = new Group(this.states, asked.now ?? now);
      const answer = run(group, asked);
      return Array.isArray(answer) ? answer : [200, JSON.stringify(answer)];
    });
    if (!this.states.flush()) return { said };
    const isDue = this.last >= this.noted + NOTED_EVERY;
    if (isDue) this.states.setNote("last", this.last);
    return { said, wrote: { last: isDue ? this.last : this.noted } };
  }

  // The time, in microseconds. It stands still while the object works, and it never goes back: not behind what it was in
  // this life of the object, and not more than a second behind its last charge in the life before. What is admitted within that
  // second is bounded all the same, because no state lets a time before its own admit more.
  now() {
    this.last = Math.max(this.last, Date.now() * 1000);
    return this.last;
  }

  // Sets the alarm. If that fails, the next write tries it again.
  async arm(later) {
    this.armed = true;
    try {
      await this.ctx.storage.setAlarm(Date.now() + later);
    } catch (error) {
      this.armed = false;
      console.error(`no alarm was set: ${error.stack}`);
    }
  }

  // The hourly sweep, a page at a time: others are let in between two pages. An alarm that fails is tried again a few times
  // and then forgotten, so failures end here and the next hour has its own.
  async alarm() {
    let next = HOUR;
    try {
      const [full, empty] = this.ctx.storage.transactionSync(() => {
        const full = this.states.sweep(this.now());
        return [full, this.states.isEmpty()];
      });
      if (full) next = 0;
      else if (empty) next = null;
    } catch (error) {
      this.states.forget();
      console.error(`nothing was swept: ${error.stack}`);
    }
    this.armed = false;
    if (next !== null) await this.arm(next);
  }
}
