"""Scores that a persona's own model gave to versions of runs, found among the evaluations.

`clawrl eval --task gsm8k_student --model RUN@8` with a `scorer` leaves them in `RUNS_DIR/evals`. An
evaluation belongs to the weights that it measured, so it is found by their digest, whatever the run
is called now.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from clawrl.eval.evaluation.folder import EvalFolder, EvalInfo
from clawrl.eval.statistics.estimates import Observations
from clawrl.records.folder import RunFolder

MODEL = "model"
"""The name of the score that the persona's own model gives."""

TASKS: Mapping[str, str] = {
    "student": "gsm8k_student",
    "assistant": "gsm8k_ta",
    "teacher": "gsm8k_teacher",
}
"""The task that asks for each taste."""


def digests(folder: RunFolder) -> dict[int, str]:
    """The weights' digest of each version of a run, the base model's as version 0."""
    updates = folder.surviving_updates()
    base = {0: updates[0].digest_before} if updates and updates[0].parent == 0 else {}
    return base | {update.version: update.digest_after for update in updates}


def model_scores(
    evals: Collection[Path], taste: str, wanted: Collection[str]
) -> dict[str, Observations]:
    """One score of each reply, clustered by problem, by the digest of the weights that replied.

    All come from one setting (problems, scorer, sampling and seed), or they could not stand in one
    table: from the one that covers the most of `wanted`, the newest where several do.

    Args:
        evals: folders that hold evaluations; one that does not exist holds none.
        taste: whose model scored.
        wanted: digests of weights.

    Raises:
        UserError: an evaluation's eval.json cannot be read.
        RecordError: its generations cannot be read.
    """
    settings: dict[str, dict[str, EvalFolder]] = {}
    newest: dict[str, float] = {}
    for folder in _complete(evals, taste):
        info = folder.info
        if info.model_digest in wanted and info.metric == MODEL:
            settings.setdefault(_setting(info), {})[info.model_digest] = folder
            newest[_setting(info)] = max(info.created, newest.get(_setting(info), 0.0))
    if not settings:
        return {}
    best = max(settings, key=lambda setting: (len(settings[setting]), newest[setting]))
    found = {digest: _observations(folder, MODEL) for digest, folder in settings[best].items()}
    return {digest: observed for digest, observed in found.items() if observed is not None}


def _complete(evals: Collection[Path], taste: str) -> list[EvalFolder]:
    """The evaluations of the taste's task that have results."""
    task = TASKS.get(taste)
    if task is None:
        return []
    found = [EvalFolder(root) for folder in evals for root in sorted(folder.glob(f"{task}-*"))]
    return [folder for folder in found if folder.results_path.exists()]


def _setting(info: EvalInfo) -> str:
    return json.dumps([info.task_digest, info.sampling, info.seed], sort_keys=True)


def _observations(folder: EvalFolder, name: str) -> Observations | None:
    """What has a score; a reply that the model abstained from counts in no mean."""
    scored = [one for one in folder.generations() if name in one.scores]
    if not scored:
        return None
    return Observations([one.scores[name] for one in scored], [one.item_id for one in scored])
