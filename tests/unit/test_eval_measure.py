from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from clawrl.config import schema
from clawrl.errors import DataError, EngineError
from clawrl.eval.personalization.measure import measure
from clawrl.eval.personalization.measurement import measurements, record
from clawrl.eval.personalization.neutral import neutral_logp, neutral_texts, score_texts
from clawrl.protocols import Engine, Generation, Persona, Problem, Reaction
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Sampling
from clawrl.tastes.student import STUDENT

PROBLEMS = [Problem("p0", "What is 9 + 9?", "18"), Problem("p1", "What is 1 + 1?", "2")]
NATURAL = "Nine and nine more makes 18."
STOCK = "To solve this problem, we need two steps.\n\n1. **Add** them.\n2. The sum is \\boxed{7}"


class Student(Persona):
    """Reads first replies; complains about STOCK, has nothing to say to one word."""

    name = "student"

    def opening(self, problem: Problem, seed: int) -> list[dict[str, str]]:
        return [{"role": "user", "content": f"{problem.question} (words {seed})"}]

    async def react(
        self, problem: Problem, reply: str, finish_reason: str | None, turn: int, seed: int
    ) -> Reaction:
        assert turn == 0, "the first reply alone is measured"
        if " " not in reply:
            return Reaction(text=None, done=True)
        disliked = reply == STOCK
        return Reaction(text=f"no! ({seed})" if disliked else "Thanks!", done=not disliked)


