"""A bare server of event streams on asyncio: BYTES each EVERY seconds to all that are connected.

It reads a request to its end, knows no login, renders nothing and writes a block made beforehand.
It prints its port.
"""

import asyncio
import sys

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


async def main(size: int, every: float) -> None:
    writers: set[asyncio.StreamWriter] = set()
    block = b"data: " + b"x" * max(0, size - 8) + b"\n\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        writers.add(writer)
        await reader.read()
        writers.discard(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    while True:
        for writer in list(writers):
            writer.write(block)
        await asyncio.sleep(every)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
