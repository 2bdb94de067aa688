// States that are lists: the admissions of a sliding log, and the permits of a concurrency limit. Mirrors threshold-core's
// `state.rs`, `sliding_log.rs` and `concurrency.rs`.

import { ACQUIRE, RENEW } from "./request.js";

// The admissions of one key, oldest first.
export class Log {
  constructor(entries) {
    this.entries = entries;
    this.cost = entries.reduce((sum, entry) => sum + entry.cost, 0);
    // What has to be written: the instants that changed, and up to when all is gone.
    this.touched = new Set();
    this.gone = null;
    this.period = 0;
    // How long it was when it was last counted.
    this.counted = 0;
  }

  get size() {
    return 1 + this.entries.length;
  }

  get isDirty() {
    return this.touched.size > 0 || this.gone !== null;
  }

  get last() {
    return this.entries.length === 0 ? 0 : this.entries[this.entries.length - 1].at;
  }

  // Forgets what had left the window when the last entry was made. Later is too late to forget: an entry that may yet be
  // taken back proves nothing about the time.
  tidy(period) {
    this.period = period;
    const gone = this.last - period;
    let first = 0;
    while (first < this.entries.length && this.entries[first].at <= gone) {
      this.cost -= this.entries[first].cost;
      first += 1;
    }
    if (first > 0) {
      this.entries.splice(0, first);
      this.gone = gone;
    }
  }

  notBefore(now) {
    return Math.max(now, this.last);
  }

  live(at) {
    let cost = this.cost;
    for (const entry of this.entries) {
      if (entry.at > at - this.period) break;
      cost -= entry.cost;
    }
    return cost;
  }

  // How much has to leave before the cost passes: nothing if it does now, and then it is written down.
  consume(cost, count, now) {
    if (cost > count) return { admitted: false, needed: 0 };
    const at = this.notBefore(now);
    const needed = this.live(at) + cost - count;
    if (needed > 0) return { admitted: false, needed };
    this.cost += cost;
    const last = this.entries[this.entries.length - 1];
    if (last && last.at === at) {
      last.cost += cost;
    } else {
      this.entries.push({ at, cost });
    }
    return { admitted: true, undo: { at, cost } };
  }

  undo({ cost }) {
    this.cost -= cost;
    const last = this.entries[this.entries.length - 1];
    last.cost -= cost;
    if (last.cost === 0) this.entries.pop();
  }

  settle({ at }) {
    this.touched.add(at);
  }

  refund(at, cost) {
    const index = this.entries.findIndex((entry) => entry.at === at);
    if (index < 0) return;
    const back = Math.min(cost, this.entries[index].cost);
    this.entries[index].cost -= back;
    this.cost -= back;
    if (this.entries[index].cost === 0) this.entries.splice(index, 1);
    this.touched.add(at);
  }
}

// What a group met of a log: what was live, the last, and the first that have to leave before a refused one passes.
export class FoundLog {
  constructor(log, now) {
    this.log = log;
    this.at = log.notBefore(now);
    this.live = log.live(this.at);
    this.last = log.last;
    this.needed = 0;
    this.firsts = [];
  }

  refused(needed) {
    if (needed <= this.needed) return;
    this.needed = needed;
    this.firsts = [];
    // What the group itself wrote down stands behind what was there before, or in its last entry.
    let rest = this.live;
    for (const entry of this.log.entries) {
      if (rest === 0 || needed <= 0) break;
      if (entry.at <= this.at - this.log.period) continue;
      const cost = Math.min(entry.cost, rest);
      this.firsts.push(entry.at, cost);
      rest -= cost;
      needed -= cost;
    }
  }

  said() {
    return [this.live, this.last, ...this.firsts];
  }
}

// The permits of one key that are out, the first to lapse first.
export class Permits {
  constructor(held) {
    this.held = held;
    this.touched = new Set();
    this.lifetime = 0;
    this.counted = 0;
  }

  get size() {
    return 1 + this.held.length;
  }

  get isDirty() {
    return this.touched.size > 0;
  }

  notBefore(now) {
    const latest = this.held[this.held.length - 1];
    return latest ? Math.max(now, latest.expires - this.lifetime) : now;
  }

  // Drops what had lapsed when the latest permit was taken or renewed.
  tidy(lifetime) {
    this.lifetime = lifetime;
    const taken = this.notBefore(0);
    let first = 0;
    while (first < this.held.length && this.held[first].expires <= taken) {
      this.touched.add(this.held[first].id);
      first += 1;
    }
    if (first > 0) this.held.splice(0, first);
  }

  add(permit) {
    let place = this.held.length;
    while (place > 0 && this.held[place - 1].expires > permit.expires) place -= 1;
    this.held.splice(place, 0, permit);
  }

  remove(id) {
    const index = this.held.findIndex((permit) => permit.id === id);
    return index < 0 ? null : this.held.splice(index, 1)[0];
  }

  used(at) {
    return this.held.reduce((sum, permit) => sum + (permit.expires > at ? permit.cost : 0), 0);
  }

  // Keeps the permit that is held; none if it is not, or has lapsed.
  extend(id, at) {
    const before = this.held.find((permit) => permit.id === id && permit.expires > at);
    if (!before) return null;
    this.remove(id);
    this.add({ ...before, expires: Math.max(before.expires, at + this.lifetime) });
    return { id, before };
  }

  act(what, id, cost, count, now) {
    const at = this.notBefore(now);
    if (what === RENEW) {
      const undo = this.extend(id, at);
      return { admitted: undo !== null, needed: 0, undo };
    }
    if (what !== ACQUIRE) {
      const before = this.remove(id);
      return { admitted: true, undo: before && { id, before } };
    }
    const kept = this.extend(id, at);
    if (kept) return { admitted: true, undo: kept };
    if (cost > count) return { admitted: false, needed: 0 };
    const needed = this.used(at) + cost - count;
    if (needed > 0) return { admitted: false, needed };
    // One that lapsed may still stand under the same name.
    const before = this.remove(id);
    this.add({ id, expires: at + this.lifetime, cost });
    return { admitted: true, undo: { id, before } };
  }

  undo({ id, before }) {
    this.remove(id);
    if (before) this.add(before);
  }

  settle({ id }) {
    this.touched.add(id);
  }
}

// What a group met of permits: those that it names, the others as one that lapses with their last, and the first of the
// others as far as a refused one has to wait for them.
export class FoundPermits {
  constructor(permits, now, named) {
    const at = permits.notBefore(now);
    const live = permits.held.filter((permit) => permit.expires > at);
    // Copies of the list, not of the permits: those are replaced and never changed.
    this.named = live.filter((permit) => named.has(permit.id));
    this.others = live.filter((permit) => !named.has(permit.id));
    this.needed = 0;
  }

  refused(needed) {
    this.needed = Math.max(this.needed, needed);
  }

  said() {
    const rest = this.others.reduce((sum, permit) => sum + permit.cost, 0);
    const last = this.others.length === 0 ? 0 : this.others[this.others.length - 1].expires;
    const rows = this.named.slice();
    let needed = this.needed;
    for (const permit of this.others) {
      if (needed <= 0) break;
      rows.push(permit);
      needed -= permit.cost;
    }
    const said = rows.flatMap(({ id, expires, cost }) => [id, expires, cost]);
    return [rest, last, this.named.length, ...said];
  }
}
