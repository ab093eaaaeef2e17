from __future__ import annotations

import asyncio
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from clawrl.errors import EngineError, RequestError, UserError
from clawrl.eval.evaluation.results import stored_results, write_results
from clawrl.eval.evaluation.runner import EvalFolder, Evaluation, Subject, draw_missing, plan
from clawrl.eval.tasks.problem import ProblemTask
from clawrl.eval.tasks.task import Item, Setting
from tests.stub_engine import StubEngine

ITEMS = [Item(f"p{n}", f"What is {n} + {n}?", str(2 * n), {}) for n in range(6)]
SUBJECT = Subject("model", "d1", None, "vllm", {"pretrained": "model"})


class SeededEngine(StubEngine):
    """A model whose reply depends on prompt and seed alone, as a real one's should."""

    def __init__(self, *, dies_after: int | None = None) -> None:
        super().__init__()
        self.dies_after = dies_after
        self.refuses = ""
        self.refusal: EngineError = RequestError(400, "the prompt is too long")

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.dies_after is not None and len(self.bodies) >= self.dies_after:
            raise EngineError("the engine is gone")
        await asyncio.sleep(0)  # a network lets others run
        question = body["messages"][0]["content"]
        if self.refuses and self.refuses in question:
            self.bodies.append(body)
            raise self.refusal
        sha = hashlib.sha256(f"{question}{body['seed']}".encode()).digest()
        number = int(question.split()[2])
        kind = random.Random(sha).choice(["right", "right", "wrong", "none", "refused"])
        self.replies = iter(
            [
                {
                    "right": f"It is \\boxed{{{2 * number}}}.",
                    "wrong": f"It is \\boxed{{{2 * number + 1}}}.",
                    "none": "It depends.",
                    "refused": "I cannot help with that.",
                }[kind]
            ]
        )
        return await super().chat(body)


def make_task(**changes: Any) -> ProblemTask:
    fields: dict[str, Any] = {
        "name": "sums",
        "description": "Sums",
        "prompt": "{question}",
        "scorer": "number",
        "hub": {"id": "a/b", "split": "test"},
        "sampling": {"temperature": 0.5, "max_tokens": 64},
    }
    return ProblemTask(**(fields | changes))


def make_plan(root: Path, *, samples: int = 4, seed: int = 7, **changes: Any) -> Evaluation:
    fields: dict[str, Any] = {"subject": SUBJECT, "sampling": {"temperature": 0.5}}
    task = make_task()
    return plan(task, ITEMS, samples=samples, seed=seed, evals=root, **(fields | changes))


async def draw(evaluation: Evaluation, engine: StubEngine, *, concurrent: int = 3) -> list[int]:
    told: list[int] = []
    setting = Setting(engine, evaluation.task.sampling, {})

    def progress(done: int, _total: int) -> None:
        told.append(done)

    with evaluation.folder.locked():
        await draw_missing(evaluation, setting, concurrent=concurrent, progress=progress)
    return told


def finish(evaluation: Evaluation) -> dict[str, Any]:
    return write_results(evaluation, SUBJECT, source="file", concurrent=3, seconds=1.0)


def timeless(results: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in results.items() if key != "date"}


@pytest.fixture
async def whole(tmp_path: Path) -> dict[str, Any]:
    """The results of a run that was never stopped."""
    evaluation = make_plan(tmp_path / "whole")
    await draw(evaluation, SeededEngine())
    return timeless(finish(evaluation))


@pytest.mark.parametrize("dies_after", [0, 1, 9, 23])
async def test_a_run_killed_in_the_middle_and_resumed_gives_the_same_as_one_that_was_not(
    tmp_path: Path, whole: dict[str, Any], dies_after: int
):
    evaluation = make_plan(tmp_path)
    with pytest.raises(EngineError, match="gone"):
        await draw(evaluation, SeededEngine(dies_after=dies_after), concurrent=1)
    assert len(evaluation.folder.generations()) == dies_after
    path = evaluation.folder.generations_path
    if dies_after:  # the kill came in the middle of a line
        path.write_bytes(path.read_bytes()[:-20])
    engine = SeededEngine()
    await draw(make_plan(tmp_path), engine)
    assert len(engine.bodies) == 24 - max(dies_after - 1, 0)
    assert timeless(finish(make_plan(tmp_path))) == whole


