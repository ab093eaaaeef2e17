import json
import re
from itertools import islice
from pathlib import Path

import pytest

from clawrl.config import schema
from clawrl.errors import DataError
from clawrl.problems.generated import generated_problems
from clawrl.problems.sets import eval_problems, training_problems
from clawrl.problems.stories import story

REAL = Path(__file__).parents[3] / "shared" / "data"


def rows(prefix: str, count: int) -> list[dict[str, str]]:
    return [
        {"id": f"{prefix}-{i}", "question": f"What is {prefix} {i} + 1?", "answer": str(i + 1)}
        for i in range(count)
    ]


def write(path: Path, lines: list[dict[str, str]]) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


@pytest.fixture
def data(tmp_path):
    def make(train=None, measured=None, **keys) -> schema.Data:
        return schema.Data(
            source="file",
            path=write(tmp_path / "train.jsonl", rows("train", 7) if train is None else train),
            eval_path=write(tmp_path / "eval.jsonl", measured or rows("eval", 5)),
            eval_problems=3,
            **keys,
        )

    return make


def test_training_never_ends_and_each_pass_holds_every_problem_once(data):
    ids = [problem.problem_id for problem in islice(training_problems(data()), 21)]
    passes = [ids[:7], ids[7:14], ids[14:]]
    assert all(sorted(one) == sorted(passes[0]) and len(set(one)) == 7 for one in passes)
    assert passes[0] != passes[1]


def test_the_same_seed_gives_the_same_order_and_another_seed_another(data):
    first, again, other = (
        list(islice(training_problems(data(seed=seed)), 14)) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_what_is_measured_is_the_first_rows_whatever_the_seed(data):
    ids = [problem.problem_id for problem in eval_problems(data(seed=9))]
    assert ids == ["eval-0", "eval-1", "eval-2"]


def test_an_order_file_says_what_is_measured(data, tmp_path):
    order = tmp_path / "order.json"
    order.write_text(json.dumps({"order": ["eval-4", "eval-0", "eval-2", "eval-1"]}))
    ids = [problem.problem_id for problem in eval_problems(data(eval_order=str(order)))]
    assert ids == ["eval-4", "eval-0", "eval-2"]


def test_measured_problems_are_never_trained_on_by_id_or_by_text(data):
    train = rows("train", 2) + rows("eval", 1)
    train.append({"id": "copy", "question": " what is EVAL  1 + 1?", "answer": "2"})
    seen = {problem.problem_id for problem in islice(training_problems(data(train=train)), 40)}
    assert seen == {"train-0", "train-1"}


def test_nothing_left_to_train_on_is_an_error(data):
    with pytest.raises(DataError, match="no problem is left to train on"):
        training_problems(data(train=rows("eval", 3)))


def test_too_few_problems_to_measure_on_is_an_error(data):
    with pytest.raises(DataError, match=r"has 2 problems, data\.eval_problems asks for 3"):
        eval_problems(data(measured=rows("eval", 2)))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{oops", "not a line of JSON"),
        ("[1]", "not an object"),
        ('{"id": "a", "question": "q"}', "'answer' is missing"),
        ('{"id": "a", "question": " ", "answer": "1"}', "'question' must be a text"),
        ('{"id": "a", "question": "q", "answer": [1]}', "'answer' must be a text"),
        ('{"id": "train-0", "question": "q", "answer": 1}', "'train-0' appears twice"),
    ],
)
def test_a_bad_row_names_file_and_line(data, line, problem):
    config = data()
    with Path(config.path).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError) as caught:
        training_problems(config)
    assert f"{config.path}:8: " in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"path": None}, r"^data\.path is not set"),
        ({"eval_path": None}, r"^data\.eval_path is not set"),
        ({"path": "/nowhere/x.jsonl"}, r"^data\.path: cannot read /nowhere/x\.jsonl: No such file"),
        ({"eval_order": "/nowhere/o.json"}, r"^data\.eval_order: cannot read /nowhere/o\.json"),
    ],
)
def test_a_missing_file_is_one_line_that_names_the_key(data, keys, problem):
    with pytest.raises(DataError, match=problem):
        training_problems(data().model_copy(update=keys))


