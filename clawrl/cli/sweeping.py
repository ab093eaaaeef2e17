"""`clawrl train -m`: every combination of the comma lists, one run after another, in one folder.

    runs/NAME/objective=binary,seed=1/     a run folder like any other
    runs/NAME/objective=binary,seed=2/

`run=NAME` names the sweep. Called again under the same name, it skips what is finished and goes on
with what is not, so a point's folder must tell it apart from every other point and must hold the
same configuration: both are checked before the first run starts.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from rich.markup import escape
from rich.table import Table

from clawrl.cli.screen import err, out, short
from clawrl.config import compose as composing
from clawrl.config.difference import differences
from clawrl.config.schema import Config
from clawrl.errors import ClawRLError, ConfigError, UserError
from clawrl.loop.run_folder import create_run, run_name
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Remainder

STOPPED = 130
"""Exit code of a training that was asked to stop."""
_PLAIN = "=.:+-_~@"
"""Kept as they are in a folder's name; everything else but letters and digits becomes %XX."""

State = Literal["new", "unfinished", "finished"]


@dataclass(frozen=True)
class Point:
    """One combination."""

    label: str
    """What varies, such as `objective=opd,seed=2`."""
    config: Config
    folder: RunFolder

    @property
    def state(self) -> State:
        """How far its folder has come."""
        if not self.folder.config.exists():
            return "new"
        lines = self.folder.ledger_lines()  # a run that ends names what it leaves over
        return "finished" if lines and isinstance(lines[-1], Remainder) else "unfinished"


@dataclass(frozen=True)
class Sweep:
    """All points, in the order in which they run."""

    name: str
    points: list[Point]

    @classmethod
    def plan(cls, overrides: Sequence[str], config_dir: Path | None) -> Sweep:
        """Compose and check every point; nothing is made yet.

        Raises:
            ConfigError: a point does not compose, or two points are the same.
            UserError: a folder holds a run of another configuration.
        """
        combinations = composing.sweep(overrides)
        configs = [composing.compose(point, config_dir=config_dir) for point in combinations]
        names = {config.run for config in configs}
        if len(names) > 1:
            raise ConfigError("run", "it names the whole sweep and cannot be a comma list")
        name = names.pop() or _name(configs)
        points: dict[str, Point] = {}
        for label, config in zip(_labels(combinations), configs, strict=True):
            if label in points:
                raise ConfigError(label, "this combination stands twice in the sweep")
            folder = RunFolder((Path(config.runs_dir) / name / label).absolute())
            tracking = config.tracking.model_copy(update={"sweep": name})
            points[label] = Point(label, config.model_copy(update={"tracking": tracking}), folder)
        for point in points.values():
            _require_same(point)
        return cls(name, list(points.values()))

    def show(self) -> None:
        """`--dry-run`: the points, their folders, and how far each has come."""
        table = Table("point", "folder", "state", title=f"sweep {escape(self.name)}")
        for point in self.points:
            table.add_row(escape(point.label), escape(short(point.folder.root)), point.state)
        out.print(table)

    def run(self, train: Callable[[Path], int] | None = None) -> None:
        """Run what is not finished, one point after another; a point that fails ends no other.

        Args:
            train: goes on with a run folder until its end and returns an exit code; by default a
                process of its own does.

        Raises:
            ClawRLError: some points failed.
            SystemExit: somebody asked to stop.
        """
        train = train or train_in_a_process
        failed = 0
        for number, point in enumerate(self.points, start=1):
            err.rule(escape(f"{number}/{len(self.points)}  {point.label}"))
            state = point.state
            if state == "finished":
                err.print(f"finished before: {escape(short(point.folder.root))}", soft_wrap=True)
                continue
            if state == "new":
                create_run(point.config, point.folder)
            code = train(point.folder.root)
            if code == STOPPED:
                err.print(
                    f"the sweep stops here; the same command with [bold]run={escape(self.name)}[/] "
                    "goes on with it",
                    soft_wrap=True,
                )
                sys.exit(STOPPED)
            failed += code != 0
        if failed:
            raise ClawRLError(
                f"{failed} of {len(self.points)} runs of the sweep failed; the same command with "
                f"run={self.name} tries them again"
            )
        out.print(short(self.points[0].folder.root.parent), soft_wrap=True)


def train_in_a_process(run: Path) -> int:
    """`clawrl train --resume RUN` under a guard: it ends with this process, however that ends."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "clawrl.cli.main", "train", "--resume", str(run), "--trust"]
    with ours:
        with theirs:
            child = subprocess.Popen(
                [sys.executable, "-m", "clawrl.processes.guard", str(theirs.fileno()), *command],
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        with signals_passed_on(child):
            return child.wait()


@contextmanager
def signals_passed_on(child: subprocess.Popen[bytes]) -> Generator[None]:
    """Ctrl-C and SIGTERM are the run's to answer: it finishes its step and saves."""

    def pass_on(_number: int, _frame: object) -> None:
        child.send_signal(signal.SIGTERM)

    before = {n: signal.signal(n, pass_on) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _name(configs: Sequence[Config]) -> str:
    one = len({config.recipe for config in configs}) == 1
    return run_name(configs[0] if one else configs[0].model_copy(update={"recipe": "sweep"}))


def _labels(combinations: Sequence[Sequence[str]]) -> list[str]:
    """What varies in each combination; all that was typed where nothing does."""
    columns = [
        column
        for column in zip(*combinations, strict=True)
        if not column[0].lstrip("+").startswith("run=")
    ]
    varied = [column for column in columns if len(set(column)) > 1] or columns
    labels = [
        ",".join(quote(text, safe=_PLAIN) for text in row) for row in zip(*varied, strict=True)
    ]
    return labels or ["defaults"]


def _require_same(point: Point) -> None:
    """A point that goes on must go on as it began."""
    if not point.folder.config.exists():
        return
    found = differences(composing.load(point.folder.config), point.config)
    if found:
        key, (before, now) = next(iter(found.items()))
        raise UserError(
            f"{short(point.folder.root)}: was run with {key}={before}, now it would be {now}; "
            "choose another run=NAME or the same settings"
        )
