"""Sends one message to 127.0.0.1:PORT by the library websockets, and exits with 0 if a message comes back.

PORT
"""
import asyncio
import sys

import websockets


async def ask():
    url = f"ws://127.0.0.1:{sys.argv[1]}/"
    async with websockets.connect(url, open_timeout=2, close_timeout=0.2, max_size=None, compression=None) as socket:
        await socket.send("ping")
        await asyncio.wait_for(socket.recv(), 2)


try:
    asyncio.run(ask())
except BaseException:
    sys.exit(1)
sys.exit(0)
