from pathlib import Path

import pytest

from clawrl.config.build import build
from clawrl.config.compose import compose, config_root, dump, load, sweep
from clawrl.config.schema import Plugin
from clawrl.errors import ConfigError, UserError
from clawrl.protocols import Judge, Persona

GROUPS = sorted(
    path
    for path in (config_root() / "conf").iterdir()
    if path.is_dir() and path.name != "task"  # tasks are no part of a configuration
)
OPTIONS = [(group.name, option.stem) for group in GROUPS for option in sorted(group.glob("*.yaml"))]
RECIPE_FILES = config_root() / "recipes"
RECIPES = sorted(
    path.relative_to(RECIPE_FILES).with_suffix("").as_posix()
    for path in RECIPE_FILES.rglob("*.yaml")
)


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
        ("recipe=paper/personalisation", "did you mean 'paper/personalization'"),
        ("recipe=personalization", "did you mean 'paper/personalization'"),
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


def test_a_users_recipe_may_stand_in_a_subfolder(tmp_path: Path):
    (tmp_path / "recipes/mine").mkdir(parents=True)
    (tmp_path / "recipes/mine/slow.yaml").write_text(
        "# @package _global_\nlearner:\n  lr: 1.0e-7\n"
    )
    config = compose(["recipe=mine/slow"], config_dir=tmp_path)
    assert (config.recipe, config.learner.lr) == ("mine/slow", 1e-7)


def test_the_papers_recipe_holds_the_papers_settings():
    config = compose(["recipe=paper/personalization"])
    learner, objective = config.learner, config.objective
    assert (config.sampling.temperature, config.sampling.max_tokens) == (0.6, 8192)
    assert (learner.lr, learner.betas, learner.weight_decay) == (1e-5, (0.9, 0.98), 0.1)
    assert (learner.batch_samples, learner.steps_per_batch) == (16, 1)
    assert (objective.w_binary, objective.w_opd, objective.kl_beta) == (1.0, 1.0, 0.0)
    assert (objective.opd_clip, objective.aggregation) == (None, "sequence_mean")
    assert config.judge.target.endswith("PrmJudge")
    assert (config.loop.updates, config.eval.every, config.data.eval_problems) == (16, 8, 36)
    assert compose(["recipe=paper/personalization", "persona=teacher"]).taste == "teacher"


def test_the_demo_needs_nothing_but_this_machine_and_gives_the_same_each_time():
    config = compose(["recipe=demo"])
    assert (config.model.name, config.engine.device) == ("smollm2-135m", "cpu")
    assert config.data.source == "reasoning_gym"
    assert config.judge.target.endswith("CuesJudge")
    assert (config.taste, config.max_turns, config.loop.updates) == ("student", 1, 8)
    assert config.loop.max_staleness == 0


@pytest.mark.parametrize("objective", ["binary", "opd", "combined"])
def test_a_small_model_brings_its_own_settings_to_the_papers_recipe(objective: str):
    small = ["recipe=paper/personalization", "model=smollm2-135m", "resources=cpu", "judge=cues"]
    config = compose([*small, f"objective={objective}", "data=file"])
    assert (config.sampling.max_tokens, config.learner.lr) == (128, 1.2e-5)
    assert (config.objective.kind, config.objective.opd_clip) == (objective, 2.0)
    assert (config.engine.device, config.data.source) == ("cpu", "file")
    assert config.judge.target.endswith("CuesJudge")
    assert (config.loop.updates, config.eval.every) == (16, 8)


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


def test_adapters_bring_their_own_transfer():
    assert compose(["learner=lora"]).weights.transfer == "lora"
    assert compose([]).weights.transfer == "disk"


def test_a_class_of_others_inside_a_section_is_not_loaded_either():
    members = {
        "own": {"_target_": "clawrl.judge.cues.CuesJudge"},
        "theirs": {"_target_": "os.system"},
    }
    section = plugin("clawrl.judge.committee.CommitteeJudge", members=members)
    with pytest.raises(ConfigError, match=r"os\.system is not clawrl's own.*--trust"):
        build(section, Judge, key="judge", trusted=False)
