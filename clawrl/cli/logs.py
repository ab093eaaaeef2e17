"""Where log lines go: warnings to stderr, everything of a run to its own file."""

from __future__ import annotations

import logging
import os
from pathlib import Path

FORM = "%(asctime)s %(levelname)s %(name)s %(message)s"


def show_warnings(debug: bool) -> None:
    """Warnings (or, when debugging, everything of ours) on stderr."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.DEBUG if debug else logging.WARNING)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger("clawrl").setLevel(logging.DEBUG if debug else logging.INFO)


def log_to(path: Path) -> None:
    """Everything of clawrl's own into a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter(FORM))
    logging.getLogger("clawrl").addHandler(handler)


def quiet_libraries() -> None:
    """Libraries' progress bars and notices off: ours say what people need."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for name in ("httpx", "httpcore", "openai", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.WARNING)
