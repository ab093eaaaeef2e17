"""A small run trained by the learner process, replayed from its records: bit for bit, or not."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clawrl.config.compose import compose, dump
from clawrl.judge.cues import CuesJudge
from clawrl.learner.command import learner_command, learner_environment
from clawrl.loop.parts import assembler
from clawrl.offline.replay import replay_run
from clawrl.records.folder import RunFolder
from clawrl.records.jsonl import JsonlFile
from clawrl.records.nouns import Interaction, Retired
from clawrl.samples.render import PromptRenderer
from tests.factories import make_feedback, make_interaction
from tests.judges import verdict_of
from tests.tiny import make_tiny_model

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BATCH, UPDATES, TURNS = 4, 3, 18
SAYINGS = [
    "Please write it without the list.",
    "Thanks, that is right.",
    "Too long, be brief!",
    "3",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"))


def turn_of(number: int, renderer: PromptRenderer) -> Interaction:
    """A turn whose prompt was rendered and whose reply ids are random, as an engine gives them."""
    messages = [{"role": "user", "content": f"What is {number} + 2?"}]
    draw = torch.Generator().manual_seed(number)
    length = 5 + 3 * (number % 4)
    return make_interaction(
        interaction_id=f"t{number}",
        messages=messages,
        prompt_ids=renderer.render(messages, tools=None, template_kwargs={}),
        reply_ids=torch.randint(0, 256, (length,), generator=draw).tolist(),
        behaviour_logp=(-5.5 - torch.rand(length, generator=draw).double()).tolist(),
    )


async def record(folder: RunFolder, model: Path) -> None:
    """Turns judged in part by cues and in part by recorded votes, and their samples."""
    overrides = [f"model.name={model}", "model.context_tokens=512", "tracking=off"]
    overrides += [f"learner.batch_samples={BATCH}", "learner.lr=1e-3", "learner.checkpoint_every=2"]
    config = compose([*overrides, "resources.learner_threads=1", "run=live"])
    folder.root.mkdir(parents=True)
    folder.config.write_text(dump(config))
    renderer, assemble = PromptRenderer(model), assembler(config, model)
    streams = [folder.interactions, folder.feedback, folder.verdicts, folder.samples]
    interactions, feedback, verdicts, samples = [stream.writer(0) for stream in streams]
    for number in range(TURNS):
        turn = turn_of(number, renderer)
        next_state = make_feedback(turn, content=SAYINGS[number % len(SAYINGS)])
        verdict = await CuesJudge().judge(turn, next_state)
        if number % 3 == 2:
            verdict = verdict_of(turn, "prm/m@v0", -1, None, -1, hint="Leave out the greeting.")
        interactions.append(turn)
        feedback.append(next_state)
        if number == TURNS - 1:
            break  # the run was stopped before it judged this one
        verdicts.append(verdict)
        samples.append(assemble(turn, verdict))


def train(folder: RunFolder, model: Path, failpoint: str = "") -> int:
    """Run the learner's process as the supervisor does; returns its exit code."""
    config = compose([])  # one process on the CPU
    folder.logs.mkdir(exist_ok=True)
    environment = os.environ | learner_environment(config, model) | {"OMP_NUM_THREADS": "1"}
    if failpoint:
        environment["CLAWRL_FAILPOINT"] = failpoint
    with (folder.logs / "learner.log").open("a") as log:
        command = learner_command(config, folder.root, UPDATES, bound_staleness=False)
        return subprocess.run(command, env=environment, stderr=log, check=False).returncode


@pytest.fixture(scope="module")
def live(model: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run whose learner was killed after a provisional update, which a restart took back."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "live")
    asyncio.run(record(folder, model))
    assert train(folder, model, "learner.after_ledger@1") == -signal.SIGKILL
    assert train(folder, model) == 0
    assert any(isinstance(line, Retired) for line in folder.ledger_lines())
    assert [update.version for update in folder.surviving_updates()] == [1, 2, 3]
    return folder


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def clawrl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "clawrl.cli.main", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "120"},
        cwd=ROOT,
        check=False,
    )


