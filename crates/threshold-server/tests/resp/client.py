"""Speaks to a server as applications with redis-py do: both versions, pools, pipelines, asyncio."""

import asyncio
import sys
import threading

import redis

KEY = "a-key-of-the-application"
PORT = int(sys.argv[1])


def ask(protocol):
    client = redis.Redis(port=PORT, password=KEY, protocol=protocol, client_name="py")
    assert client.ping()
    assert client.echo("hi") in (b"hi", "hi")
    assert client.client_getname() in (b"py", "py")
    key = f"py:{protocol}"
    assert client.execute_command("CL.THROTTLE", key, 2, 1, 3600) == [0, 3, 2, -1, 3600]
    with client.pipeline(transaction=False) as pipeline:
        for _ in range(5):
            pipeline.execute_command("CL.THROTTLE", key, 2, 1, 3600)
        limited = [reply[0] for reply in pipeline.execute()]
    assert limited == [0, 0, 1, 1, 1], limited
    charged = client.execute_command("THRESHOLD.CONSUME", "uploads", key, 3)
    if protocol == 3:
        charged = {name.decode(): value for name, value in charged.items()}
        assert charged["allowed"] is True and charged["remaining"] == 7, charged
    else:
        assert charged[:2] == [b"allowed", 1], charged
    try:
        client.execute_command("CL.THROTTLE", key, 2, 0, 3600)
        raise SystemExit("no error")
    except redis.ResponseError as error:
        assert "count must be" in str(error), error
    return client


for version in (2, 3):
    ask(version)

try:
    redis.Redis(port=PORT, password="wrong").ping()
    raise SystemExit("let in")
except redis.AuthenticationError:
    pass
assert redis.Redis(port=PORT, username="app", password=KEY).ping()

shared = redis.Redis(port=PORT, password=KEY)
log = []


def caller():
    for _ in range(50):
        log.append(shared.execute_command("THROTTLE", "py:crowd", 100, 100, 86400)[0])


threads = [threading.Thread(target=caller) for _ in range(10)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert (len(log), sum(log)) == (500, 100), (len(log), sum(log))


async def asynchronous():
    client = redis.asyncio.Redis(port=PORT, password=KEY, protocol=3)
    calls = [client.execute_command("CL.THROTTLE", "py:async", 9, 1, 3600) for _ in range(30)]
    replies = await asyncio.gather(*calls)
    assert sum(reply[0] == 0 for reply in replies) == 10, replies
    await client.aclose()


asyncio.run(asynchronous())
print("well")
