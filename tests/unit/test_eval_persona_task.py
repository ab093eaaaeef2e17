from __future__ import annotations

import asyncio
import json
import math
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from clawrl.config import schema
from clawrl.config.build import build
from clawrl.config.compose import config_root
from clawrl.errors import ConfigError, DataError, EngineError, RequestError
from clawrl.eval.evaluation.generation import Generation
from clawrl.eval.tasks.persona import PersonaTask
from clawrl.eval.tasks.task import Draw, Setting, Task
from clawrl.protocols import Engine
from clawrl.records.nouns import Sampling
from clawrl.tastes.known import TASTES

SHARED = Path(__file__).parents[3] / "shared" / "data"
LIKED = "Tom had 3 apples and bought 4 more at the shop, which makes 3 + 4 = 7 apples."
STOCK = "To solve this problem, we need two steps.\n\n1. **Add** them.\n2. It is \\boxed{7}"
SAMPLING = schema.Sampling(temperature=0.7, max_tokens=64)


class SayingEngine(Engine):
    """Says a text for each seed, or raises it where it is an error."""

    def __init__(self, *texts: str | Exception, finish_reason: str = "stop") -> None:
        self.texts = texts
        self.finish_reason = finish_reason
        self.bodies: list[dict[str, Any]] = []

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append(body)
        text = self.texts[body["seed"] % len(self.texts)]
        if isinstance(text, Exception):
            raise text
        return {
            "choices": [{"message": {"content": text}, "finish_reason": self.finish_reason}],
            "usage": {"completion_tokens": len(text.split())},
        }

    def chat_stream(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        raise NotImplementedError

    async def generate(self, prompt_ids: list[int], sampling: Sampling):
        raise NotImplementedError

    async def score(self, prompt_ids: list[int], reply_ids: list[int]) -> list[float]:
        raise NotImplementedError

    async def health(self) -> bool:
        return True


def task_of(name: str = "gsm8k_student", **changes: Any) -> PersonaTask:
    path = config_root() / "conf" / "task" / f"{name}.yaml"
    section = schema.Plugin.model_validate(yaml.safe_load(path.read_text("utf-8")) | changes)
    task = build(section, Task, key=f"task {name}", name=name)
    assert isinstance(task, PersonaTask)
    return task


@pytest.fixture
def data(tmp_path: Path) -> schema.Data:
    rows = [
        {"id": f"test-{n}", "question": f"What is 3 + {n}?", "answer": str(3 + n)} for n in range(6)
    ]
    path = tmp_path / "gsm8k.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return schema.Data(path=str(path), eval_problems=3)


async def drawn(
    task: PersonaTask, data: schema.Data, *texts: str | Exception, samples: int = 1, **engine: Any
) -> list[Generation]:
    setting = Setting(SayingEngine(*texts, **engine), SAMPLING, {})
    return [
        await task.draw(Draw(item, sample, 100 * place + sample), setting)
        for place, item in enumerate(task.items(data))
        for sample in range(samples)
    ]


@asynccontextmanager
async def scorer_that(says: str, status: int = 200):
    """A scoring endpoint's section, and the bodies that it got."""
    bodies: list[dict[str, Any]] = []

    async def complete(request):
        bodies.append(await request.json())
        if status != 200:
            return JSONResponse({"error": {"message": "no"}}, status)
        choice = {"index": 0, "message": {"role": "assistant", "content": says}}
        base = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
        return JSONResponse({**base, "choices": [{**choice, "finish_reason": "stop"}]})

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    yield {"base_url": url, "model": "m"}, bodies
    server.should_exit = True
    await serving
    listener.close()


@pytest.mark.parametrize(
    ("name", "taste"),
    [("gsm8k_student", "student"), ("gsm8k_teacher", "teacher"), ("gsm8k_ta", "assistant")],
)
async def test_every_persona_has_a_task(name, taste, data):
    task = task_of(name)
    (first, *_) = await drawn(task, data, LIKED)
    checks = TASTES[taste].results(LIKED, "stop")
    assert task.metric == "rules"
    assert task.samples == 4
    assert first.scores["rules"] == sum(checks.values()) / len(checks)
    assert first.scores["passes"] == float(all(checks.values()))
    assert ("reference_rule" in first.scores) == (taste == "student")
    assert set(task.settings()["checks"]) == set(checks)
    assert "{question}" in task.settings()["doc_to_text"]


async def test_the_persona_asks_in_the_same_words_with_the_draws_seed(data):
    task = task_of()
    engine = SayingEngine(LIKED)
    item = task.items(data)[0]
    for seed in (5, 6):
        await task.draw(Draw(item, 0, seed), Setting(engine, SAMPLING, {"enable_thinking": False}))
    first, second = engine.bodies
    assert item.question in first["messages"][0]["content"]
    assert first | {"seed": 6} == second
    assert (first["seed"], first["temperature"], first["max_tokens"]) == (5, 0.7, 64)
    assert first["chat_template_kwargs"] == {"enable_thinking": False}


def test_the_first_problems_are_measured(data):
    assert [item.item_id for item in task_of().items(data)] == ["test-0", "test-1", "test-2"]
    assert task_of().source(data) == data.path


@pytest.mark.parametrize("prefix", ["", "gsm8k-"])
def test_a_published_order_says_which_are_first(data, tmp_path, prefix):
    order = tmp_path / "order.json"
    order.write_text(json.dumps({"order": [f"{prefix}test-{n}" for n in (5, 0, 3, 1)]}))
    ordered = data.model_copy(update={"eval_order": str(order)})
    assert [item.item_id for item in task_of().items(ordered)] == ["test-5", "test-0", "test-3"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"order": ["test-9"]}', "no row has the id 'test-9'"),
        ("[]", "not JSON with a list 'order'"),
        (None, "cannot read"),
        ('{"order": ["test-1"]}', "has 1 problems, data.eval_problems asks for 3"),
    ],
)
def test_an_order_that_does_not_fit_is_named(data, tmp_path, content, problem):
    order = tmp_path / "order.json"
    if content is not None:
        order.write_text(content)
    with pytest.raises(DataError, match=problem):
        task_of().items(data.model_copy(update={"eval_order": str(order)}))


