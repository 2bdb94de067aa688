// One limit: the numbers that its steps are judged by, and what is said to callers. Mirrors threshold-core's `mirror.rs` and
// the verdicts of its algorithms. Times are in microseconds.

import { BUCKET, FIXED, LOG, SLIDING } from "./request.js";
import { LARGEST_COUNT, LONGEST, readRate } from "./rate.js";
import { owed } from "./wide.js";

const NEVER = 2 ** 52;
const COUNTERS = 2 ** 38 - 1;
const SLICES = 4096;
const LONGEST_LOG = 10_000;
const DAY = 86_400e6;
const ID = /^[!#-[\]-~]{1,64}$/;

const KINDS = ["token-bucket", "fixed-window", "calendar-window", "sliding-window", "sliding-log"];
const MOST = { "sliding-window": COUNTERS, "sliding-log": LONGEST_LOG };

function divisorOfBoth(a, b) {
  while (b !== 0) [a, b] = [b, a % b];
  return a;
}

function roundedUp(a, divisor) {
  return (a + divisor - 1n) / divisor;
}

// A count in 38 bits; from 2^33 on it is rounded up, against the client.
function markOf(count) {
  let [short, doubled] = [count, 0];
  while (short >= 2 ** 33) {
    short = Math.ceil(short / 2);
    doubled += 1;
  }
  return doubled * 2 ** 33 + short;
}

export class Limit {
  constructor({ id, rate, algorithm = "token-bucket" }) {
    if (!ID.test(id ?? "")) throw new Error(`id ${JSON.stringify(id)}: write 1 to 64 printable characters without spaces, quotes or backslashes`);
    if (!KINDS.includes(algorithm)) throw new Error(`algorithm ${JSON.stringify(algorithm)}: write one of ${KINDS.join(", ")}`);
    this.id = id;
    this.kind = algorithm;
    this.rate = readRate(rate);
    const { count, period, burst } = this.rate;
    this.capacity = algorithm === "token-bucket" ? (burst ?? count) : count;
    if (algorithm !== "token-bucket" && burst !== null) throw new Error(`rate "${rate}": ${algorithm} has no burst; leave it out`);
    const most = MOST[algorithm] ?? LARGEST_COUNT;
    if (count > most) throw new Error(`rate "${rate}": ${algorithm} takes a count of at most ${most}`);
    if (algorithm === "calendar-window" && DAY % period !== 0) throw new Error(`rate "${rate}": a calendar window divides a day`);
    if (algorithm === "token-bucket") this.makeBucket();
    this.slice = Math.ceil(period / SLICES);
    this.slices = Math.ceil(period / this.slice);
  }

  makeBucket() {
    const { text, count, period } = this.rate;
    this.divisor = divisorOfBoth(period, count);
    this.interval = period / this.divisor;
    this.per = count / this.divisor;
    if (this.per > COUNTERS) throw new Error(`rate "${text}": it cannot be counted exactly; use a rounder number`);
    this.depth = this.price(this.capacity);
    if (this.depth[0] >= LONGEST) throw new Error(`rate "${text}": the bucket takes more than 3257 days to fill; lower the burst`);
    this.mark = markOf(count);
  }

  // What a cost adds to an instant and to its rest.
  price(cost) {
    const scaled = BigInt(cost) * BigInt(this.interval);
    return [Number(scaled / BigInt(this.per)), Number(scaled % BigInt(this.per))];
  }

  // The step for the key at place 0.
  step(cost) {
    const { count, period } = this.rate;
    const bounded = Math.min(cost, this.capacity + 1);
    switch (this.kind) {
      case "token-bucket": {
        const fits = bounded <= this.capacity;
        const price = fits ? this.price(bounded) : [NEVER, 0];
        const spare = fits ? this.capacity - bounded : 0;
        return [BUCKET, 0, 0, ...price, ...this.depth, this.per, this.mark, spare, period, this.divisor];
      }
      case "sliding-window":
        return [SLIDING, 0, 0, bounded, count, period, this.slice, this.slices];
      case "sliding-log":
        return [LOG, 0, 0, bounded, count, period];
      default:
        return [FIXED, 0, 0, bounded, count, period, this.kind === "calendar-window" ? 1 : 0];
    }
  }

  // What is said about a cost that met the state `found`: how long to wait (null if it never fits), how many more of cost 1
  // would pass now, and how long until the key is as new.
  verdict(found, cost, admitted, now) {
    const fits = cost <= this.capacity;
    const numbers = {
      "token-bucket": () => this.bucketVerdict(found, fits, cost, admitted, now),
      "sliding-window": () => this.slidingVerdict(found, cost, admitted, now),
      "sliding-log": () => this.logVerdict(found, cost, admitted, now),
    };
    const { wait, remaining, reset } = (numbers[this.kind] ?? (() => this.fixedVerdict(found, cost, admitted, now)))();
    return { allowed: admitted, wait: admitted ? 0 : fits ? wait : null, remaining, reset };
  }

  wide([micros, rest]) {
    return BigInt(micros) * BigInt(this.per) + BigInt(rest);
  }

  bucketVerdict(found, fits, cost, admitted, now) {
    const [at, first, second] = found ?? [0, 0, 0];
    const price = fits ? this.price(cost) : [0, 0];
    const end = this.wide([now + this.depth[0], this.depth[1]]);
    const here = this.wide([now, 0]);
    let start = at < now ? here : this.wide([at, first]);
    let [wait, reset] = [0, null];
    if (second !== this.mark && at >= now) {
      const [drain, due] = owed({ at, first, second }, now, this.rate.period);
      const whole = BigInt(this.capacity) * BigInt(this.rate.period);
      const spare = BigInt(this.capacity - Math.min(cost, this.capacity)) * BigInt(this.rate.period);
      start = due < whole ? here + roundedUp(due, BigInt(this.divisor)) : end;
      if (due > spare) wait = Number(roundedUp(due - spare, drain));
      if (!admitted) reset = at - now + (first > 0 ? 1 : 0);
    } else {
      const over = start + this.wide(price) - end;
      if (over > 0n) wait = this.micros(start + this.wide(price), end);
    }
    const tat = admitted ? start + this.wide(price) : start;
    const left = end > tat ? Number((end - tat) / BigInt(this.interval)) : 0;
    return { wait, remaining: left, reset: reset ?? Number(roundedUp(tat - here, BigInt(this.per))) };
  }

  // The microseconds between two instants, rounded up as threshold-core does: by whole ones, and one more for a rest.
  micros(later, earlier) {
    const per = BigInt(this.per);
    const whole = later / per - earlier / per;
    return Number(whole + (later % per > earlier % per ? 1n : 0n));
  }

  fixedVerdict(found, cost, admitted, now) {
    const { count, period } = this.rate;
    let [end, used] = found ?? [0, 0];
    if (now >= end) {
      end = now + period - (this.kind === "calendar-window" ? now % period : 0);
      used = 0;
    }
    if (admitted) used += cost;
    return { wait: end - now, remaining: Math.max(count - used, 0), reset: used === 0 ? 0 : end - now };
  }

  slidingVerdict(found, cost, admitted, now) {
    const { count, period } = this.rate;
    const [ends, first, second] = found ?? [0, 0, 0];
    let [start, previous, current] = [ends - 2 * period, first, second];
    if (now >= ends || (now >= start + period && current === 0)) [start, previous, current] = [now, 0, 0];
    else if (now >= start + period) [start, previous, current] = [start + period, current, 0];
    let wait = 0;
    if (!admitted && cost <= count) {
      const free = count - cost;
      const at =
        free >= current
          ? start + this.fadesTo(previous, free - current)
          : start + period + this.fadesTo(current, free);
      wait = at - now;
    }
    if (admitted) current += cost;
    const elapsed = Math.floor(Math.max(now - start, 0) / this.slice);
    const faded = previous === 0 ? 0 : Math.ceil((previous * (this.slices - elapsed)) / this.slices);
    const over = previous === 0 && current === 0 ? now : start + (current === 0 ? period : 2 * period);
    return { wait, remaining: Math.max(count - current - faded, 0), reset: over - now };
  }

  // How far into a window the previous one's share has faded to at most `allowed`.
  fadesTo(previous, allowed) {
    const slices = this.slices - Math.min(Math.floor((allowed * this.slices) / previous), this.slices);
    return Math.min(slices * this.slice, this.rate.period);
  }

  logVerdict(found, cost, admitted, now) {
    const { count, period } = this.rate;
    const [live, last, ...firsts] = found ?? [0, 0];
    const at = Math.max(now, last);
    let wait = 0;
    let needed = live + cost - count;
    for (let i = 0; i < firsts.length && needed > 0; i += 2) {
      needed -= firsts[i + 1];
      wait = firsts[i] + period - now;
    }
    const used = admitted ? live + cost : live;
    const newest = admitted ? at : live > 0 ? last : now - period;
    return { wait, remaining: Math.max(count - used, 0), reset: Math.max(newest + period - now, 0) };
  }

  // How long after a verdict one more would pass than it says; null where that is not known without the state.
  next({ remaining, reset }) {
    const missing = this.capacity - remaining;
    if (missing <= 0) return 0;
    if (this.kind === "token-bucket") {
      const later = Number((BigInt(missing - 1) * BigInt(this.interval)) / BigInt(this.per));
      return Math.max(reset - later, 0);
    }
    return this.kind === "fixed-window" || this.kind === "calendar-window" ? reset : null;
  }

  // How long it takes to allow the capacity once more.
  window() {
    if (this.kind !== "token-bucket") return this.rate.period;
    return Number(roundedUp(BigInt(this.capacity) * BigInt(this.interval), BigInt(this.per)));
  }
}

