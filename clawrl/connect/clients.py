"""What each client's configuration must say. Pure: a file's text in, its new text out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from clawrl.errors import UserError

Json = dict[str, Any]
PROVIDER = "clawrl"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A gateway as clients see it."""

    base_url: str
    """With `/v1`."""
    model: str
    api_key: str
    context_tokens: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Client:
    """An agent whose configuration is one file."""

    name: str
    path: Path
    """Below the home folder."""
    connected: Callable[[str, Endpoint], str]
    """The file's text, as it is and as it must be. Raises UserError where it cannot be read."""


def openclaw(text: str, to: Endpoint) -> str:
    """OpenClaw's `openclaw.json`: a provider, and the default agent's model."""
    config = _json(text)
    _at(config, "models", "providers")[PROVIDER] = {
        "baseUrl": to.base_url,
        "apiKey": to.api_key,
        "api": "openai-completions",
        "models": [
            {
                "id": to.model,
                "name": to.model,
                "contextWindow": to.context_tokens,
                "maxTokens": to.max_tokens,
                "compat": {"supportsPromptCacheKey": True},
            }
        ],
    }
    _at(config, "agents", "defaults", "model")["primary"] = f"{PROVIDER}/{to.model}"
    return _dumped(config)


def opencode(text: str, to: Endpoint) -> str:
    """Opencode's `opencode.json`: a provider, and the model in use."""
    config = _json(text)
    config.setdefault("$schema", "https://opencode.ai/config.json")
    _at(config, "provider")[PROVIDER] = {
        "npm": "@ai-sdk/openai-compatible",
        "name": PROVIDER,
        "options": {"baseURL": to.base_url, "apiKey": to.api_key},
        "models": {
            to.model: {
                "name": to.model,
                "limit": {"context": to.context_tokens, "output": to.max_tokens},
            }
        },
    }
    config["model"] = f"{PROVIDER}/{to.model}"
    return _dumped(config)


def codex(text: str, to: Endpoint) -> str:
    """Codex's `config.toml`: a provider, and the model in use."""
    try:
        config = tomlkit.parse(text)
    except TOMLKitError as error:
        raise UserError(f"it is not valid TOML: {error}") from None
    tables: Any = config
    providers = tables.setdefault("model_providers", tomlkit.table(is_super_table=True))
    providers[PROVIDER] = {
        "name": PROVIDER,
        "base_url": to.base_url,
        "wire_api": "responses",
        "http_headers": {"Authorization": f"Bearer {to.api_key}"},
    }
    tables["model"] = to.model
    tables["model_provider"] = PROVIDER
    tables["model_context_window"] = to.context_tokens
    return tomlkit.dumps(config)


CLIENTS = {
    client.name: client
    for client in (
        Client("openclaw", Path(".openclaw/openclaw.json"), openclaw),
        Client("codex", Path(".codex/config.toml"), codex),
        Client("opencode", Path(".config/opencode/opencode.json"), opencode),
    )
}


def _json(text: str) -> Json:
    try:
        config: Any = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise UserError(f"it is not plain JSON ({error})") from None
    if not isinstance(config, dict):
        raise UserError("it holds no JSON object")
    return config


def _at(config: Json, *names: str) -> Json:
    """The object at a path, made where it is missing."""
    for name in names:
        inner = config.setdefault(name, {})
        if not isinstance(inner, dict):
            raise UserError(f"'{name}' in it is no object")
        config = inner
    return config


def _dumped(config: Json) -> str:
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"
