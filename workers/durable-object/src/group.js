// Judges batches one after the other and charges each: all of it or nothing. Mirrors the transition of threshold-core, and
// says no more than whether each was charged and what was found before the first; the numbers for callers follow from that.

import { judge, NONE, refund } from "./cells.js";
import { FoundLog, FoundPermits } from "./lists.js";
import { ACQUIRE, APPLY, LOG, UNFIT } from "./request.js";

const OBSERVES = 1;
const CHECKS = 2;

// The groups of several requests share the states and the time.
export class Group {
  constructor(states, now) {
    this.states = states;
    this.now = now;
  }

  judge({ keys, batches }) {
    this.keys = keys;
    this.found = new Array(keys.length).fill(undefined);
    this.named = null;
    this.batches = batches;
    this.states.load(this.cellKeys());
    const charged = batches.map((batch) => (this.batch(batch) ? 1 : 0));
    return { now: this.now, charged, found: this.found.map(said) };
  }

  cellKeys() {
    const places = new Set();
    for (const batch of this.batches) {
      for (let i = 1; i < batch.length; i++) {
        const [what, , place] = batch[i];
        if (what !== UNFIT && what < LOG) places.add(place);
      }
    }
    return [...places].map((place) => this.keys[place]);
  }

  batch(batch) {
    const undos = [];
    let refused = false;
    // Before the first charge and at no other time: what may yet be taken back proves nothing about the time.
    for (let i = 1; i < batch.length; i++) this.open(batch[i]);
    for (let i = 1; i < batch.length; i++) {
      const step = batch[i];
      if (!this.step(step, undos) && (step[1] & OBSERVES) === 0) refused = true;
    }
    const charged = batch[0] === APPLY && !refused;
    for (let i = undos.length - 1; i >= 0; i--) {
      const { key, cell, list, undo } = undos[i];
      if (list) charged ? list.settle(undo) : list.undo(undo);
      else if (charged) this.states.dirty.add(key);
      else this.states.setCell(key, cell);
    }
    return charged;
  }

  // Looks at a key for the first time, and has a list forget what is over.
  open([what, , place, ...numbers]) {
    const key = this.keys[place];
    if (what === UNFIT) {
      // Refused whatever there is; but a list that is named forgets what is over.
      if (numbers[0] === LOG) this.states.log(key).tidy(numbers[1]);
      if (numbers[0] === ACQUIRE) this.states.permitsOf(key).tidy(numbers[1]);
      return;
    }
    if (what < LOG) {
      this.found[place] ??= this.states.cell(key);
    } else if (what === LOG) {
      const log = this.states.log(key);
      log.tidy(numbers[2]);
      this.found[place] ??= new FoundLog(log, this.now);
    } else {
      const permits = this.states.permitsOf(key);
      permits.tidy(numbers[3]);
      this.found[place] ??= new FoundPermits(permits, this.now, this.namesOf(place));
    }
  }

  namesOf(place) {
    if (!this.named) {
      this.named = this.keys.map(() => new Set());
      for (const batch of this.batches) {
        for (const step of batch.slice(1)) {
          if (step[0] >= ACQUIRE) this.named[step[2]].add(step[3]);
        }
      }
    }
    return this.named[place];
  }

  // True if the step is admitted; it is then charged, unless it only checks.
  step(step, undos) {
    const [what, flags, place] = step;
    if (what === UNFIT) return false;
    const key = this.keys[place];
    if (what >= LOG) return this.listed(step, key, undos);
    const cell = this.states.cell(key);
    const after = judge(cell, step, this.now);
    if (after && (flags & CHECKS) === 0) {
      undos.push({ key, cell });
      this.states.setCell(key, after);
    }
    return after !== null;
  }

  listed(step, key, undos) {
    const [what, , place, first, second, third] = step;
    const list = what === LOG ? this.states.log(key) : this.states.permitsOf(key);
    const { admitted, needed, undo } =
      what === LOG ? list.consume(first, second, this.now) : list.act(what, first, second, third, this.now);
    if (!admitted) this.found[place].refused(needed);
    else if (undo) undos.push({ list, undo });
    return admitted;
  }

  refund({ keys, refunds }) {
    this.states.load(keys);
    for (const [chargedAt, ...steps] of refunds) {
      for (const step of steps) this.takeBack(step, keys[step[2]], chargedAt);
    }
    return { now: this.now };
  }

  takeBack(step, key, chargedAt) {
    if (step[0] === LOG) {
      const log = this.states.log(key);
      log.period = step[5];
      log.refund(chargedAt, step[3]);
      return;
    }
    const before = this.states.cell(key);
    if (step[0] >= LOG || before === NONE) return;
    const after = refund(before, step, chargedAt, this.now);
    if (after !== before) {
      this.states.setCell(key, after);
      this.states.dirty.add(key);
    }
  }
}

function said(found) {
  if (found === undefined || found === NONE) return null;
  return found.said ? found.said() : [found.at, found.first, found.second];
}