@pytest.mark.parametrize("text", ["[]", "{}", "no json", '{"order": 3}'])
def test_an_order_file_of_the_wrong_form_is_an_error(data, tmp_path, text):
    order = tmp_path / "order.json"
    order.write_text(text)
    with pytest.raises(DataError, match="not JSON with a list 'order'"):
        eval_problems(data(eval_order=str(order)))


def test_an_order_file_with_an_unknown_id_is_an_error(data, tmp_path):
    order = tmp_path / "order.json"
    order.write_text('{"order": ["eval-0", "gone"]}')
    with pytest.raises(DataError, match="no row has the id 'gone'"):
        eval_problems(data(eval_order=str(order)))


def test_a_whole_number_is_an_answer_too(data):
    config = data(train=[{"id": 1, "question": "What is 1 + 1?", "answer": 2}])
    assert next(training_problems(config)).answer == "2"


def test_generated_problems_are_of_all_kinds_in_turn_and_their_answers_are_right():
    problems = list(islice(generated_problems(7), 60))
    kinds = [problem.problem_id.rpartition("-")[0] for problem in problems]
    assert kinds == ["sum", "product", "small_sum"] * 20
    assert len({problem.problem_id for problem in problems}) == 60
    for problem in problems:
        left, right = (int(number) for number in re.findall(r"\d+", problem.question))
        assert int(problem.answer) in {left + right, left - right, left * right}
        assert min(left, right) >= 2
        assert int(problem.answer) <= 200


def test_two_seeds_share_no_generated_problem():
    orders = [
        {p.problem_id for p in islice(training_problems(schema.Data(seed=seed)), 200)}
        for seed in (0, 1)
    ]
    assert not orders[0] & orders[1]


@pytest.mark.parametrize("operation", ["+", "-", "*"])
def test_a_story_holds_both_numbers_and_asks_for_one(operation):
    texts = {story(5, operation, 2, key=str(key)) for key in range(60)}
    assert len(texts) > 30
    for text in texts:
        assert sorted(re.findall(r"\d+", text)) == ["2", "5"]
        assert text.endswith("?")
        assert not re.search(r"[{}]", text)


def test_generated_problems_are_whole_positive_and_disjoint():
    config = schema.Data(source="reasoning_gym", eval_problems=36, seed=5)
    measured = eval_problems(config)
    trained = list(islice(training_problems(config), 300))
    assert measured == eval_problems(config.model_copy(update={"seed": 6}))
    assert trained == list(islice(training_problems(config), 300))
    assert not {p.question for p in measured} & {p.question for p in trained}
    assert all(int(p.answer) > 0 for p in [*measured, *trained])
    assert not any("final answer" in p.question for p in [*measured, *trained])


@pytest.mark.skipif(not REAL.is_dir(), reason=f"the real GSM8K is not in {REAL}")
def test_the_real_set_trains_on_one_split_and_measures_on_the_papers_36():
    config = schema.Data(
        source="file",
        path=str(REAL / "gsm8k_train.jsonl"),
        eval_path=str(REAL / "gsm8k_test.jsonl"),
        eval_order=str(REAL / "gsm8k_openclaw_order.json"),
    )
    measured = eval_problems(config)
    assert [problem.problem_id for problem in measured[:2]] == ["gsm8k-test-677", "gsm8k-test-1046"]
    assert len(measured) == 36
    one_pass = list(islice(training_problems(config), 7473))
    assert len({problem.problem_id for problem in one_pass}) > 7400
    assert not {p.question for p in measured} & {p.question for p in one_pass}


def test_a_hub_data_set_gives_the_number_after_the_hashes(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for split in ("train", "test"):
        solved = [
            {"question": f"{split} {i}?", "answer": f"<<600*2=1200>>.\n#### 1,20{i}"}
            for i in range(4)
        ]
        write(tmp_path / "set" / f"{split}.jsonl", solved)
    config = schema.Data(
        source="hub", hub_id=str(tmp_path / "set"), hub_config="default", eval_problems=2
    )
    measured = eval_problems(config)
    assert [(p.problem_id, p.answer) for p in measured] == [("test-0", "1200"), ("test-1", "1201")]
    assert next(training_problems(config)).question.startswith("train")


def test_a_hub_data_set_that_cannot_be_had_says_what_to_use_instead(tmp_path):
    config = schema.Data(source="hub", hub_id=str(tmp_path / "nothing"))
    with pytest.raises(DataError, match=r"cannot load .*data\.source=reasoning_gym"):
        eval_problems(config)
