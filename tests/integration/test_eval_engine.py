"""A small task through the real client of the real engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clawrl.config import schema
from clawrl.engine.client import VllmEngine
from clawrl.engine.endpoint import Endpoint
from clawrl.engine.server import EngineServer
from clawrl.eval.evaluation.results import write_results
from clawrl.eval.evaluation.runner import Evaluation, Subject, draw_missing, plan
from clawrl.eval.tasks.problem import ProblemTask
from clawrl.eval.tasks.task import Setting
from clawrl.protocols import Engine

pytestmark = pytest.mark.engine

SUBJECT = Subject("tiny", "d", None, "vllm", {})


@pytest.fixture
def task() -> ProblemTask:
    return ProblemTask(
        name="sums",
        description="Sums",
        prompt="{question}",
        scorer="number",
        hub={"id": "a/b", "split": "test"},
        sampling={"temperature": 1.0, "max_tokens": 24},
    )


@pytest.fixture
def data(tmp_path: Path) -> schema.Data:
    path = tmp_path / "sums.jsonl"
    rows: list[dict[str, object]] = [{"id": "short", "question": "1 + 1?", "answer": 2}]
    # A byte is a token: of the context of 512 the first leaves less than 24, the second nothing.
    rows.append({"id": "near", "question": "x" * 480, "answer": 1})
    rows.append({"id": "long", "question": "x" * 600, "answer": 1})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return schema.Data(path=str(path))


async def evaluated(engine: Engine, task: ProblemTask, data: schema.Data, root: Path) -> Evaluation:
    evaluation = plan(
        task, task.items(data), subject=SUBJECT, sampling={}, seed=3, samples=2, evals=root
    )
    setting = Setting(engine, task.sampling, {})
    with evaluation.folder.locked():
        await draw_missing(evaluation, setting, concurrent=1, progress=lambda _done, _total: None)
    return evaluation


async def test_a_task_is_drawn_scored_and_repeated_by_its_seeds(
    policy: VllmEngine, task: ProblemTask, data: schema.Data, tmp_path: Path
):
    first = await evaluated(policy, task, data, tmp_path / "first")
    second = await evaluated(policy, task, data, tmp_path / "second")
    found = first.generations()
    assert [one.text for one in found] == [one.text for one in second.generations()]
    assert {one.seed for one in found} == {3 + 1000 * n + s for n in range(3) for s in range(2)}
    by_id = {item: [one for one in found if one.item_id == item] for item in ("near", "long")}
    assert all(0 < one.tokens < 24 for one in by_id["near"])
    assert {one.status for one in by_id["long"]} == {"error"}
    results = write_results(first, SUBJECT, source=None, concurrent=1, seconds=1.0)
    assert results["clawrl"]["replies"]["error"] == 2
    assert results["results"]["sums"]["error,none"] == pytest.approx(1 / 3)


async def test_the_same_server_at_its_url_gives_the_same_replies(
    policy: VllmEngine,
    policy_server: EngineServer,
    task: ProblemTask,
    data: schema.Data,
    tmp_path: Path,
):
    own = await evaluated(policy, task, data, tmp_path / "own")
    async with Endpoint(
        policy_server.base_url, model="policy", api_key=None, request_timeout_s=60
    ) as endpoint:
        other = await evaluated(endpoint, task, data, tmp_path / "other")
    assert [one.text for one in own.generations()] == [one.text for one in other.generations()]
