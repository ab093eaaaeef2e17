from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from clawrl.config import schema
from clawrl.config.compose import compose, dump
from clawrl.config.schema import Config
from clawrl.errors import ConfigError, ModelError, UserError, WeightsError
from clawrl.eval.tasks.catalog import load_task
from clawrl.eval.tasks.persona import PersonaTask
from clawrl.offline.evaluate import Asked, choose_sampling
from clawrl.offline.measured_model import MeasuredModel, configure, find_model
from clawrl.records.folder import RunFolder
from clawrl.records.jsonl import JsonlFile
from clawrl.records.nouns import Retired, Update
from clawrl.records.versions import digest_of, version_folder, write_version


def silent(_line: str) -> None: ...


def make_model(folder: Path, value: float, *, context: int = 4096) -> Path:
    folder.mkdir(parents=True)
    save_file({"w": np.full(4, value, dtype=np.float32)}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": context}))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def update(version: int, digest: str) -> Update:
    return Update(
        version=version,
        parent=version - 1,
        sample_ids=[],
        digest_before="",
        digest_after=digest,
        created=0.0,
    )


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return make_model(tmp_path / "base", 0.0)


@pytest.fixture
def run(tmp_path: Path, base: Path) -> RunFolder:
    """A run of three versions, the first of which is no longer kept, a fourth one retired."""
    folder = RunFolder(tmp_path / "runs" / "mine")
    folder.root.mkdir(parents=True)
    folder.config.write_text(dump(compose([f"model.name={base}", "sampling.temperature=0.9"])))
    with JsonlFile(folder.ledger) as ledger:
        for version in (1, 2, 3, 4):

            def write(target: Path, value: float = version) -> None:
                save_file({"w": np.full(4, value, dtype=np.float32)}, target / "model.safetensors")

            meta = write_version(
                folder.weights,
                version=version,
                parent=version - 1,
                kind="full",
                dtype="float32",
                write=write,
            )
            ledger.append(update(version, meta.digest))
        ledger.append(Retired(version=4, digest=meta.digest, sample_ids=[], created=0.0))
    shutil.rmtree(version_folder(folder.weights, 1))
    return folder


def configured(name: str | None, *overrides: str, max_tokens: int = 1024) -> Config:
    return configure(name, overrides, config_dir=None, max_tokens=max_tokens, progress=silent)


async def find(name: str | None, *overrides: str) -> MeasuredModel:
    return await find_model(name, overrides, configured(name, *overrides), silent)


async def test_a_run_means_its_newest_version_that_no_restart_took_back(run: RunFolder):
    found = await find(str(run.root))
    weights = version_folder(run.weights, 3)
    assert (found.subject.name, found.subject.version) == ("mine@3", 3)
    assert (found.weights, found.subject.digest) == (weights, digest_of(weights))


async def test_a_version_of_a_run_is_named_after_an_at_sign(run: RunFolder, base: Path):
    for wanted in ("2", "v2"):
        found = await find(f"{run.root}@{wanted}")
        assert (found.subject.version, found.weights) == (2, version_folder(run.weights, 2))
    found = await find(f"{run.root}@0")
    assert (found.subject.version, found.weights) == (0, base)
    assert found.subject.digest == (await find(str(base))).subject.digest


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("1", r"version 1 are gone .* there are: 0, 2, 3"),
        ("4", "no version 4; there are: 0, 2, 3"),
        ("9", "no version 9; there are: 0, 2, 3"),
        ("new", "a version is a number; there are: 0, 2, 3"),
    ],
)
async def test_a_version_that_is_not_there_is_one_line_with_those_that_are(
    run: RunFolder, wanted: str, message: str
):
    with pytest.raises(UserError, match=message) as caught:
        await find(f"{run.root}@{wanted}")
    assert "\n" not in str(caught.value)


async def test_weights_that_are_not_the_ledgers_are_refused(run: RunFolder):
    target = version_folder(run.weights, 3)
    shutil.rmtree(target)
    shutil.copytree(version_folder(run.weights, 2), target)
    with pytest.raises(WeightsError, match="other weights"):
        await find(str(run.root))


async def test_a_run_that_has_not_learned_yet_is_its_base_model(run: RunFolder, base: Path):
    run.ledger.unlink()
    found = await find(str(run.root))
    assert (found.subject.version, found.weights) == (0, base)


async def test_adapters_are_served_with_lora_and_a_base_model_without(run: RunFolder, base: Path):
    run.config.write_text(dump(compose(["learner=lora", "weights=lora", f"model.name={base}"])))
    assert (await find(f"{run.root}@2")).config.model.lora is not None
    assert (await find(f"{run.root}@0")).config.model.lora is None


async def test_another_chat_template_is_another_way_to_draw(base: Path):
    before = (await find(str(base))).template_sha
    (base / "chat_template.jinja").write_text("{{ messages }}")
    assert (await find(str(base))).template_sha != before


async def test_a_model_that_is_nowhere_is_one_line():
    with pytest.raises(ModelError, match="neither a known model, a folder, nor a hub id"):
        await find("nowhere")


def test_a_folder_is_given_the_context_that_the_task_needs(base: Path):
    assert configured(str(base), max_tokens=1024).model.context_tokens == 3072
    assert configured(str(base), max_tokens=32768).model.context_tokens == 4096
    assert configured(str(base), "model.context_tokens=256").model.context_tokens == 256


def test_a_known_name_brings_its_own_settings():
    config = configured("qwen3-4b")
    assert config.model.name == "Qwen/Qwen3-4B-Thinking-2507"
    assert config.model.context_tokens == 32768
    assert configured(None).model.name == "smollm2-135m"


def test_a_model_is_named_once(base: Path):
    for override in ("model=qwen3-4b", "model.name=x"):
        with pytest.raises(UserError, match="both name the model"):
            configured(str(base), override)


def test_overrides_are_laid_over_the_runs_own_configuration(run: RunFolder):
    config = configured(str(run.root), "eval.seed=3")
    assert (config.eval.seed, config.sampling.temperature) == (3, 0.9)


def sampling(*overrides: str, context: int | None = 2048, task: str = "gsm8k") -> schema.Sampling:
    asked = Asked(task, overrides=overrides)
    return choose_sampling(load_task(task), compose(overrides), asked, context)


def test_the_tasks_sampling_counts_and_the_models_own_does_not():
    assert sampling(context=None) == schema.Sampling(temperature=0.6, max_tokens=4096)
    assert sampling("model=smollm2-135m").temperature == 0.6


def test_the_users_sampling_wins_over_the_tasks_key_by_key():
    found = sampling("sampling.max_tokens=64")
    assert (found.temperature, found.max_tokens) == (0.6, 64)
    found = sampling("++sampling.temperature=1.5", context=8192)
    assert (found.temperature, found.max_tokens) == (1.5, 4096)


def test_a_reply_is_bounded_by_the_context_unless_the_user_asked_for_more():
    assert sampling().max_tokens == 2048
    with pytest.raises(ConfigError, match=r"4000 is more than the model's context of 2048"):
        sampling("sampling.max_tokens=4000")


def test_a_persona_is_answered_as_in_training():
    assert isinstance(load_task("gsm8k_student"), PersonaTask)
    assert sampling(task="gsm8k_student") == compose([]).sampling
    assert sampling("sampling.max_tokens=64", task="gsm8k_student").max_tokens == 64
