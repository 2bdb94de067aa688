// States of three numbers: token buckets, fixed windows and sliding windows. Only sums and comparisons of whole numbers
// below 2^53, so every result is exact. Mirrors threshold-core's algorithms; a step is laid out as `request.js` says.

import { BUCKET, FIXED, SLIDING } from "./request.js";
import { carry, giveBack } from "./wide.js";

// A price that no bucket admits.
const NEVER = 2 ** 52;

export const NONE = Object.freeze({ at: 0, first: 0, second: 0 });

// The state that an admission leaves behind; none if the step is refused.
export function judge(cell, step, now) {
  switch (step[0]) {
    case BUCKET:
      return bucket(cell, step, now);
    case FIXED:
      return fixed(cell, step, now);
    case SLIDING:
      return sliding(cell, step, now);
    default:
      return null;
  }
}

function bucket(cell, step, now) {
  const [, , , price, fine, depth, rest, per, mark, spare, period, divisor] = step;
  let [at, first] = [cell.at, cell.first];
  if (at < now) {
    [at, first] = [now, 0];
  } else if (cell.second !== mark) {
    const carried = price < NEVER ? carry(cell, now, { per, spare, period, divisor }) : null;
    if (!carried) return null;
    [at, first] = carried;
  }
  at += price;
  first += fine;
  if (first >= per) {
    at += 1;
    first -= per;
  }
  const latest = now + depth;
  const admitted = at < latest || (at === latest && first <= rest);
  return admitted ? { at, first, second: mark } : null;
}

function fixed(cell, step, now) {
  const [, , , cost, count, period, calendar] = step;
  let [at, used] = [cell.at, cell.first];
  if (now >= at) {
    at = now + period - (calendar === 1 ? now % period : 0);
    used = 0;
  }
  return used + cost <= count ? { at, first: used + cost, second: 0 } : null;
}

function windows(cell, period, now) {
  const from = cell.at - 2 * period;
  if (now >= cell.at || (now >= from + period && cell.second === 0)) return [now, 0, 0];
  if (now >= from + period) return [from + period, cell.second, 0];
  return [from, cell.first, cell.second];
}

function sliding(cell, step, now) {
  const [, , , cost, count, period, slice, slices] = step;
  const [from, previous, current] = windows(cell, period, now);
  const elapsed = Math.floor(Math.max(now - from, 0) / slice);
  const free = count - current - cost;
  const admitted = free >= 0 && previous * (slices - elapsed) <= free * slices;
  return admitted ? { at: from + 2 * period, first: previous, second: current + cost } : null;
}

// What is left of a state when a charge is taken back, as far as it is still felt.
export function refund(cell, step, chargedAt, now) {
  switch (step[0]) {
    case BUCKET:
      return refundBucket(cell, step, chargedAt, now);
    case FIXED:
      return refundFixed(cell, step, chargedAt, now);
    case SLIDING:
      return refundSliding(cell, step, chargedAt, now);
    default:
      return cell;
  }
}

function refundBucket(cell, step, chargedAt, now) {
  const [, , , price, fine, , , per, mark, , period, divisor] = step;
  const gone = Math.max(now - chargedAt, 0);
  if (cell.second !== mark) {
    if (cell.at < now) return cell;
    const left = giveBack(cell, now, gone, { price, fine, per, period, divisor });
    return left === 0 ? NONE : { at: left, first: 0, second: cell.second };
  }
  if (price < gone) return cell;
  let [at, first] = cell.at < now ? [now, 0] : [cell.at, cell.first];
  at -= price - gone;
  first -= fine;
  if (first < 0) {
    at -= 1;
    first += per;
  }
  if (at < now || (at === now && first === 0)) return NONE;
  return { at, first, second: mark };
}

function refundFixed(cell, step, chargedAt, now) {
  const [, , , cost, , period] = step;
  if (now >= cell.at || cell.first === 0 || chargedAt < cell.at - period) return cell;
  return cell.first <= cost ? NONE : { at: cell.at, first: cell.first - cost, second: 0 };
}

function refundSliding(cell, step, chargedAt, now) {
  const [, , , cost, , period] = step;
  let [from, previous, current] = windows(cell, period, now);
  if (chargedAt >= from) {
    current = Math.max(current - cost, 0);
  } else if (chargedAt >= from - period) {
    previous = Math.max(previous - cost, 0);
  }
  if (previous === 0 && current === 0) return NONE;
  return { at: from + 2 * period, first: previous, second: current };
}
