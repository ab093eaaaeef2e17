"""`python -m clawrl.learner RUN --until VERSION`: the learner process.

Started by the supervisor, alone or under `torchrun` or `accelerate launch`. The base model's folder
comes in CLAWRL_MODEL_PATH, everything else from the run's config.yaml. SIGTERM: the step that has
begun is finished, a checkpoint saved, exit 0. An error that clawrl knows is one line and exits with
2 (the user's to fix) or 1.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path

import torch
import yaml
from accelerate import Accelerator
from pydantic import ValidationError
from transformers.utils import logging as transformers_logging

from clawrl.config import schema
from clawrl.errors import ClawRLError, ConfigError, UserError
from clawrl.learner.command import MODEL_PATH
from clawrl.learner.program import Learner, Options
from clawrl.learner.rank import Rank
from clawrl.records.folder import LEDGER_LINES, RunFolder, surviving
from clawrl.records.jsonl import read

log = logging.getLogger("clawrl.learner")


def main() -> int:
    """Run one process; returns its exit code."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    stop = threading.Event()

    def finish(signum: int, frame: object) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, finish)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
    try:
        options = _options()
        config = load_config(options.run)
        accelerator = Accelerator(
            cpu=not config.resources.learner_gpus,
            mixed_precision=config.learner.mixed_precision,
        )
        rank = Rank(
            device=accelerator.device,
            index=accelerator.process_index,
            count=accelerator.num_processes,
            bf16=config.learner.mixed_precision == "bf16",
        )
        log.info("rank=%d of %d threads=%d", rank.index, rank.count, torch.get_num_threads())
        Learner(options, config, rank).run(stopping=stop.is_set)
        accelerator.end_training()
    except ClawRLError as error:
        log.error("%s", error)
        return 2 if isinstance(error, UserError) else 1
    except OSError as error:
        log.error("cannot go on: %s; free space or mend the disk, then resume the run", error)
        return 1
    return 0


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m clawrl.learner", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--until", type=int, required=True, metavar="VERSION")
    parser.add_argument("--replay", type=Path, metavar="LEDGER")
    parser.add_argument("--no-staleness", action="store_true")
    known = parser.parse_args()
    model_path = os.environ.get(MODEL_PATH)
    if not model_path:
        raise UserError(f"set {MODEL_PATH} to the folder of the base model")
    replay = surviving(read(known.replay, LEDGER_LINES)) if known.replay else None
    return Options(
        run=known.run,
        model_path=Path(model_path),
        until=known.until,
        replay=replay,
        bound_staleness=not known.no_staleness,
    )


def load_config(run: Path) -> schema.Config:
    """The configuration that a run was started with. Raises ConfigError, UserError."""
    path = RunFolder.open(run).config
    try:
        return schema.Config.model_validate(yaml.safe_load(path.read_text()))
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(".".join(map(str, first["loc"])), first["msg"]) from None


if __name__ == "__main__":
    sys.exit(main())
