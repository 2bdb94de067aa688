// A chat client that waits as long as it is told: chat.mjs [URL] [COUNT] [TYPE]
//
// Node has a WebSocket of its own from version 22 on; before that it needs `ws` from npm.

import { setTimeout as sleep } from "node:timers/promises";

const WebSocket = globalThis.WebSocket ?? (await import("ws")).WebSocket;
const [url = "ws://127.0.0.1:3004/chat?token=demo-alice", count = "120", type = "SendMessage"] = process.argv.slice(2);

/** Tells an answer from what others say. An error from before a message was read names none: then it is the one that waits. */
function answers(heard, id) {
  return heard.type === "ERROR" ? (heard.meta.correlationId ?? id) === id : heard.id === id;
}

/** Sends a message and waits for its answer. */
function ask(socket, message) {
  return new Promise((resolve) => {
    const hear = ({ data }) => {
      const heard = JSON.parse(data);
      if (!answers(heard, message.id)) return;
      socket.removeEventListener("message", hear);
      resolve(heard);
    };
    socket.addEventListener("message", hear);
    socket.send(JSON.stringify(message));
  });
}

/** Sends a message until it is taken, and says how often it was refused. */
async function send(socket, message) {
  for (let refused = 0; ; refused += 1) {
    const answer = await ask(socket, message);
    if (answer.type !== "ERROR") return refused;
    const { retryAfterMs, message: why } = answer.payload;
    if (retryAfterMs === null) stop(`${message.type} never passes: ${why}`);
    console.log(`refused, waiting ${retryAfterMs} ms`);
    await sleep(retryAfterMs);
  }
}

function stop(why) {
  console.error(why);
  process.exit(1);
}

const socket = new WebSocket(url);
socket.addEventListener("error", ({ message }) => stop(message));
socket.addEventListener("close", () => stop("the connection was closed"));
await new Promise((resolve) => socket.addEventListener("open", resolve));

let refused = await send(socket, { type: "Join", id: "join", room: "lobby" });
for (let number = 0; number < Number(count); number += 1) {
  refused += await send(socket, { type, id: String(number), room: "lobby", text: `message ${number}` });
}
console.log(`${count} messages sent, refused ${refused} times`);
process.exit(0);
