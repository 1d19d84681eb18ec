"""A hop between a client and a provider that reads nothing: uvicorn, h11 and httpx2 alone."""

import sys
from typing import Any

import httpx2
import uvicorn

Message = dict[str, Any]
_PASSED = {b"content-type", b"content-length"}


class BareHop:
    def __init__(self, port: int) -> None:
        self.client = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60)

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = [pair for pair in scope["headers"] if pair[0] in _PASSED]
        async with self.client.stream(
            "POST", scope["path"], content=body, headers=headers
        ) as response:
            head = [pair for pair in response.headers.raw if pair[0].lower() in _PASSED]
            await send({
                "type": "http.response.start", "status": response.status_code, "headers": head,
            })  # fmt: skip
            async for part in response.aiter_raw():
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    uvicorn.run(
        BareHop(int(sys.argv[2])), uds=sys.argv[1], http="h11", loop="asyncio", lifespan="off",
        log_level="error",
    )  # fmt: skip
