"""`results.json`, in the layout that users of lm-evaluation-harness know.

`results` holds `metric,filter` and `metric_stderr,filter` (the only filter is `none`). The
bootstrap intervals, which that layout has no place for, stand under `clawrl`. A standard error is
the interval's half width divided by the normal quantile.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import time
from importlib.metadata import version
from statistics import NormalDist
from typing import Any

from clawrl import __version__
from clawrl.config.compose import config_root
from clawrl.eval.evaluation.runner import SEEDS_PER_ITEM, Evaluation, Subject
from clawrl.eval.statistics.estimates import DRAWS, LEVEL, Estimate
from clawrl.eval.tasks.sampled import ENDS

_FILTER = "none"
_QUANTILE = NormalDist().inv_cdf((1 + LEVEL) / 2)


def write_results(
    evaluation: Evaluation,
    subject: Subject,
    *,
    source: str | None,
    concurrent: int,
    seconds: float,
) -> dict[str, Any]:
    """Compute and write the results of a complete evaluation.

    Args:
        evaluation: nothing of it is missing.
        subject: the model.
        source: where the items came from.
        concurrent: requests at one time.
        seconds: what this call took; one that went on says its own time only.

    Raises:
        MachineError: it cannot be written.
    """
    task, info, folder = evaluation.task, evaluation.info, evaluation.folder
    generations = evaluation.generations()
    numbers = task.summary(generations)
    counts = {status: sum(one.status == status for one in generations) for status in ("ok", *ENDS)}
    found = _layout(evaluation, subject, numbers, concurrent)
    found["configs"][task.name]["dataset_path"] = source
    found["total_evaluation_time_seconds"] = f"{seconds:.1f}"
    found["clawrl"] = {
        "version": __version__,
        "folder": folder.root.name,
        "metric": info.metric,
        "samples": evaluation.samples,
        "numbers": {name: _interval(number) for name, number in numbers.items()},
        "interval_level": LEVEL,
        "replies": counts,
        "seed": info.seed,
        "seed_rule": f"seed + {SEEDS_PER_ITEM} * item + sample",
        "sampling": info.sampling,
        "model_digest": info.model_digest,
        "model_version": info.version,
        "task_digest": info.task_digest,
    }
    if subject.note is not None:
        found["clawrl"]["note"] = subject.note
    folder.write(folder.results_path, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    return found


def stored_results(evaluation: Evaluation) -> dict[str, Any] | None:
    """The results that are there already for this number of samples; None: they must be made."""
    found = evaluation.folder.results()
    if found is None or evaluation.missing():
        return None
    return found if found.get("clawrl", {}).get("samples") == evaluation.samples else None


def _layout(
    evaluation: Evaluation,
    subject: Subject,
    numbers: dict[str, Estimate | float],
    concurrent: int,
) -> dict[str, Any]:
    task, info = evaluation.task, evaluation.info
    name, items = task.name, len(evaluation.items)
    shown = _with_metric(numbers, info.metric, evaluation.samples)
    return {
        "results": {name: {"alias": name, "sample_len": items, **_flat(shown)}},
        "group_subtasks": {name: []},
        "configs": {
            name: {
                "task": name,
                "description": task.description,
                "output_type": "generate_until",
                "repeats": evaluation.samples,
                "num_fewshot": 0,
                "generation_kwargs": info.sampling,
                "metadata": {"version": info.task_digest[:12]},
                **task.settings(),
            }
        },
        "versions": {name: info.task_digest[:12]},
        "n-shot": {name: 0},
        "higher_is_better": {name: {number: _higher_is_better(number) for number in shown}},
        "n-samples": {name: {"original": items, "effective": items}},
        "config": {
            "model": subject.source,
            "model_args": subject.args,
            "model_sha": info.model_digest,
            "batch_size": concurrent,
            "limit": None,
            "bootstrap_iters": DRAWS,
            "gen_kwargs": info.sampling,
            "random_seed": info.seed,
        },
        "git_hash": _git_hash(),
        "date": time.time(),
        "transformers_version": version("transformers"),
        "task_hashes": {name: info.task_digest},
        "model_source": subject.source,
        "model_name": subject.name,
        "model_name_sanitized": re.sub(r"[^\w.-]+", "__", subject.name),
    }


def _with_metric(
    numbers: dict[str, Estimate | float], metric: str, samples: int
) -> dict[str, Estimate | float]:
    """The task's metric under its own name first: with several samples it is avg@n."""
    average = numbers.get(f"avg@{samples}")
    return numbers if average is None else {metric: average, **numbers}


def _flat(numbers: dict[str, Estimate | float]) -> dict[str, float | None]:
    flat: dict[str, float | None] = {}
    for name, number in numbers.items():
        if isinstance(number, Estimate):
            flat[f"{name},{_FILTER}"] = _finite(number.value)
            flat[f"{name}_stderr,{_FILTER}"] = _finite((number.high - number.low) / 2 / _QUANTILE)
        else:
            flat[f"{name},{_FILTER}"] = _finite(number)
    return flat


def _interval(number: Estimate | float) -> dict[str, float | None]:
    if isinstance(number, Estimate):
        return {
            "value": _finite(number.value),
            "low": _finite(number.low),
            "high": _finite(number.high),
        }
    return {"value": _finite(number)}


def _finite(number: float) -> float | None:
    """JSON has no not-a-number."""
    return number if math.isfinite(number) else None


def _higher_is_better(name: str) -> bool | None:
    if name in ENDS:
        return False
    return None if name == "tokens" else True


def _git_hash() -> str | None:
    """Of clawrl's own checkout; None where it is installed from a wheel."""
    root = config_root()
    if not (root / ".git").exists():
        return None
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True
    )
    return done.stdout.strip() or None
