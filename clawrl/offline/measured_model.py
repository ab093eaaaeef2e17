"""What `--model` names: weights of one's own, a run's version, or somebody's server.

smollm2-135m, qwen3-4b          an option of conf/model, with its settings
./folder, Qwen/Qwen3-4B         a model's folder or hub id
runs/NAME, runs/NAME@3          the newest version of a run, or that one; 0 is its base model
http://host:8000                an OpenAI-compatible server
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawrl import models
from clawrl.config import compose as composing
from clawrl.config.choices import options_of
from clawrl.config.schema import Config
from clawrl.engine.endpoint import Endpoint, is_url, served_model
from clawrl.errors import ConfigError, UserError, WeightsError
from clawrl.eval.evaluation.runner import Subject
from clawrl.loop.policy import Progress, open_engine, weights_path
from clawrl.protocols import Engine
from clawrl.records.folder import RunFolder
from clawrl.records.versions import read_meta, versions

API_KEY = "CLAWRL_API_KEY"
"""The variable that holds the key of a server at a URL."""
_PROMPT_TOKENS = 2048
"""Room for a task's prompt, where the context of a model is not configured."""
_LIST_TIMEOUT_S = 30.0
_TEMPLATE_FILES = ("chat_template.jinja", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """A model that was found, before anything is started."""

    subject: Subject
    config: Config
    """With the sections `model`, `engine` and `resources` as they are served."""
    context_tokens: int | None
    """None: a server that does not say."""
    template_sha: str | None
    """Of the chat template's files; None: a server's."""
    path: Path | None
    """The base model's folder; None: it is a server's."""
    weights: Path | None
    url: str | None


def configure(
    name: str | None,
    overrides: Sequence[str],
    *,
    config_dir: Path | None,
    max_tokens: int,
    progress: Progress,
) -> Config:
    """The configuration under which the model that `--model` names is served.

    Args:
        name: as typed; None: the recipe's.
        overrides: as typed; they win.
        config_dir: a folder of the user's own options.
        max_tokens: the task's longest reply, for a model whose context is configured nowhere.
        progress: is told what happens now; a model of the hub is fetched to read its context.

    Raises:
        ConfigError: a wrong override.
        ModelError: no such model.
        UserError: the model is named twice.
    """
    given = [override.lstrip("+").partition("=")[0] for override in overrides]
    run = _run_of(name) if name is not None else None
    if run is not None:
        return composing.load(run[0].config, overrides, config_dir=config_dir)
    if name is None or is_url(name):
        return composing.compose(overrides, config_dir=config_dir)
    for key in ("model", "model.name"):
        if key in given:
            raise UserError(f"--model {name} and {key}= both name the model: give one of them")
    roots = [composing.config_root() / "conf", *([config_dir] if config_dir else [])]
    if name in options_of("model", roots):
        return composing.compose([f"model={name}", *overrides], config_dir=config_dir)
    config = composing.compose(
        [f"model.name={json.dumps(name)}", *overrides], config_dir=config_dir
    )
    longest = None if "model.context_tokens" in given else _longest_context(name, progress)
    if longest is None:
        return config
    context = min(longest, max_tokens + _PROMPT_TOKENS)
    return config.model_copy(
        update={"model": config.model.model_copy(update={"context_tokens": context})}
    )


async def find_model(
    name: str | None, overrides: Sequence[str], config: Config, progress: Progress
) -> MeasuredModel:
    """Find the weights and their digest; nothing is started.

    Args:
        name: as typed; None: the recipe's model.
        overrides: as typed; `model.name` in them names a server's model.
        config: from `configure`.
        progress: is told what happens now.

    Raises:
        ModelError: no such model.
        UserError: no such run or version, or a server that does not answer.
        WeightsError: a version's files are not what the ledger says.
    """
    if name is not None and is_url(name):
        named = any(override.lstrip("+").startswith("model.name=") for override in overrides)
        return await _server(name, config, config.model.name if named else None)
    run = _run_of(name) if name is not None else None
    path = await asyncio.to_thread(models.prepare, config.model.name, progress=progress)
    version = None if run is None else _wanted_version(run[0], run[1])
    if run is not None and version:
        weights, digest = await asyncio.to_thread(_version_weights, run[0], path, version)
    else:
        weights, digest = path, await asyncio.to_thread(models.base_digest, path)
        config = config.model_copy(update={"model": config.model.model_copy(update={"lora": None})})
    args: dict[str, Any] = {"pretrained": config.model.name, "dtype": config.model.dtype}
    args["max_model_len"] = config.model.context_tokens
    shown = config.model.name
    if run is not None:
        shown = f"{run[0].root.name}@{version}"
        args |= {"run": str(run[0].root), "version": version}
    return MeasuredModel(
        Subject(shown, digest, version, "vllm", args),
        config,
        config.model.context_tokens,
        _template_sha(path),
        path,
        weights,
        None,
    )


@asynccontextmanager
async def open_model(model: MeasuredModel, log: Path, progress: Progress) -> AsyncGenerator[Engine]:
    """Serve it. Raises EngineError where the engine does not start."""
    if model.url is not None:
        async with Endpoint(
            model.url,
            model=model.config.model.name,
            api_key=os.environ.get(API_KEY),
            request_timeout_s=model.config.engine.request_timeout_s,
        ) as endpoint:
            yield endpoint
        return
    assert model.path is not None
    assert model.weights is not None
    async with open_engine(
        model.config,
        model.path,
        weights=model.weights,
        version=model.subject.version or 0,
        log=log,
        progress=progress,
    ) as (_server, engine):
        yield engine


async def _server(url: str, config: Config, wanted: str | None) -> MeasuredModel:
    name, context = await served_model(
        url, wanted, api_key=os.environ.get(API_KEY), timeout_s=_LIST_TIMEOUT_S
    )
    digest = hashlib.sha256(f"{url}\n{name}".encode()).hexdigest()
    note = (
        "the digest is of the address and the model's name: whether the server's weights have "
        "changed cannot be told"
    )
    args: dict[str, Any] = {"model": name, "base_url": url, "max_model_len": context}
    config = config.model_copy(
        update={"model": config.model.model_copy(update={"name": name, "lora": None})}
    )
    subject = Subject(name, digest, None, "openai-endpoint", args, note)
    return MeasuredModel(subject, config, context, None, None, None, url)


def _run_of(name: str) -> tuple[RunFolder, str | None] | None:
    """The run and the version's text; None: it is no run."""
    if (Path(name) / "config.yaml").is_file():
        return RunFolder.open(Path(name)), None
    folder, mark, version = name.rpartition("@")
    if mark and (Path(folder) / "config.yaml").is_file():
        return RunFolder.open(Path(folder)), version
    return None


def _wanted_version(folder: RunFolder, wanted: str | None) -> int:
    """The version's number. Raises UserError where it is none of this run's, or is gone."""
    known = [update.version for update in folder.surviving_updates()]
    if wanted is None:
        return known[-1] if known else 0
    there = ", ".join(map(str, [0, *sorted(set(known) & set(versions(folder.weights)))]))
    try:
        version = int(wanted.removeprefix("v"))
    except ValueError:
        raise UserError(
            f"{folder.root}@{wanted}: a version is a number; there are: {there}"
        ) from None
    if version != 0 and version not in known:
        raise UserError(f"{folder.root}: it has no version {version}; there are: {there}")
    return version


def _version_weights(folder: RunFolder, path: Path, version: int) -> tuple[Path, str]:
    digest = {update.version: update.digest_after for update in folder.surviving_updates()}[version]
    weights = weights_path(folder, path, version)
    if not weights.is_dir():
        there = ", ".join(map(str, [0, *versions(folder.weights)]))
        raise UserError(
            f"{folder.root}: the weights of version {version} are gone (weights.keep); "
            f"there are: {there}"
        )
    found = read_meta(weights).digest
    if found != digest:
        raise WeightsError(
            f"{weights}: holds other weights ({found[:12]}) than the ledger says ({digest[:12]})"
        )
    return weights, digest


def _longest_context(name: str, progress: Progress) -> int | None:
    """What the model's own configuration states; None: it is silent."""
    folder = models.prepare(name, progress=progress)
    try:
        stated: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    longest = stated.get("max_position_embeddings") if isinstance(stated, dict) else None
    if longest is not None and (not isinstance(longest, int) or longest < 64):
        raise ConfigError("model.context_tokens", f"{folder}: set it; the model says {longest!r}")
    return longest


def _template_sha(path: Path) -> str:
    """The chat template is no part of the weights' digest, yet decides what the model reads."""
    sha = hashlib.sha256()
    for name in _TEMPLATE_FILES:
        file = path / name
        sha.update(file.read_bytes() if file.is_file() else b"-")
    return sha.hexdigest()