class ScriptedEngine(Engine):
    """Answers by seed; later requests are answered sooner."""

    def __init__(self, texts: list[str], *, fails_at: int | None = None) -> None:
        self.texts = texts
        self.fails_at = fails_at
        self.bodies: list[dict[str, Any]] = []
        self.scored: list[tuple[list[int], list[int]]] = []
        self.running = self.most_running = 0

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        number = len(self.bodies)
        self.bodies.append(body)
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        await asyncio.sleep(0.01 / (number + 1))
        self.running -= 1
        if number == self.fails_at:
            raise EngineError("the engine is gone")
        text = self.texts[body["seed"] % len(self.texts)]
        cut = len(text.split()) > 12
        return {
            "choices": [
                {"message": {"content": text}, "finish_reason": "length" if cut else "stop"}
            ],
            "usage": {"completion_tokens": len(text.split())},
        }

    def chat_stream(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        raise NotImplementedError

    async def generate(self, prompt_ids: list[int], sampling: Sampling) -> Generation:
        raise NotImplementedError

    async def score(self, prompt_ids: list[int], reply_ids: list[int]) -> list[float]:
        self.scored.append((prompt_ids, reply_ids))
        return [-0.5] * len(reply_ids)

    async def health(self) -> bool:
        return True


async def measured(engine: Engine, *, repeats=2, concurrent=3, problems=PROBLEMS, **more: Any):
    return await measure(
        engine=engine,
        persona=Student(),
        taste=STUDENT,
        problems=problems,
        sampling=schema.Sampling(temperature=0.8, max_tokens=64),
        config=schema.Eval(replies_per_problem=repeats, seed=100, concurrent=concurrent),
        progress=more.pop("progress", lambda done, total: None),
        **more,
    )


async def test_every_request_is_the_opening_at_the_training_temperature_with_its_own_seed():
    engine = ScriptedEngine([NATURAL])
    await measured(engine, template_kwargs={"enable_thinking": False})
    assert [body["seed"] for body in engine.bodies] == [100, 101, 102, 103]
    for body in engine.bodies:
        assert (body["temperature"], body["max_tokens"], body["top_p"]) == (0.8, 64, 1.0)
        assert body["chat_template_kwargs"] == {"enable_thinking": False}
    openings = [body["messages"][0]["content"] for body in engine.bodies]
    assert openings == ["What is 9 + 9? (words 0)"] * 2 + ["What is 1 + 1? (words 0)"] * 2


async def test_measuring_twice_asks_for_the_same():
    first, second = ScriptedEngine([NATURAL, STOCK]), ScriptedEngine([NATURAL, STOCK])
    assert await measured(first) == await measured(second, concurrent=1)
    assert first.bodies == second.bodies


async def test_replies_keep_the_order_of_the_problems_whichever_ends_first():
    found = await measured(ScriptedEngine([NATURAL, STOCK]), concurrent=4)
    places = [(reply.problem_id, reply.repeat) for reply in found.replies]
    assert places == [("p0", 0), ("p0", 1), ("p1", 0), ("p1", 1)]
    assert [reply.text for reply in found.replies] == [NATURAL, STOCK, NATURAL, STOCK]


async def test_no_more_requests_run_at_once_than_allowed():
    engine = ScriptedEngine([NATURAL])
    await measured(engine, repeats=8, concurrent=3)
    assert engine.most_running == 3


async def test_what_is_found_in_a_reply_is_what_a_reader_would_count():
    found = await measured(ScriptedEngine([NATURAL, STOCK]))
    natural, stock = found.replies[:2]
    assert natural.score == 1
    assert all(natural.checks.values())
    assert (natural.reference_rule, natural.final_number, natural.correct) == (True, True, True)
    assert not natural.cut
    assert stock.score < 0.5
    assert (stock.reference_rule, stock.final_number, stock.correct) == (False, True, False)
    assert stock.cut


async def test_the_persona_reads_each_reply_and_its_complaints_are_counted():
    found = await measured(ScriptedEngine([NATURAL, STOCK, "Hm"]), repeats=3)
    assert [reply.complained for reply in found.replies[:3]] != [None] * 3
    by_text = {reply.text: reply.complained for reply in found.replies}
    assert by_text == {NATURAL: False, STOCK: True, "Hm": None}  # silence is no answer
    share = found.complaints
    assert share is not None
    assert share.value == 0.5
    assert found.metrics()["eval/complaints"] == 0.5


async def test_a_measurement_recorded_before_complaints_were_asked_for_still_reads():
    found = await measured(ScriptedEngine([NATURAL]))
    stored = found.model_dump(mode="json")
    for reply in stored["replies"]:
        del reply["complained"]
    older = type(found).model_validate(stored)
    assert older.complaints is None
    assert "eval/complaints" not in older.metrics()
    assert older.score == found.score


async def test_the_metrics_are_means_of_the_replies_under_the_tastes_name():
    found = await measured(ScriptedEngine([NATURAL, STOCK]), encode=lambda text: [7, 8, 9], bos=1)
    metrics = found.metrics()
    assert metrics["eval/naturalness"] == pytest.approx(found.score)
    assert metrics["eval/naturalness_low"] <= found.score <= metrics["eval/naturalness_high"]
    assert metrics["eval/reference_rule"] == 0.5
    assert metrics["eval/final_number"] == 1
    assert metrics["eval/correct"] == 0.25  # 18 is right for p0 alone
    assert metrics["eval/cut"] == 0.5
    assert metrics["eval/check/no_lists"] == 0.5
    assert metrics["eval/neutral_logp"] == pytest.approx(-0.5)
    assert metrics["eval/reply_tokens"] == pytest.approx(
        (len(NATURAL.split()) + len(STOCK.split())) / 2
    )


async def test_an_empty_reply_gains_nothing():
    found = await measured(ScriptedEngine([""]))
    assert found.score == 0
    metrics = found.metrics()
    for name in ("reference_rule", "distinct_bigrams", "final_number", "correct"):
        assert metrics[f"eval/{name}"] == 0


async def test_progress_is_told_after_each_reply_and_text():
    told: list[tuple[int, int]] = []
    await measured(
        ScriptedEngine([NATURAL]),
        encode=lambda text: [7, 8],
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(done, 4 + 64) for done in range(1, 4 + 64 + 1)]


async def test_a_failed_engine_is_one_error_and_no_measurement():
    with pytest.raises(EngineError, match="the engine is gone"):
        await measured(ScriptedEngine([NATURAL], fails_at=2))


async def test_an_answer_that_is_no_completion_is_an_engine_error():
    class Strange(ScriptedEngine):
        async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
            return {"choices": []}

    with pytest.raises(EngineError, match=r"no chat completion: .* is missing"):
        await measured(Strange([NATURAL]))


async def test_no_problems_is_the_users_error():
    with pytest.raises(DataError, match="no problem to measure on"):
        await measured(ScriptedEngine([NATURAL]), problems=[])


async def test_with_a_begin_token_all_of_a_text_is_scored_and_without_one_all_but_the_first():
    engine = ScriptedEngine([])
    await score_texts(engine, lambda text: [7, 8, 9], bos=1, concurrent=4)
    assert engine.scored == [([1], [7, 8, 9])] * 64
    engine.scored.clear()
    assert await neutral_logp(engine, lambda text: [7, 8, 9]) == -0.5
    assert engine.scored == [([7], [8, 9])] * 64


async def test_neutral_log_likelihood_is_per_token_not_per_text():
    class Uneven(ScriptedEngine):
        async def score(self, prompt_ids: list[int], reply_ids: list[int]) -> list[float]:
            return [-float(len(reply_ids))] * len(reply_ids)

    lengths = [len(text) for text in neutral_texts()]
    found = await neutral_logp(Uneven([]), lambda text: list(range(len(text))), bos=0)
    assert found == pytest.approx(-sum(n * n for n in lengths) / sum(lengths))


async def test_a_short_score_is_an_error_not_a_likelihood():
    class Short(ScriptedEngine):
        async def score(self, prompt_ids: list[int], reply_ids: list[int]) -> list[float]:
            return [-1.0]

    with pytest.raises(EngineError, match="scored 1 of 3 tokens"):
        await neutral_logp(Short([]), lambda text: [7, 8, 9], bos=1)


def test_the_neutral_texts_are_64_different_sentences_without_digits_or_markup():
    texts = neutral_texts()
    assert len(set(texts)) == len(texts) == 64
    for text in texts:
        assert text.endswith(".")
        assert text.count(".") == 1
        assert not any(sign.isdigit() or sign in "*#`\\" for sign in text)


async def test_a_measurement_is_read_back_and_the_newest_of_a_version_counts(tmp_path):
    folder = RunFolder(tmp_path)
    old = await measured(ScriptedEngine([STOCK]), version=1)
    new = await measured(ScriptedEngine([NATURAL]), version=1, encode=lambda text: [7, 8])
    start = await measured(ScriptedEngine([STOCK]), version=0)
    for found in (old, new, start):
        record(folder, found)
    assert measurements(folder) == [start, new]
    assert (tmp_path / "eval" / "v000001.jsonl").read_text().count("\n") == 2