async def test_a_complete_evaluation_is_read_and_nothing_is_drawn(tmp_path: Path):
    await draw(make_plan(tmp_path), SeededEngine())
    assert stored_results(make_plan(tmp_path)) is None
    results = finish(make_plan(tmp_path))
    again = make_plan(tmp_path)
    assert again.missing() == []
    assert stored_results(again) == results


async def test_asking_for_more_samples_goes_on_where_it_was(tmp_path: Path, whole: dict[str, Any]):
    await draw(make_plan(tmp_path, samples=2), SeededEngine())
    finish(make_plan(tmp_path, samples=2))
    more = make_plan(tmp_path, samples=4)
    assert stored_results(more) is None
    engine = SeededEngine()
    told = await draw(more, engine)
    assert (len(engine.bodies), told[0], told[-1]) == (12, 12, 24)
    assert timeless(finish(more)) == whole
    fewer = finish(make_plan(tmp_path, samples=2))
    assert set(fewer["clawrl"]["numbers"]) >= {"avg@2", "pass@2", "majority@2"}


async def test_each_draw_has_a_seed_of_its_own(tmp_path: Path):
    engine = SeededEngine()
    await draw(make_plan(tmp_path, samples=2, seed=100), engine)
    assert sorted(body["seed"] for body in engine.bodies) == sorted(
        100 + 1000 * item + sample for item in range(6) for sample in range(2)
    )
    first = engine.bodies[0]
    assert (first["temperature"], first["top_p"], first["max_tokens"]) == (0.5, 1.0, 64)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 8},
        {"sampling": {"temperature": 0.6}},
        {"subject": Subject("model", "d2", None, "vllm", {})},
    ],
)
def test_seed_sampling_and_weights_are_part_of_the_key(tmp_path: Path, change: dict[str, Any]):
    assert make_plan(tmp_path, **change).folder != make_plan(tmp_path).folder


def test_neither_samples_nor_the_models_name_are_part_of_the_key(tmp_path: Path):
    other = Subject("other name", "d1", 3, "vllm", {})
    assert make_plan(tmp_path, samples=9, subject=other).folder == make_plan(tmp_path).folder


def test_prompt_rules_and_items_are_part_of_the_tasks_digest():
    digest = make_task().digest(ITEMS)
    assert digest == make_task(description="other", samples=9).digest(ITEMS)
    others = [
        make_task(prompt="{question}!").digest(ITEMS),
        make_task(scorer="math").digest(ITEMS),
        make_task().digest(ITEMS[:-1]),
        make_task().digest([*ITEMS[:-1], Item("p5", "What is 5 + 5?", "11", {})]),
    ]
    assert len({digest, *others}) == 5


async def test_the_same_evaluation_at_once_is_refused_with_one_line(tmp_path: Path):
    evaluation = make_plan(tmp_path)
    with evaluation.folder.locked():
        with pytest.raises(UserError, match="runs already") as caught:
            await draw(make_plan(tmp_path), SeededEngine())
        assert "\n" not in str(caught.value)
    await draw(make_plan(tmp_path), SeededEngine())


async def test_a_request_that_is_wrong_is_counted_and_tried_again_while_others_are_missing(
    tmp_path: Path,
):
    engine = SeededEngine()
    engine.refuses = "2 + 2"
    evaluation = make_plan(tmp_path, samples=1)
    await draw(evaluation, engine)
    assert evaluation.missing() == []
    failed = [one for one in evaluation.generations() if one.status == "error"]
    assert [(one.item_id, one.problem) for one in failed] == [("p2", "the prompt is too long")]
    results = finish(evaluation)
    assert results["clawrl"]["replies"]["error"] == 1
    assert results["results"]["sums"]["error,none"] == pytest.approx(1 / 6)
    engine.refuses = ""
    await draw(make_plan(tmp_path, samples=2), engine)
    assert all(one.status != "error" for one in make_plan(tmp_path, samples=2).generations())


async def test_a_server_that_refuses_everything_is_no_score(tmp_path: Path):
    engine = SeededEngine()
    engine.refuses = "+"
    evaluation = make_plan(tmp_path)
    with pytest.raises(EngineError, match="every request was refused: the prompt is too long"):
        await draw(evaluation, engine, concurrent=1)
    assert len(engine.bodies) == 16
    assert len(make_plan(tmp_path).missing()) == 24


