// Keys: who is limited by what, as 128 bits that say nothing about either. The same keys that threshold-core makes of the
// same secret and the same texts, so that Workers and programs with the Rust library can share a limit.

const BITS = 64n;
const WORD = (1n << BITS) - 1n;
const ENCODER = new TextEncoder();

function rotated(word, by) {
  return ((word << by) | (word >> (BITS - by))) & WORD;
}

function round(v) {
  v[0] = (v[0] + v[1]) & WORD;
  v[1] = rotated(v[1], 13n) ^ v[0];
  v[0] = rotated(v[0], 32n);
  v[2] = (v[2] + v[3]) & WORD;
  v[3] = rotated(v[3], 16n) ^ v[2];
  v[0] = (v[0] + v[3]) & WORD;
  v[3] = rotated(v[3], 21n) ^ v[0];
  v[2] = (v[2] + v[1]) & WORD;
  v[1] = rotated(v[1], 17n) ^ v[2];
  v[2] = rotated(v[2], 32n);
}

function absorb(v, word) {
  v[3] ^= word;
  round(v);
  v[0] ^= word;
}

function squeezed(v) {
  round(v);
  round(v);
  round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

// SipHash-1-3 with a result of 128 bits: its lower half and its upper.
function hash([key0, key1], bytes) {
  const v = [
    key0 ^ 0x736f6d6570736575n,
    key1 ^ 0x646f72616e646f6dn ^ 0xeen,
    key0 ^ 0x6c7967656e657261n,
    key1 ^ 0x7465646279746573n,
  ];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const whole = bytes.length - (bytes.length % 8);
  for (let i = 0; i < whole; i += 8) absorb(v, view.getBigUint64(i, true));
  let last = BigInt(bytes.length & 0xff) << 56n;
  for (let i = whole; i < bytes.length; i++) last |= BigInt(bytes[i]) << BigInt(8 * (i - whole));
  absorb(v, last);
  v[2] ^= 0xeen;
  const low = squeezed(v);
  v[1] ^= 0xddn;
  return [low, squeezed(v)];
}

function joined(pieces) {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

function word(number) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(number), true);
  return bytes;
}

// A length and then the bytes, so that no two lists of parts read the same.
function fed(parts) {
  return joined(parts.flatMap((part) => [word(part.length), part]));
}

function padded(part) {
  return joined([part, new Uint8Array((8 - (part.length % 8)) % 8)]);
}

const text = (string) => ENCODER.encode(string);

// Makes the keys of one limit's subjects.
export class Keys {
  constructor(secret, { id, kind, rate }) {
    const words = hash([0n, 0n], fed([text("secret"), text(secret)]));
    const derived = (purpose) => hash(words, fed([text(purpose), text(id), text(kind), word(rate.period), text(rate.unit)]));
    this.one = derived("one");
    this.several = derived("several");
    this.partitions = hash(words, fed([text("purpose"), text("partitions")]));
  }

  // Refuses what is no subject: as text it would be the same for many.
  checked(subject) {
    const parts = Array.isArray(subject) ? subject : [subject];
    if (parts.length === 0 || parts.some((part) => typeof part !== "string")) {
      throw new Error(`key ${JSON.stringify(subject)}: give a text, or a list of texts, that says who is limited`);
    }
    return parts;
  }

  // The key of a subject, which is a text or a list of texts, and its partition: that of its first part that is not empty.
  of(subject) {
    const parts = this.checked(subject).map(text);
    const [low, high] =
      parts.length === 1
        ? hash(this.one, parts[0])
        : hash(this.several, joined(parts.flatMap((part) => [word(part.length), padded(part)])));
    const first = parts.find((part) => part.length > 0) ?? new Uint8Array(0);
    const partition = Number(hash(this.partitions, padded(first))[0] & 0xffffn);
    return { key: ((high << BITS) | low).toString(16).padStart(32, "0"), partition };
  }
}