def test_a_run_replays_bit_for_bit_and_stays_as_it_is(live: RunFolder):
    before = files(live.root.parent)
    done = clawrl("replay", str(live.root))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "bit-equal"
    rows = [[cell.strip() for cell in line.split("│")] for line in done.stdout.splitlines()]
    counts = {row[1]: row[2:4] for row in rows if len(row) > 4}
    assert counts["turns"] == [str(TURNS), ""]
    assert counts["verdicts"] == counts["samples"] == [str(TURNS - 1)] * 2
    assert counts["updates"] == [str(UPDATES)] * 2
    assert files(live.root.parent) == before


@pytest.fixture
def copy(live: RunFolder, tmp_path: Path) -> RunFolder:
    shutil.copytree(live.root, tmp_path / "copy")
    return RunFolder.open(tmp_path / "copy")


def tamper(path: Path, line: int, **changes: object) -> None:
    lines = path.read_text().splitlines()
    lines[line] = json.dumps(json.loads(lines[line]) | changes)
    path.write_text("\n".join(lines) + "\n")


def test_a_changed_record_is_named_without_training(copy: RunFolder):
    tamper(copy.samples.path(0), 1, behaviour_logp=[-1.0] * 8)
    done = clawrl("replay", str(copy.root))
    assert done.returncode == 1
    assert "sample of t1, behaviour_logp[0]: recorded -1.0, replay gives -" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_changed_digest_is_found_at_its_update(copy: RunFolder):
    first, second = [json.loads(line) for line in copy.ledger.read_text().splitlines()][-2:]
    with JsonlFile(copy.ledger) as ledger:
        for line in copy.surviving_updates():
            if line.version == second["version"]:
                ledger.append(line.model_copy(update={"digest_after": "0" * 64}))
    assert first["version"] == second["version"] - 1
    outcome = await replay_run(copy, lambda _line: None, records=False)
    assert str(outcome.difference).startswith("update 3, digest_after: recorded 0000")
    assert (outcome.trained, outcome.updates.equal, outcome.updates.of) == (True, 2, 3)
    assert sorted(path.name for path in copy.root.parent.iterdir()) == ["copy"]


def test_a_run_judged_by_another_judge_is_trained_in_its_own_order(copy: RunFolder):
    done = clawrl(
        "judge", str(copy.root), "judge._target_=tests.judges.ScoringJudge", "judge.every=2"
    )
    assert done.returncode == 0, done.stderr
    again = RunFolder.open(Path(done.stdout.strip()))
    accepted = [sample.interaction_id for sample in again.samples.read() if sample.accepted]
    assert len(accepted) == TURNS // 2
    done = clawrl("train", "--from", str(again.root))
    assert done.returncode == 0, done.stderr
    used = [name for update in again.surviving_updates() for name in update.sample_ids]
    assert used == accepted[: len(accepted) // BATCH * BATCH]


def test_a_ledger_whose_samples_are_not_accepted_here_is_not_followed(copy: RunFolder):
    before = files(copy.root)
    done = clawrl("judge", str(copy.root), "objective=binary")
    assert done.returncode == 0, done.stderr
    again = RunFolder.open(Path(done.stdout.strip()))
    tamper(again.samples.path(0), 0, accepted=False, reason="score_0")
    done = clawrl("train", "--from", str(again.root))
    assert done.returncode == 0, done.stderr
    assert "are not accepted here: batches are made anew" in " ".join(done.stderr.split())
    assert again.surviving_updates()[0].sample_ids[0] == "t1"
    assert files(copy.root) == before


async def test_a_trained_folder_without_next_states_replays_its_updates(
    copy: RunFolder, model: Path
):
    done = clawrl("train", "--from", str(copy.root), "learner.lr=2e-3")
    assert done.returncode == 0, done.stderr
    again = RunFolder.open(Path(f"{copy.root}-retrained-1"))
    outcome = await replay_run(again, lambda _line: None, records=False)
    assert outcome.difference is None
    assert (outcome.turns, outcome.updates.equal) == (0, UPDATES)
    assert "no next states" in outcome.notes[0]
    # What a user tried beside a run says nothing about the run.
    assert (await replay_run(copy, lambda _line: None, records=True)).difference is None
