"""A stored configuration, and the choices of groups that are laid over it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from clawrl.config.compose import compose, config_root, dump, load
from clawrl.config.schema import Config
from clawrl.errors import ConfigError, UserError

Load = Callable[..., Config]
GROUPS = sorted(
    path
    for path in (config_root() / "conf").iterdir()
    if path.is_dir() and path.name in Config.model_fields
)
OPTIONS = [(group.name, option.stem) for group in GROUPS for option in sorted(group.glob("*.yaml"))]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run of the demo keeps, with one key of its own."""
    path = tmp_path_factory.mktemp("run") / "config.yaml"
    path.write_text(dump(compose(["learner.max_grad_norm=0.5", "run=mine"])))
    return path


def stored_with(tmp_path: Path, *overrides: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(dump(compose(overrides)))
    return path


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_can_be_laid_over_a_stored_run(stored: Path, group: str, option: str):
    assert load(stored, [f"{group}={option}"]).run == "mine"


@pytest.mark.parametrize(
    "choice",
    [
        "judge=prm",
        "objective=opd",
        "objective=binary",
        "persona=student_llm",
        "persona=teacher",
        "model=qwen3-4b",
        "resources=8gpu",
    ],
)
def test_a_choice_gives_what_composing_with_it_gives(tmp_path: Path, choice: str):
    # The model's learning rate is read where a file asks for it: by `learner=full`, which a stored
    # run has behind it already.
    path = stored_with(tmp_path)
    laid, composed = load(path, [choice]), compose([choice])
    if choice == "model=qwen3-4b":
        laid = load(path, [choice, "learner=full"])
    assert laid == composed


@pytest.mark.parametrize(
    ("before", "back"),
    [
        ("learner=lora", "learner=full"),
        ("judge=prm", "judge=cues"),
        ("persona=student_llm", "persona=student"),
        ("resources=1gpu", "resources=cpu"),
        ("objective=binary", "objective=combined"),
    ],
)
def test_the_choice_before_leaves_nothing_behind(tmp_path: Path, before: str, back: str):
    path = stored_with(tmp_path, before)
    laid = load(path, [back, "weights=disk", "engine=cpu"])
    assert laid == compose(["weights=disk", "engine=cpu"])


def test_adapters_come_with_their_learning_rate_and_their_way_to_the_engine(stored: Path):
    config = load(stored, ["learner=lora"])
    assert config.model.lora is not None
    assert (config.model.name, config.learner.lr) == ("smollm2-135m", 1e-4)
    assert config.weights.transfer == "lora"


def test_adapters_of_another_rank_go_with_them(tmp_path: Path):
    path = stored_with(tmp_path, "learner=lora", "model.lora.rank=8")
    assert load(path, ["learner=full"]).model.lora is None


def test_the_users_own_keys_stay(stored: Path):
    config = load(stored, ["objective=opd", "learner=lora"])
    assert (config.learner.max_grad_norm, config.objective.opd_clip) == (0.5, 2.0)


def test_keys_win_over_choices_in_any_order(stored: Path):
    config = load(stored, ["judge.votes=5", "judge=prm", "learner.lr=3e-6", "learner=lora"])
    assert (config.judge.model_extra or {})["votes"] == 5
    assert config.learner.lr == 3e-6


def test_a_model_chosen_after_adapters_keeps_them(stored: Path):
    config = load(stored, ["learner=lora", "model=qwen3-4b"])
    assert config.model.lora is not None
    assert config.model.parameters == 4.02e9


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("judge=pmr", "judge: there is no 'pmr'; did you mean 'prm'?"),
        ("judg=prm", "did you mean 'judge'"),
        ("objective=combnied", "did you mean 'combined'"),
        ("learner.rl=1", "did you mean 'lr'"),
        ("task=gsm8k", "there is no 'task'"),
        ("recipe=teacher_persona", "a recorded run keeps its own"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_nearest_right_name(
    stored: Path, override: str, message: str
):
    with pytest.raises(ConfigError) as caught:
        load(stored, [override])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_argument_that_is_no_override_is_refused(stored: Path):
    with pytest.raises(UserError, match="key=value"):
        load(stored, ["prm"])


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's folder of options."""
    folder = tmp_path / "own"
    for name, text in {
        "judge/strict.yaml": "_target_: clawrl.judge.prm.PrmJudge\nmodel: m\nengine: http://x/v1\n",
        "judge/very_strict.yaml": "defaults:\n  - strict\n  - _self_\nvotes: 9\n",
        "learner/slow.yaml": "# @package _global_\ndefaults:\n  - override /judge: strict\n"
        "learner:\n  lr: 1.0e-7\nmax_turns: 5\n",
        "learner/odd.yaml": "defaults:\n  - other@here: x\n",
        "learner/lost.yaml": "defaults:\n  - override /judge: nobody\n",
        "learner/torn.yaml": "lr: [1\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_users_folder_adds_options(stored: Path, own: Path):
    for name in ("odd", "lost", "torn"):
        (own / f"learner/{name}.yaml").unlink()
    config = load(stored, ["judge=very_strict"], config_dir=own)
    assert (config.judge.model_extra or {})["votes"] == 9
    config = load(stored, ["learner=slow"], config_dir=own)
    assert (config.learner.lr, config.max_turns) == (1e-7, 5)
    assert (config.judge.model_extra or {})["model"] == "m"
    assert config.learner.max_grad_norm == 0.5


@pytest.mark.parametrize(
    ("option", "message"),
    [("odd", "cannot be laid"), ("lost", "there is no 'nobody' in judge"), ("torn", "torn.yaml")],
)
def test_an_option_that_cannot_be_laid_says_which_file(
    stored: Path, own: Path, option: str, message: str
):
    for other in {"odd", "lost", "torn"} - {option}:
        (own / f"learner/{other}.yaml").unlink()
    with pytest.raises(ConfigError, match=message):
        load(stored, [f"learner={option}"], config_dir=own)
