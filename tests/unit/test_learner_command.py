import sys
from pathlib import Path

from clawrl.learner.command import learner_command, learner_environment, memory_estimate_gib
from tests.learning import make_config

RUN, MODEL = Path("/runs/x"), Path("/models/m")


def test_one_process_on_a_cpu_is_started_plainly():
    command = learner_command(make_config(), RUN, 8)
    assert command == [sys.executable, "-m", "clawrl.learner", "/runs/x", "--until", "8"]


def test_several_processes_on_a_cpu_are_started_by_torchrun():
    config = make_config(resources={"learner_processes": 2, "learner_threads": 3})
    command = " ".join(learner_command(config, RUN, 8, bound_staleness=False))
    assert "torch.distributed.run --standalone --nproc-per-node 2 -m clawrl.learner" in command
    assert command.endswith("--no-staleness")
    environment = learner_environment(config, MODEL)
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["CLAWRL_MODEL_PATH"] == "/models/m"


def test_gpus_are_started_by_accelerate_one_process_each():
    config = make_config(
        resources={"learner_gpus": [0, 1, 2, 3]}, learner={"mixed_precision": "bf16"}
    )
    command = " ".join(learner_command(config, RUN, 8, replay=Path("/old/updates.jsonl")))
    assert "accelerate.commands.launch --multi_gpu" in command
    assert "--num_processes 4 " in command
    assert "--mixed_precision bf16" in command
    assert command.endswith("--replay /old/updates.jsonl")
    assert learner_environment(config, MODEL)["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"


def test_the_estimate_falls_with_processes_and_rises_with_the_model():
    def estimate(**sections):
        sections["model"] = {"parameters": 4e9, "hidden_layers": 36} | sections.get("model", {})
        return memory_estimate_gib(make_config(**sections))

    four = estimate(resources={"learner_gpus": [0, 1, 2, 3]})
    assert estimate() > 4e9 * 16 / 2**30 > four > 4e9 * 4 / 2**30
    assert estimate(model={"parameters": 8e9}) > estimate()
    assert estimate(model={"lora": {"rank": 16}}) < estimate() / 2
    assert estimate(objective={"kl_beta": 0.01}) > estimate()
    assert memory_estimate_gib(make_config()) is None