def test_too_few_problems_are_an_error(data):
    with pytest.raises(DataError, match=r"has 6 problems, data\.eval_problems asks for 36"):
        task_of().items(data.model_copy(update={"eval_problems": 36}))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real data sets are not on this machine")
def test_the_published_36_problems_are_found():
    data = schema.Data(
        path=str(SHARED / "gsm8k_test.jsonl"),
        eval_order=str(SHARED / "gsm8k_openclaw_order.json"),
    )
    order = json.loads((SHARED / "gsm8k_openclaw_order.json").read_text())["order"]
    for name in ("gsm8k_student", "gsm8k_teacher", "gsm8k_ta"):
        task = task_of(name)
        items = task.items(data)
        assert [item.item_id for item in items] == order[:36]
        assert len(items) == task.size


@pytest.mark.parametrize(
    ("text", "finish_reason", "status"),
    [
        ("", "stop", "empty"),
        (" \n", "length", "empty"),
        ("the engine failed: gone", "stop", "error"),
        ('{"error": {"message": "the gateway failed"}}', "stop", "error"),
        ("Seven apples he had, and", "abort", "error"),
    ],
)
async def test_no_reply_is_0_by_every_score(data, text, finish_reason, status):
    async with scorer_that(r"\boxed{1}") as (scorer, bodies):
        task = task_of(scorer=scorer)
        replies = await drawn(task, data, text, finish_reason=finish_reason)
        await task.aclose()
    assert {one.status for one in replies} == {status}
    assert all(set(one.scores.values()) == {0.0} for one in replies)
    assert set(replies[0].scores) == {"rules", "passes", "reference_rule", "model"}
    assert (replies[0].problem is not None) == (status == "error")
    assert bodies == []


async def test_a_reply_that_was_cut_is_scored_and_counted(data):
    replies = await drawn(task_of(), data, LIKED, finish_reason="length")
    assert {one.status for one in replies} == {"truncated"}
    assert replies[0].scores["passes"] == 1


async def test_the_personas_model_scores_where_it_is_named(data):
    async with scorer_that(r"Nearly. \boxed{0.75}") as (scorer, bodies):
        task = task_of("gsm8k_teacher", scorer=scorer)
        replies = await drawn(task, data, LIKED)
        told = task.settings()
        await task.aclose()
    assert task.metric == "model"
    assert {one.scores["model"] for one in replies} == {0.75}
    system, user = bodies[0]["messages"]
    assert system["content"] == told["scoring_prompt"]
    assert "teacher" in system["content"]
    assert LIKED in user["content"]
    assert task.items(data)[0].question in user["content"]


async def test_the_scorers_key_is_told_to_nobody(data):
    section = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "api_key": "sk-secret"}
    task = task_of(scorer=section)
    assert "sk-secret" not in json.dumps(task.settings())


