from pathlib import Path

import pytest

from clawrl.config.build import build
from clawrl.config.compose import compose, config_root, dump, load, sweep
from clawrl.config.schema import Plugin
from clawrl.errors import ConfigError, UserError
from clawrl.protocols import Judge, Persona

GROUPS = sorted(path for path in (config_root() / "conf").iterdir() if path.is_dir())
OPTIONS = [(group.name, option.stem) for group in GROUPS for option in sorted(group.glob("*.yaml"))]
RECIPES = sorted(path.stem for path in (config_root() / "recipes").glob("*.yaml"))


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_in_conf_composes(group: str, option: str):
    assert compose([f"{group}={option}"]).recipe == "student_persona"


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_composes(recipe: str):
    assert compose([f"recipe={recipe}"]).recipe == recipe


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("lerner.lr=1e-5", "did you mean 'learner'"),
        ("learner.rl=1e-5", "did you mean 'lr'"),
        ("recipe=student_persna", "did you mean 'student_persona'"),
        ("objective=combnied", "did you mean 'combined'"),
        ("learner.lr=-1", "greater than or equal to 0"),
        ("loop.updates=many", "valid integer"),
        ("gateway.host.x=1", "gateway.host"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_nearest_right_name(override: str, message: str):
    with pytest.raises(ConfigError) as caught:
        compose([override])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_argument_that_is_no_override_is_refused():
    with pytest.raises(UserError, match="key=value"):
        compose(["student_persona"])


def test_overrides_win_over_recipe_and_groups():
    config = compose(["recipe=student_persona", "learner.lr=3e-6", "objective=opd"])
    assert (config.learner.lr, config.objective.w_binary) == (3e-6, 0.0)


def test_a_key_that_no_yaml_sets_can_be_overridden():
    assert compose(["learner.warmup_updates=3"]).learner.warmup_updates == 3


def test_the_resolved_configuration_repeats_itself(tmp_path: Path):
    config = compose(["model=qwen3-4b", "resources=8gpu", "seed=7"])
    stored = tmp_path / "config.yaml"
    stored.write_text(dump(config))
    assert load(stored) == config


def test_a_stored_configuration_takes_overrides(tmp_path: Path):
    stored = tmp_path / "config.yaml"
    stored.write_text(dump(compose([])))
    assert load(stored, ["loop.updates=3"]).loop.updates == 3


def test_a_users_folder_adds_recipes_and_options(tmp_path: Path):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/mine.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /learner: slow\n"
    )
    (tmp_path / "learner").mkdir()
    (tmp_path / "learner/slow.yaml").write_text("lr: 1.0e-7\n")
    config = compose(["recipe=mine"], config_dir=tmp_path)
    assert (config.recipe, config.learner.lr) == ("mine", 1e-7)


def test_comma_lists_become_every_combination_in_order():
    assert sweep(["objective=binary,opd", "seed=1,2"]) == [
        ["objective=binary", "seed=1"],
        ["objective=binary", "seed=2"],
        ["objective=opd", "seed=1"],
        ["objective=opd", "seed=2"],
    ]


def test_learning_from_nothing_is_refused():
    with pytest.raises(ConfigError, match="nothing would be learned"):
        compose(["objective.w_binary=0", "objective.w_opd=0"])


def plugin(target: str, **keys: object) -> Plugin:
    return Plugin.model_validate({"_target_": target, **keys})


def test_a_plug_in_builds_with_its_own_keys():
    assert build(plugin("clawrl.judge.cues.CuesJudge"), Judge, key="judge").name.startswith("cues/")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (plugin("clawrl.judge.cues.CueJudge"), "did you mean 'CuesJudge'"),
        (plugin("clawrl.judge.nothing.Judge"), "cannot import"),
        (plugin("clawrl.errors.ClawRLError"), "is not a Judge"),
        (plugin("clawrl.judge.cues.CuesJudge", votes=3), "unknown key"),
        (plugin("clawrl.judge.prm.PrmJudge"), "needs it"),
    ],
)
def test_a_plug_in_that_cannot_be_built_says_which_key(section: Plugin, message: str):
    with pytest.raises(ConfigError, match=message):
        build(section, Judge, key="judge")


def test_a_foreign_class_named_by_a_run_folder_is_not_imported():
    with pytest.raises(ConfigError, match="--trust"):
        build(plugin("antigravity.Anything"), Persona, key="persona", trusted=False)
