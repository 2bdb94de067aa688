// Reads what a request asks for and refuses what makes no sense: what is wrong, where, and how to put it right.

// What a step is judged by.
export const UNFIT = 0;
export const BUCKET = 1;
export const FIXED = 2;
export const SLIDING = 3;
export const LOG = 4;
export const ACQUIRE = 5;
export const RENEW = 6;
export const RELEASE = 7;

export const APPLY = 1;
export const PEEK = 2;

// The largest of each kind of number, as threshold-core has them: sums of them are exact in a double.
const COST = 2 ** 52;
const COUNTER = 2 ** 38;
const SPAN = 2 ** 48;
const LISTED = 10_000;

// The numbers that follow the key, each from its least to its most.
const ZERO_TO = (most) => [0, most];
const ONE_TO = (most) => [1, most];
const PERMIT = { name: "permit", numbers: [ZERO_TO(LISTED + 1), ZERO_TO(LISTED), ONE_TO(SPAN)] };
const TIDIED = { name: "unfit with a list", numbers: [[LOG, ACQUIRE], ONE_TO(SPAN)] };
const SHAPES = [
  { name: "unfit", numbers: [] },
  {
    name: "bucket",
    numbers: [COST, COUNTER, SPAN, COUNTER].map(ZERO_TO).concat(
      [ONE_TO(COUNTER), ZERO_TO(COUNTER), ZERO_TO(COST), ONE_TO(SPAN), ONE_TO(COST)],
    ),
  },
  { name: "fixed window", numbers: [ONE_TO(COST), ZERO_TO(COST), ONE_TO(SPAN), ZERO_TO(1)] },
  { name: "sliding window", numbers: [ONE_TO(COST), ZERO_TO(COUNTER), ONE_TO(SPAN), ONE_TO(SPAN), ONE_TO(4096)] },
  { name: "log", numbers: [ONE_TO(COST), ZERO_TO(LISTED), ONE_TO(SPAN)] },
  PERMIT,
  PERMIT,
  PERMIT,
];

// The most of one request. Others on the same object wait no longer than for so many.
export const MOST = { bytes: 1 << 20, keys: 4096, batches: 1024, steps: 4096 };

const HEX = /^[0-9a-f]{32}$/;
// A list of one such text reads as that text, and is none.
const isHex = (value) => typeof value === "string" && HEX.test(value);

export class Malformed extends Error {}

function wrong(where, what) {
  throw new Malformed(`${where}: ${what}`);
}

function whole(number, where, [least, most] = [0, COST]) {
  if (!Number.isSafeInteger(number) || number < least || number > most) {
    wrong(where, `write a whole number from ${least} to ${most}`);
  }
}

function list(value, where, most) {
  if (!Array.isArray(value)) wrong(where, "write a list");
  if (value.length > most) wrong(where, `write at most ${most}; send the rest in another request`);
}

function readStep(step, keys, where) {
  list(step, where, 12);
  // Not a text: lists have members of such names.
  if (!Number.isSafeInteger(step[0]) || !SHAPES[step[0]]) {
    wrong(`${where}[0]`, `write what it is judged by, from 0 to ${SHAPES.length - 1}`);
  }
  const shape = step[0] === UNFIT && step.length > 3 ? TIDIED : SHAPES[step[0]];
  // A permit has a name before its numbers.
  const first = shape === PERMIT ? 4 : 3;
  const length = first + shape.numbers.length;
  if (step.length !== length) wrong(where, `a ${shape.name} has ${length} members`);
  whole(step[1], `${where}[1]`);
  if (step[1] > 3) wrong(`${where}[1]`, "write 1 if it only observes, plus 2 if it only checks");
  whole(step[2], `${where}[2]`);
  if (step[2] >= keys) wrong(`${where}[2]`, `write the place of a key; there are ${keys}`);
  if (first === 4 && !isHex(step[3])) wrong(`${where}[3]`, "write the permit as 32 hexadecimal digits");
  shape.numbers.forEach((bounds, i) => whole(step[first + i], `${where}[${first + i}]`, bounds));
}

// A key has one kind of state, because what it is judged by is a part of it.
function readKind([what, , place], kinds, where) {
  if (what === UNFIT) return;
  const kind = what < LOG ? BUCKET : Math.min(what, ACQUIRE);
  kinds[place] ??= kind;
  if (kinds[place] !== kind) wrong(where, "this key is judged as another kind of state before");
}

function readBatches(batches, keys, where, readFirst) {
  list(batches, where, MOST.batches);
  const kinds = new Array(keys);
  let steps = 0;
  batches.forEach((batch, index) => {
    const here = `${where}[${index}]`;
    list(batch, here, MOST.steps + 1);
    readFirst(batch[0], `${here}[0]`);
    for (let i = 1; i < batch.length; i++) {
      readStep(batch[i], keys, `${here}[${i}]`);
      readKind(batch[i], kinds, `${here}[${i}]`);
    }
    steps += batch.length - 1;
  });
  if (steps > MOST.steps) wrong(where, `write at most ${MOST.steps} steps; send the rest in another request`);
}

function parse(text) {
  let body;
  try {
    body = JSON.parse(text);
  } catch (error) {
    wrong("body", `write JSON; ${error.message}`);
  }
  if (body === null || typeof body !== "object" || Array.isArray(body)) wrong("body", "write an object");
  if (body.now !== undefined) whole(body.now, "now", [1, COST]);
  return body;
}

export function readKeys(keys) {
  list(keys, "keys", MOST.keys);
  keys.forEach((key, index) => {
    if (!isHex(key)) wrong(`keys[${index}]`, "write the key as 32 hexadecimal digits");
  });
}

export function readJudge(text) {
  const body = parse(text);
  readKeys(body.keys);
  readBatches(body.batches, body.keys.length, "batches", (op, where) => {
    if (op !== APPLY && op !== PEEK) wrong(where, "write 1 to charge or 2 to look");
  });
  return body;
}

export function readRefund(text) {
  const body = parse(text);
  readKeys(body.keys);
  readBatches(body.refunds, body.keys.length, "refunds", (at, where) => whole(at, where));
  return body;
}

export function readReset(text) {
  const body = parse(text);
  readKeys(body.keys);
  return body;
}

export function readOpen(text) {
  const body = parse(text);
  for (const name of ["secret", "previous"]) {
    if (body[name] !== undefined && !isHex(body[name])) {
      wrong(name, "write the fingerprint as 32 hexadecimal digits");
    }
  }
  return body;
}
