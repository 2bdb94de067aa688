// What the server is asked.

const KEPT = "threshold-token";
const BASE = "/api/admin/";

/** Why something was not done. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail ?? body?.title ?? `the server answered ${status}`);
    this.status = status;
    this.error = body?.error;
    this.retryAfter = body?.retryAfter;
  }

  /** Whether the same may work later: the server was not there, or not well. */
  get passing() {
    return this.status === 0 || this.status >= 500;
  }
}

/** The token is this tab's alone, and gone with it. Nothing is sent that a page of somebody else could send too. */
export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (value) => sessionStorage.setItem(KEPT, value),
  forget: () => sessionStorage.removeItem(KEPT),
};

async function send(method, path, body, signal) {
  const headers = { authorization: `Bearer ${token.get()}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  const sent = { method, headers, signal, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body) };
  const response = await fetch(BASE + path, sent).catch((error) => {
    // Who stopped it itself knows why.
    if (signal?.aborted && signal.reason?.name !== "TimeoutError") throw error;
    throw new Problem(0, { detail: "the server does not answer" });
  });
  if (response.ok) return response;
  throw new Problem(response.status, await response.json().catch(() => null));
}

const patience = () => AbortSignal.timeout(10_000);
export const get = async (path, signal) => (await send("GET", path, undefined, signal ?? patience())).json();
export const post = async (path, body) => (await send("POST", path, body, AbortSignal.timeout(60_000))).json();
export const put = async (path, body) => (await send("PUT", path, body, patience())).json();
export const remove = async (path) => (await send("DELETE", path, undefined, patience())).json();
export const named = (name) => encodeURIComponent(name);

/** Hands every event to `hear` until `signal` says stop or the connection ends. */
export async function listen(query, hear, signal) {
  const response = await send("GET", `events${query}`, undefined, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    kept += value;
    const whole = kept.split("\n\n");
    kept = whole.pop();
    for (const one of whole) {
      const data = one.split("\n").find((line) => line.startsWith("data: "));
      if (data) hear(JSON.parse(data.slice(6)));
    }
  }
}
