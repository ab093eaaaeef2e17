from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawrl.config import schema
from clawrl.errors import ConfigError, DataError
from clawrl.eval.tasks.catalog import load_task, task_files
from clawrl.eval.tasks.problem import ProblemTask
from clawrl.eval.tasks.task import Draw, Setting
from tests.stub_engine import StubEngine

REAL = Path(__file__).parents[3] / "shared" / "data"
OWN = ["aime24", "aime25", "gsm8k", "math500"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder and a cache of the test's own, and no hub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def rows(path: Path, *answers: str, key: str = "question") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"id": f"{path.stem}-{n}", key: f"What is {answer}?", "answer": answer})
        for n, answer in enumerate(answers)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", OWN)
def test_every_task_of_ours_is_described(name: str):
    task = load_task(name)
    assert task.name == name
    assert task.description
    assert "\n" not in task.description
    assert task.metric == "exact_match"
    assert task.samples >= 1


@pytest.mark.skipif(not REAL.is_dir(), reason=f"the real sets are not here: {REAL}")
@pytest.mark.parametrize(
    ("name", "file"), [*((name, name) for name in OWN if name != "gsm8k"), ("gsm8k", "gsm8k_test")]
)
def test_the_real_sets_are_read_whole(name: str, file: str):
    task = load_task(name)
    items = task.items(schema.Data(path=str(REAL / f"{file}.jsonl")))
    assert len(items) == task.size
    assert len({item.item_id for item in items}) == task.size


def test_the_users_file_comes_before_the_projects_and_that_before_the_caches(elsewhere: Path):
    task = load_task("gsm8k")
    cache = rows(elsewhere / "cache" / "clawrl" / "data" / "gsm8k.jsonl", "1")
    assert [item.answer for item in task.items(schema.Data())] == ["1"]
    assert task.source(schema.Data()) == str(cache)
    rows(elsewhere / "data" / "gsm8k.jsonl", "2")
    assert [item.answer for item in task.items(schema.Data())] == ["2"]
    own = schema.Data(path=str(rows(elsewhere / "mine.jsonl", "3", key="problem")))
    assert [item.answer for item in task.items(own)] == ["3"]
    assert task.source(own) == own.path


def test_a_named_file_that_is_not_there_is_never_replaced(elsewhere: Path):
    rows(elsewhere / "data" / "gsm8k.jsonl", "2")
    with pytest.raises(DataError, match=r"data\.path: cannot read nowhere\.jsonl"):
        load_task("gsm8k").items(schema.Data(path="nowhere.jsonl"))


def test_an_answer_that_the_task_cannot_have_is_named(elsewhere: Path):
    own = schema.Data(path=str(rows(elsewhere / "mine.jsonl", "7", "1000")))
    with pytest.raises(DataError, match="mine-1: the answer '1000' is not one that aime24 can"):
        load_task("aime24").items(own)


async def test_the_problem_is_asked_in_the_prompts_words_and_the_reply_is_kept():
    engine = StubEngine(r"So it is \boxed{7}.")
    task = load_task("aime24")
    item = task.items(schema.Data(path=str(rows(Path("mine.jsonl"), "7"))))[0]
    found = await task.draw(Draw(item, 2, 99), Setting(engine, task.sampling, {"thinking": False}))
    body = engine.bodies[0]
    content = body["messages"][0]["content"]
    assert content.startswith("What is 7?\n")
    assert r"\boxed{}" in content
    assert (body["seed"], body["max_tokens"]) == (99, 32768)
    assert body["chat_template_kwargs"] == {"thinking": False}
    assert found.text == r"So it is \boxed{7}."
    assert (found.item_id, found.sample, found.seed) == ("mine-0", 2, 99)
    assert (found.status, found.parsed, found.scores) == ("ok", "7", {"exact_match": 1.0})
    assert found.tokens == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": "no slot"}, "it has no {question}"),
        ({"scorer": "nubmer"}, "did you mean 'number'"),
        ({"sampling": {"temperature": 3}}, "t.sampling.temperature"),
        ({"sampling": {"temprature": 1}}, "t.sampling.temprature"),
        ({"hub": {"id": "a/b", "splt": "test"}}, "t.hub"),
    ],
)
def test_a_mistake_in_a_tasks_file_is_one_line(change: dict[str, Any], message: str):
    fields: dict[str, Any] = {
        "name": "t",
        "description": "d",
        "prompt": "{question}",
        "scorer": "number",
        "hub": {"id": "a/b", "split": "test"},
        "sampling": {},
    }
    with pytest.raises(ConfigError) as caught:
        ProblemTask(**(fields | change))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_misspelt_task_names_the_nearest_one():
    with pytest.raises(ConfigError, match="did you mean 'gsm8k'"):
        load_task("gsm8")


def test_a_task_of_the_users_own_is_found_and_overrides_are_laid_over_it(elsewhere: Path):
    folder = elsewhere / "mine" / "task"
    folder.mkdir(parents=True)
    text = Path(task_files()["gsm8k"]).read_text()
    (folder / "sums.yaml").write_text(text.replace("samples: 1", "samples: 3"))
    assert {"sums", "gsm8k"} <= set(task_files(folder.parent))
    task = load_task("sums", folder.parent)
    assert (task.name, task.samples) == ("sums", 3)
    task = load_task("sums", folder.parent, overrides=["task.samples=5", "task.hub.split=train"])
    assert task.samples == 5
    assert task.source(schema.Data()) == "openai/gsm8k/main"
    with pytest.raises(ConfigError, match="did you mean 'prompt'"):
        load_task("sums", folder.parent, overrides=["task.promt=x"])


def test_a_task_without_a_target_is_refused(elsewhere: Path):
    (elsewhere / "task").mkdir()
    (elsewhere / "task" / "bare.yaml").write_text("description: x\n")
    with pytest.raises(ConfigError, match="_target_"):
        load_task("bare", elsewhere)