async def test_a_wrong_key_is_nobodys_answer(tmp_path: Path):
    engine = SeededEngine()
    engine.refuses, engine.refusal = "+", RequestError(401, "wrong key")
    with pytest.raises(RequestError, match="wrong key"):
        await draw(make_plan(tmp_path), engine)
    assert make_plan(tmp_path).folder.generations() == []


async def test_the_folder_tells_what_was_measured(tmp_path: Path):
    evaluation = make_plan(tmp_path)
    await draw(evaluation, SeededEngine())
    folder = EvalFolder.open(evaluation.folder.root)
    assert folder.info == evaluation.info.model_copy(update={"created": folder.info.created})
    assert folder.root.name == f"sums-{folder.info.key[:12]}"
    found = folder.generations()
    assert len(found) == 24
    order: list[str] = list(dict.fromkeys(one.item_id for one in found))
    assert [(one.item_id, one.sample) for one in found] == [
        (item, sample) for item in order for sample in range(4)
    ]
    with pytest.raises(UserError, match="not an evaluation"):
        EvalFolder.open(tmp_path)


async def test_of_two_lines_for_one_draw_the_last_one_counts(tmp_path: Path):
    evaluation = make_plan(tmp_path, samples=1)
    await draw(evaluation, SeededEngine())
    lines = evaluation.folder.generations_path.read_text().splitlines()
    changed = json.loads(lines[0]) | {"text": "again"}
    with evaluation.folder.generations_path.open("a") as file:
        file.write(json.dumps(changed) + "\n")
    texts = {one.item_id: one.text for one in evaluation.folder.generations()}
    assert texts[changed["item_id"]] == "again"
    assert len(texts) == 6


async def test_results_have_the_layout_of_lm_evaluation_harness(whole: dict[str, Any]):
    found = whole["results"]["sums"]
    assert found["alias"] == "sums"
    assert found["exact_match,none"] == found["avg@4,none"] == whole_share(whole)
    for name in ("avg@4", "pass@1", "pass@2", "pass@4", "majority@4"):
        assert 0 <= found[f"{name},none"] <= 1
        assert found[f"{name}_stderr,none"] >= 0
        assert whole["higher_is_better"]["sums"][name] is True
    assert found["pass@1,none"] <= found["pass@2,none"] <= found["pass@4,none"]
    for name in ("truncated", "refused", "unparsable", "empty", "error"):
        assert 0 <= found[f"{name},none"] <= 1
        assert whole["higher_is_better"]["sums"][name] is False
    assert whole["n-samples"] == {"sums": {"original": 6, "effective": 6}}
    assert whole["n-shot"] == {"sums": 0}
    assert whole["configs"]["sums"]["repeats"] == 4
    assert whole["config"]["random_seed"] == 7
    assert whole["config"]["gen_kwargs"] == {"temperature": 0.5}
    assert float(whole["total_evaluation_time_seconds"]) == 1.0
    keys = {"git_hash", "versions", "model_name", "model_source", "task_hashes", "group_subtasks"}
    assert keys <= set(whole)


def whole_share(results: dict[str, Any]) -> float:
    return results["clawrl"]["numbers"]["avg@4"]["value"]


async def test_replies_are_counted_by_how_they_ended(whole: dict[str, Any]):
    replies = whole["clawrl"]["replies"]
    assert sum(replies.values()) == 24
    assert min(replies[status] for status in ("ok", "refused", "unparsable")) > 0
    assert whole["results"]["sums"]["refused,none"] == pytest.approx(replies["refused"] / 24)


async def test_answers_written_differently_vote_together(tmp_path: Path):
    engine = StubEngine(r"\boxed{\frac{1}{2}}", r"\boxed{7}", r"\boxed{0.5}", r"\boxed{8}")
    task = make_task(scorer="math")
    evaluation = plan(
        task, [Item("half", "?", "1/2", {})], subject=SUBJECT, sampling={}, seed=0, samples=4,
        evals=tmp_path,
    )  # fmt: skip
    await draw(evaluation, engine, concurrent=1)
    numbers = finish(evaluation)["clawrl"]["numbers"]
    assert numbers["avg@4"]["value"] == 0.5
    assert numbers["majority@4"]["value"] == 1.0
