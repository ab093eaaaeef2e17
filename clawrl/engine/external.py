"""A vLLM server that somebody else runs: what it serves."""

from __future__ import annotations

import httpx

from clawrl.errors import EngineError

ASK_TIMEOUT_S = 10.0


async def external_model(base_url: str) -> str:
    """The name of the first model that a server serves.

    Args:
        base_url: without `/v1`.

    Raises:
        EngineError: it does not answer, or not as an OpenAI-compatible server does.
    """
    where = f"{base_url}/v1/models"
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=ASK_TIMEOUT_S) as client:
            answer = await client.get(where)
            answer.raise_for_status()
            return str(answer.json()["data"][0]["id"])
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise EngineError(f"engine.base_url: {where} does not answer: {error}") from None
    except (ValueError, LookupError, TypeError):
        raise EngineError(f"engine.base_url: {where} lists no model") from None
