// The connection to the server: the latest seconds of traffic, once a second, and what is known when it is lost.

import { Problem, get } from "./api.js";

const KEPT = 300;
const hearers = new Set();

export const link = {
  /** "waiting", "live" or "lost". */
  state: "waiting",
  /** When something was last heard. */
  heard: null,
  why: "",
  /** Seconds, oldest first. */
  samples: [],
  latest: null,
  status: null,
};

let running = null;

/** Calls `hear` with the link whenever there is something new; returns how to stop that. */
export function follow(hear) {
  hearers.add(hear);
  hear(link);
  return () => hearers.delete(hear);
}

/** Does `work` for what `element` shows once the server is heard again. */
export function whenBack(element, work) {
  const lost = Date.now();
  const hear = ({ state, heard }) => {
    if (state !== "live" || heard <= lost) return;
    hearers.delete(hear);
    if (element.isConnected) work();
  };
  hearers.add(hear);
}

function tell() {
  for (const hear of hearers) hear(link);
}

/** A sample says how much there was in so many seconds: mostly one. */
function perSecond({ at, seconds, layers, ...counts }) {
  const each = (all) => Object.fromEntries(Object.entries(all).map(([name, count]) => [name, count / seconds]));
  const layer = ([name, met]) => [name, each(met)];
  return { at, ...each(counts), layers: Object.fromEntries(Object.entries(layers).map(layer)) };
}

/** Seconds that were not there before; those of another start of the server are not joined to ours. */
function take(traffic) {
  if (link.latest && traffic.started !== link.latest.started) link.samples = [];
  const last = link.samples.at(-1)?.at ?? 0;
  link.samples.push(...traffic.samples.filter((sample) => sample.at > last).map(perSecond));
  link.samples = link.samples.slice(-KEPT);
  link.latest = traffic;
}

async function once(turn) {
  const last = link.samples.at(-1)?.at;
  const traffic = await get(last === undefined ? "traffic" : `traffic?after=${last}`, AbortSignal.timeout(4_000));
  if (turn % 5 === 0 || link.state !== "live") link.status = await get("rate-limit-status", AbortSignal.timeout(4_000));
  take(traffic);
}

/** Begins; `refused` is called if the token is no longer good. */
export function begin(refused) {
  stop();
  const mine = (running = {});
  Object.assign(link, { state: "waiting", heard: null, samples: [], latest: null, status: null });
  let turn = 0;
  const step = async () => {
    if (running !== mine) return;
    let wait = 1_000;
    try {
      await once(turn);
      turn += 1;
      if (running !== mine) return;
      Object.assign(link, { state: "live", heard: Date.now(), why: "" });
    } catch (error) {
      if (running !== mine) return;
      if (error instanceof Problem && (error.status === 401 || error.status === 403)) return refused(error);
      const busy = error instanceof Problem && error.status === 429;
      link.why = error instanceof Problem ? error.message : "the server does not answer";
      link.state = "lost";
      wait = busy ? 1_000 * (error.retryAfter ?? 5) : 2_000;
    }
    tell();
    setTimeout(step, document.hidden ? wait * 5 : wait);
  };
  step();
}

export function stop() {
  running = null;
}
