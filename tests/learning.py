"""Runs for the learner's tests: a configuration, random samples, and a folder that holds both."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import yaml

from clawrl.config import schema
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Sample, Weights


def make_config(**sections: dict[str, Any]) -> schema.Config:
    """A small configuration; each keyword replaces keys of the section of that name."""
    base: dict[str, dict[str, Any]] = {
        "model": {"name": "tiny", "context_tokens": 512},
        "learner": {"lr": 1e-3, "batch_samples": 4, "micro_batch_tokens": 128},
        "objective": {},
        "loop": {"updates": 3, "max_staleness": 0},
        "resources": {},
    }
    merged = {name: values | sections.pop(name, {}) for name, values in base.items()}
    rest = {
        name: {}
        for name in ("engine", "gateway", "sampling", "data", "weights", "eval", "tracking")
    }
    plugins = {"persona": {"_target_": "none"}, "judge": {"_target_": "none"}}
    return schema.Config.model_validate({"recipe": "test"} | rest | plugins | merged | sections)


def make_sample(
    name: str,
    *,
    prompt: int = 12,
    reply: int = 8,
    score: int | None = 1,
    hint: int | None = 6,
    version: int = 0,
    temperature: float = 1.0,
    finish_reason: str = "stop",
    vocabulary: int = 256,
) -> Sample:
    """A sample of random ids, the same for the same name. `hint`: extra prompt ids, None: none."""
    draw = random.Random(name)
    prompt_ids = [draw.randrange(vocabulary) for _ in range(prompt)]
    hint_ids = None if hint is None else [draw.randrange(vocabulary) for _ in range(hint)]
    return Sample.model_validate(
        {
            "interaction_id": name,
            "session_id": "s",
            "accepted": True,
            "prompt_ids": prompt_ids,
            "reply_ids": [draw.randrange(vocabulary) for _ in range(reply)],
            "behaviour_logp": [-5.5 + draw.random() for _ in range(reply)],
            "score": score,
            "hinted_prompt_ids": None if hint_ids is None else prompt_ids + hint_ids,
            "temperature": temperature,
            "finish_reason": finish_reason,
            "weights": Weights(version_first=version, version_last=version, digest="d"),
        }
    )


def uneven_samples(count: int, *, version: int = 0) -> list[Sample]:
    """Samples of uneven lengths, scores and temperatures, two in three with a hint."""
    return [
        make_sample(
            f"v{version}-{i}",
            prompt=5 + (7 * i) % 23,
            reply=3 + (11 * i) % 29,
            score=(1, -1, 0)[i % 3],
            hint=None if i % 3 == 1 else 4 + i,
            temperature=(1.0, 0.7)[i % 2],
            version=version,
        )
        for i in range(count)
    ]


def make_run(root: Path, config: schema.Config, samples: list[Sample]) -> RunFolder:
    """A run folder whose samples have all been written already."""
    root.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(config.model_dump(mode="json", by_alias=True))
    (root / "config.yaml").write_text(text)
    folder = RunFolder.open(root)
    writer = folder.samples.writer(0)
    for sample in samples:
        writer.append(sample)
    writer.close()
    return folder