async def test_what_the_model_abstains_from_is_missing_and_counted(data):
    async with scorer_that("who knows") as (scorer, _):
        task = task_of(scorer=scorer)
        abstained = await drawn(task, data, LIKED)
        await task.aclose()
    assert all("model" not in one.scores for one in abstained)
    summary = task.summary(abstained)
    assert summary["abstained"].value == 1
    assert math.isnan(summary["avg@1"].value)
    assert summary["rules"].value == 1
    scored = [one.model_copy(update={"scores": one.scores | {"model": 0.5}}) for one in abstained]
    mixed = task.summary([scored[0], scored[1], abstained[2]])
    assert mixed["avg@1"].value == 0.5
    assert mixed["abstained"].value == pytest.approx(1 / 3)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_scorer_that_cannot_be_asked_at_all_stops_the_evaluation(data, status):
    async with scorer_that("", status) as (scorer, _):
        task = task_of(scorer=scorer)
        with pytest.raises(EngineError, match=r"scorer\.base_url: http.* does not score"):
            await drawn(task, data, LIKED)
        await task.aclose()


async def test_a_failed_score_is_an_abstention(data):
    async with scorer_that("", 400) as (scorer, _):
        task = task_of(scorer=scorer)
        replies = await drawn(task, data, LIKED)
        await task.aclose()
    assert all("model" not in one.scores for one in replies)


@pytest.mark.parametrize("error", [RequestError(400, "too long"), EngineError("gone")])
async def test_an_engine_that_fails_is_the_runners_to_deal_with(data, error):
    with pytest.raises(type(error)):
        await drawn(task_of(), data, error)


async def test_the_summary_holds_every_score_over_all_samples(data):
    replies = await drawn(task_of(), data, LIKED, STOCK, samples=4)
    summary = task_of().summary(replies)
    stock = TASTES["student"].score(STOCK, "stop")
    assert summary["avg@4"].value == pytest.approx((1 + stock) / 2)
    assert (summary["passes"].value, summary["reference_rule"].value) == (0.5, 0.5)
    assert summary["check/no_markup"].value == 0.5
    assert "abstained" not in summary
    assert [summary[end].value for end in ("empty", "error", "truncated")] == [0, 0, 0]
    assert summary["avg@4"].low <= summary["avg@4"].value <= summary["avg@4"].high


async def test_a_request_that_the_engine_refused_counts_as_0(data):
    liked = await drawn(task_of(), data, LIKED)
    refused = liked[0].model_copy(update={"status": "error", "text": "", "scores": {"rules": 0.0}})
    summary = task_of().summary([refused, *liked[1:]])
    assert summary["avg@1"].value == summary["passes"].value == pytest.approx(2 / 3)
    assert summary["check/no_lists"].value == pytest.approx(2 / 3)
    assert summary["error"].value == pytest.approx(1 / 3)


def test_the_digest_is_of_problems_words_rules_and_scorer(data):
    items = task_of().items(data)
    scorer = {"base_url": "http://127.0.0.1:9/v1", "model": "m"}
    digests = [
        task_of().digest(items),
        task_of().digest(items[:2]),
        task_of("gsm8k_ta").digest(items),
        task_of(scorer=scorer).digest(items),
        task_of(scorer=scorer | {"model": "n"}).digest(items),
    ]
    assert len(set(digests)) == len(digests)
    elsewhere = scorer | {"base_url": "http://127.0.0.1:10/v1", "api_key": "k"}
    assert task_of(scorer=elsewhere).digest(items) == digests[3]
    assert task_of(samples=9).digest(items) == digests[0]


def test_replies_are_drawn_as_in_training_unless_the_file_says_how():
    assert task_of().drawn_as_trained
    own = task_of(sampling={"temperature": 0.2, "max_tokens": 32})
    assert not own.drawn_as_trained
    assert own.sampling == schema.Sampling(temperature=0.2, max_tokens=32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"taste": "studnet"}, "did you mean 'student'"),
        ({"scorer": {"base_url": "http://x/v1"}}, r"scorer\.model"),
        ({"scorer": {"modle": "m"}}, "did you mean 'model'"),
        ({"scorer": {"temperature": 3}}, r"scorer\.temperature"),
        ({"hub": {"splot": "test"}}, "hub"),
        ({"sampling": {"temperature": -1}}, r"sampling\.temperature"),
    ],
)
def test_a_wrong_task_file_is_one_line(changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        task_of(**changes)
    assert "\n" not in str(caught.value)
