// Speaks to a server as applications with node-redis do: both versions, and commands that go together by themselves.

const assert = require("node:assert");
const [, , modulePath, port] = process.argv;
const { createClient } = require(modulePath);

const KEY = "a-key-of-the-application";

async function ask(version) {
  const client = createClient({ url: `redis://app:${KEY}@127.0.0.1:${port}`, RESP: version, name: "node" });
  client.on("error", (error) => {
    throw error;
  });
  await client.connect();
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.sendCommand(["CLIENT", "GETNAME"]), "node");
  const call = ["CL.THROTTLE", `node:${version}`, "9", "1", "3600"];
  assert.deepEqual(await client.sendCommand(call), [0, 10, 9, -1, 3600]);
  const replies = await Promise.all(Array.from({ length: 30 }, () => client.sendCommand(call)));
  assert.equal(replies.filter(([limited]) => limited === 0).length, 9);
  const charged = await client.sendCommand(["THRESHOLD.CONSUME", "uploads", `node:${version}`]);
  const remaining = version === 3 ? (charged.get?.("remaining") ?? charged.remaining) : charged[11];
  assert.equal(remaining, 9);
  await assert.rejects(client.sendCommand(["CL.THROTTLE", "k", "1", "0", "1"]), /count must be/);
  await client.close();
}

async function main() {
  await ask(2);
  await ask(3);
  const stranger = createClient({ socket: { host: "127.0.0.1", port: Number(port), reconnectStrategy: false } });
  stranger.on("error", () => {});
  await assert.rejects(async () => {
    await stranger.connect();
    await stranger.ping();
  }, /NOAUTH/);
  stranger.destroy();
  console.log("well");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
