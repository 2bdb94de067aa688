"""A chat client that waits as long as it is told.

    chat.py [URL] [COUNT] [TYPE]

It needs `websockets` from PyPI.
"""

import asyncio
import json
import sys

from websockets.asyncio.client import connect

URL = "ws://127.0.0.1:3004/chat?token=demo-alice"


def answers(heard, message_id):
    """Tells an answer from what others say.

    An error from before a message was read names none: then it is for the one that waits.
    """
    if heard["type"] == "ERROR":
        return heard["meta"].get("correlationId", message_id) == message_id
    return heard.get("id") == message_id


async def ask(socket, message):
    """Sends a message and waits for its answer."""
    await socket.send(json.dumps(message))
    async for text in socket:
        heard = json.loads(text)
        if answers(heard, message["id"]):
            return heard
    sys.exit("the connection was closed")


async def send(socket, message):
    """Sends a message until it is taken, and says how often it was refused."""
    refused = 0
    while True:
        answer = await ask(socket, message)
        if answer["type"] != "ERROR":
            return refused
        error = answer["payload"]
        if error["retryAfterMs"] is None:
            sys.exit(f"{message['type']} never passes: {error['message']}")
        refused += 1
        print(f"refused, waiting {error['retryAfterMs']} ms", flush=True)
        await asyncio.sleep(error["retryAfterMs"] / 1000)


async def main(url=URL, count="120", kind="SendMessage"):
    async with connect(url) as socket:
        refused = await send(socket, {"type": "Join", "id": "join", "room": "lobby"})
        for number in range(int(count)):
            message = {"type": kind, "id": str(number), "room": "lobby", "text": f"message {number}"}
            refused += await send(socket, message)
        print(f"{count} messages sent, refused {refused} times")


asyncio.run(main(*sys.argv[1:]))
