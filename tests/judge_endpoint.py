"""An endpoint for LLM judges that answers from a script."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

HINT = "\\boxed{1}[HINT_START]Write two sentences.[HINT_END]"


class Endpoint:
    """OpenAI-compatible; answers from a list of votes and remembers what it got.

    A number is an HTTP status, None repeats the turn that the judge was shown.
    """

    def __init__(self, votes, hint=HINT, delay_s=0.0):
        self.votes = list(votes)
        self.hint = hint
        self.delay_s = delay_s
        self.bodies = []
        self.keys = []
        self.at_once = self.most_at_once = 0

    async def complete(self, request):
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers.get("authorization"))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.delay_s)
        finally:
            self.at_once -= 1
        hinting = "HINT_START" in body["messages"][0]["content"]
        text = self.hint if hinting else self.votes.pop(0)
        if text is None:
            text = body["messages"][1]["content"]
        if text == "no json":
            return PlainTextResponse("no json")
        if isinstance(text, int):
            return JSONResponse({"error": {"message": "no"}}, status_code=text)
        message = {"role": "assistant", "content": text}
        return JSONResponse(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
            }
        )


@asynccontextmanager
async def serving(endpoint):
    app = Starlette(routes=[Route("/v1/chat/completions", endpoint.complete, methods=["POST"])])
    config = uvicorn.Config(app, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await task
        listener.close()
