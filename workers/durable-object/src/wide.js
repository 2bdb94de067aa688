// Buckets whose rate has changed since they were charged: what is owed stays owed, in tokens. The products do not fit
// into a double, so these few lines count with big integers. Mirrors threshold-core's `token_bucket/changed.rs`.

const COUNTS = 2 ** 33;

function divisorOfBoth(a, b) {
  while (b !== 0) [a, b] = [b, a % b];
  return a;
}

function roundedUp(a, divisor) {
  return (a + divisor - 1n) / divisor;
}

// The count of the rate that a mark stands for, and what is owed under it, in tokens times the period.
export function owed({ at, first, second: mark }, now, period) {
  const [short, doubled] = [mark % COUNTS, Math.floor(mark / COUNTS)];
  const count = Math.max(short * 2 ** doubled, 1);
  let more = first > 0 ? BigInt(count) : 0n;
  if (doubled === 0) more = BigInt(first) * BigInt(divisorOfBoth(period, count));
  return [BigInt(count), BigInt(at - now) * BigInt(count) + more];
}

// The instant and the rest from which a price counts under the new rate; none if it is refused.
export function carry(cell, now, { per, spare, period, divisor }) {
  const [, due] = owed(cell, now, period);
  if (due > BigInt(spare) * BigInt(period)) return null;
  const whole = roundedUp(due, BigInt(divisor));
  return [now + Number(whole / BigInt(per)), Number(whole % BigInt(per))];
}

// The instant that is left after a price is taken back; 0 if nothing is.
export function giveBack(cell, now, gone, { price, fine, per, period, divisor }) {
  const [drain, due] = owed(cell, now, period);
  const count = BigInt(per) * BigInt(divisor);
  const whole = BigInt(price) * count + BigInt(fine) * BigInt(divisor);
  const faded = BigInt(gone) * (drain > count ? drain : count);
  const back = whole > faded ? whole - faded : 0n;
  const left = due > back ? Number(roundedUp(due - back, drain)) : 0;
  return left === 0 ? 0 : Math.min(now + left, cell.at);
}
