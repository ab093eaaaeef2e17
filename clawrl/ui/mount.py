"""The page as an ASGI application, under the gateway's own checks."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clawrl.ui.page import Page

PATH = "/ui"
_POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:"
"""Gradio's page asks for fonts and scripts elsewhere: nothing leaves the machine."""


@asynccontextmanager
async def open_page(page: Page, check: Callable[[Headers], None]) -> AsyncGenerator[ASGIApp]:
    """Build the page and keep what Gradio does beside answering going.

    Args:
        page: what it shows.
        check: raises where a request comes from another site's page.
    """
    await asyncio.to_thread(importlib.import_module, "gradio")  # seconds
    import gradio
    from fastapi import FastAPI
    from gradio.themes import Default

    blocks = page.blocks()  # here: in a thread it would leave an event loop behind
    plain = Default(font=["system-ui", "sans-serif"], font_mono=["monospace"])
    parent = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    gradio.mount_gradio_app(
        parent, blocks, PATH, ssr_mode=False, theme=plain, footer_links=[], run_history=False
    )
    inner: ASGIApp = parent.routes[-1].app  # pyright: ignore[reportAttributeAccessIssue]
    async with parent.router.lifespan_context(parent):
        yield _Checked(inner, check)


class _Checked:
    """Lets in what the gateway would let in, and keeps the browser from asking elsewhere."""

    def __init__(self, app: ASGIApp, check: Callable[[Headers], None]) -> None:
        self._app = app
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then answer. Raises what `check` raises."""
        if scope["type"] == "http":
            self._check(Headers(scope=scope))

        async def with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["content-security-policy"] = _POLICY
            await send(message)

        await self._app(scope, receive, with_policy)
