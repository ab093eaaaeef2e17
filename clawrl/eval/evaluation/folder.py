"""The folder of one evaluation: what was measured how, every generation, and the results.

    runs/evals/aime24-0123456789ab/
      eval.json           what was measured, written before the first request
      generations.jsonl   one line for each reply, in the order in which they ended
      results.json        once all are there; the layout of lm-evaluation-harness
      engine.log          of the engine, if one was started

Its name holds the key: model, task, sampling and seed. Whoever asks for the same finds the folder
again and goes on in it; the number of samples is not part of the key. One process writes at a time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clawrl.errors import MachineError, UserError
from clawrl.eval.evaluation.generation import Generation
from clawrl.records.jsonl import read
from clawrl.records.nouns import Record

_KEY_LETTERS = 12


class EvalInfo(Record):
    """What an evaluation measures: `eval.json`."""

    task: str
    task_digest: str
    model: str
    model_digest: str
    version: int | None
    """Of a run's weights; None: the model is no run's."""
    sampling: dict[str, Any]
    """All that decides how replies are drawn, apart from weights and seed."""
    seed: int
    """Sample s of item i is drawn with seed + 1000 i + s."""
    metric: str
    items: int
    created: float
    """Unix seconds."""

    @property
    def key(self) -> str:
        """sha256 (hex) of what decides the generations and their scores."""
        decides = [self.model_digest, self.task_digest, self.sampling, self.seed]
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class EvalFolder:
    """The paths and records of one evaluation."""

    root: Path

    @classmethod
    def of(cls, evals: Path, info: EvalInfo) -> EvalFolder:
        """The folder that belongs to `info` below `evals`, whether it exists or not."""
        return cls(evals / f"{info.task}-{info.key[:_KEY_LETTERS]}")

    @classmethod
    def open(cls, root: Path) -> EvalFolder:
        """An existing evaluation. Raises UserError where `root` is none."""
        folder = cls(root)
        if not folder.info_path.is_file():
            raise UserError(f"{root}: not an evaluation (it has no {folder.info_path.name})")
        return folder

    @property
    def info_path(self) -> Path:
        """What is measured."""
        return self.root / "eval.json"

    @property
    def generations_path(self) -> Path:
        """Every reply."""
        return self.root / "generations.jsonl"

    @property
    def results_path(self) -> Path:
        """The numbers, once it is complete."""
        return self.root / "results.json"

    @property
    def info(self) -> EvalInfo:
        """What was measured. Raises UserError where eval.json is not what clawrl wrote."""
        try:
            return EvalInfo.model_validate_json(self.info_path.read_bytes())
        except (OSError, ValidationError) as error:
            first = str(error).splitlines()[0]
            raise UserError(f"{self.info_path}: cannot be read: {first}") from None

    def generations(self) -> list[Generation]:
        """One generation of each item and sample, the last one where there are more.

        Sorted by item, in the order in which items first appear, then by sample. A last line that a
        kill has torn is left out.

        Raises:
            RecordError: a line is no generation.
        """
        if not self.generations_path.exists():
            return []
        order: dict[str, int] = {}
        newest: dict[tuple[str, int], Generation] = {}
        for generation in read(self.generations_path, Generation):
            order.setdefault(generation.item_id, len(order))
            newest[generation.item_id, generation.sample] = generation
        return sorted(newest.values(), key=lambda found: (order[found.item_id], found.sample))

    def results(self) -> dict[str, Any] | None:
        """What results.json holds; None while there is none, or where it cannot be read."""
        try:
            return json.loads(self.results_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    @contextmanager
    def locked(self) -> Generator[None]:
        """Be the one process that writes here; makes the folder.

        Raises:
            UserError: another process evaluates the same.
            MachineError: the folder cannot be made.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise MachineError(f"{self.root}: cannot be written: {error.strerror}") from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(
                    f"{self.root}: the same evaluation runs already; wait for its end"
                ) from None
            yield
        finally:
            os.close(descriptor)

    def write(self, path: Path, text: str) -> None:
        """Let a file appear whole, or not at all. Raises MachineError where it cannot."""
        partial = path.with_name(f".{path.name}.partial")
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        except OSError as error:
            raise MachineError(f"{path}: cannot be written: {error.strerror}") from None
