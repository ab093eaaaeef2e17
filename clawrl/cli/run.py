"""What the commands do: compose, build, run, render."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from clawrl.cli.screen import err, out, short
from clawrl.config import compose as composing
from clawrl.config.schema import Config
from clawrl.errors import ClawRLError, ConfigError, UserError, first_error
from clawrl.loop.display import Display, StatusLine
from clawrl.loop.run_folder import create_run, folder_of, go_on, held, store_config
from clawrl.records.folder import RunFolder


def train(
    overrides: list[str],
    *,
    resume: Path | None,
    source: Path | None,
    multirun: bool,
    dry_run: bool,
    cfg: bool,
    config_dir: Path | None,
    trust: bool,
) -> None:
    """`clawrl train`."""
    if resume is not None and source is not None:
        raise UserError(
            "--resume goes on with a run, --from trains on its records: give one of them"
        )
    if multirun:
        if resume is not None or source is not None or cfg:
            raise UserError("-m makes runs of its own: leave out --resume, --from and --cfg")
        _sweep(overrides, config_dir, dry_run=dry_run)
        return
    recorded = resume or source
    if recorded is not None:
        folder = RunFolder.open(recorded)
        config = composing.load(folder.config, overrides, config_dir=config_dir)
    else:
        config = compose(overrides, config_dir)
        folder = folder_of(config)
    if cfg:
        print(composing.dump(config), end="")
    elif dry_run:
        show_plan(config, folder.root)
    elif source is not None:
        from clawrl.offline.stages import train_offline

        supervise(lambda display: train_offline(config, folder, display))
    else:
        if resume is None:
            create_run(config, folder)
        else:
            store_config(config, folder)
        _train_live(config, folder, trusted=resume is None or trust)


def _train_live(config: Config, folder: RunFolder, *, trusted: bool) -> None:
    from clawrl.cli.logs import log_to
    from clawrl.loop.state import RunState
    from clawrl.loop.training import Stopped, Training

    log_to(folder.logs / "supervisor.log")
    state = RunState(
        name=config.recipe,
        folder=short(folder.root),
        target=config.loop.updates,
        batch_samples=config.learner.batch_samples,
    )
    how = f"clawrl train --resume {short(folder.root)}"
    try:
        with Display(state, err) as display:
            training = Training(config, folder, display, trusted=trusted)
            run_until_signal(training.run(), training.request_stop)
            display.save_svg(folder.root / "display.svg")
    except Stopped as stopped:
        err.print(
            f"{stopped}; everything is saved. Go on with: [bold]{escape(how)}[/]", soft_wrap=True
        )
        sys.exit(130)
    except UserError:
        raise
    except ClawRLError as error:
        raise ClawRLError(f"{error} (logs: {short(folder.logs)})") from error
    from clawrl.cli.reporting import report_run

    report_run(folder.root)


def collect(
    overrides: list[str],
    *,
    turns: int,
    episodes: int,
    scripted: bool,
    cfg: bool,
    config_dir: Path | None,
) -> None:
    """`clawrl collect`."""
    config = compose(overrides, config_dir)
    if cfg:
        print(composing.dump(config), end="")
        return
    if scripted and config.environment is None:
        raise UserError("--scripted is for environments; try recipe=terminal")
    folder = folder_of(config)
    create_run(config, folder)
    if config.environment is not None:
        from clawrl.loop.environment_table import EnvironmentTable
        from clawrl.offline.episodes import collect_episodes

        with EnvironmentTable(err) as table:
            work = collect_episodes(config, folder, table, episodes=episodes, scripted=scripted)
            run_until_signal(work, None)
    else:
        from clawrl.offline.stages import collect_turns

        supervise(lambda display: collect_turns(config, folder, display, turns=turns))
    out.print(short(folder.root), soft_wrap=True)


def judge(
    path: Path,
    overrides: list[str],
    *,
    name: str | None,
    fresh: bool,
    config_dir: Path | None,
    trust: bool,
) -> None:
    """`clawrl judge RUN`. `name` is short for the override `judge=NAME`."""
    from clawrl.offline.stages import judge_run

    given = [
        override for override in overrides if override.startswith(("judge=", "judge._target_"))
    ]
    if name is not None and given:
        raise UserError(f"--judge {name} and {given[0]} both name the judge: give one of them")
    if name is not None:
        given = [f"judge={name}"]
        overrides = [*given, *overrides]
    folder = RunFolder.open(path)
    config = composing.load(folder.config, overrides, config_dir=config_dir)
    results: list[RunFolder] = []

    async def work(display: StatusLine) -> None:
        results.append(
            await judge_run(config, folder, display, fresh=fresh, trusted=trust or bool(given))
        )

    supervise(work)
    samples = list(results[0].samples.read())
    accepted = sum(sample.accepted for sample in samples)
    err.print(f"{len(samples)} turns judged, {accepted} accepted as samples")
    out.print(short(results[0].root), soft_wrap=True)


def serve(overrides: list[str], *, train: bool, cfg: bool, config_dir: Path | None) -> None:
    """`clawrl serve`."""
    config = compose(overrides, config_dir)
    if not train:
        config = config.model_copy(update={"loop": config.loop.model_copy(update={"live": False})})
    if cfg:
        print(composing.dump(config), end="")
        return
    folder = folder_of(config, prefix="serve-")
    with held(folder):
        go_on(config, folder)
        if config.loop.live:
            _live(config, folder)
        else:
            from clawrl.loop.serving import Serving

            with StatusLine(err) as display:
                serving = Serving(config, folder, display, _hints(config))
                run_until_signal(serving.run(), serving.request_stop)


def _live(config: Config, folder: RunFolder) -> None:
    from clawrl.cli.logs import log_to
    from clawrl.loop.living import Living
    from clawrl.loop.state import RunState

    log_to(folder.logs / "supervisor.log")
    state = RunState(
        name=config.recipe,
        folder=short(folder.root),
        target=None,
        batch_samples=config.learner.batch_samples,
    )
    with Display(state, err) as display:
        living = Living(config, folder, display, _hints(config))
        run_until_signal(living.run(), living.request_stop)
    again = f"clawrl serve recipe={config.recipe} run={folder.root.name}"
    err.print(f"everything is saved. Go on with: [bold]{escape(again)}[/]", soft_wrap=True)


def _hints(config: Config) -> Callable[[str, str], list[str]]:
    from clawrl.cli.connecting import how_to_connect

    has_key = bool(config.gateway.keys or config.gateway.api_key)
    return lambda base_url, model: how_to_connect(base_url, model, key=has_key)


def prepare(name: str) -> None:
    """`clawrl model prepare NAME`."""
    from clawrl import models

    with err.status("") as status:
        path = models.prepare(name, progress=lambda line: status.update(escape(line)))
    out.print(str(path), soft_wrap=True)


def show_plan(config: Config, run_dir: Path) -> None:
    """`--dry-run`: the plan as tables, then the exact commands."""
    from clawrl.loop.plan import GIB, make_plan

    plan = make_plan(config, run_dir)
    table = Table("process", "devices", "port", "memory", title=f"plan of {escape(config.recipe)}")
    for process in plan.processes:
        table.add_row(process.name, process.devices, process.port, process.memory)
    out.print(table)
    devices = Table("device", "needed", "memory", "known by", "")
    for device, room in plan.devices.items():
        verdict = "[green]fits[/]" if room.fits else "[red]too small[/]"
        devices.add_row(
            device, f"{room.needed:.1f} GiB", f"{room.there:.1f} GiB", room.source, verdict
        )
    out.print(devices)
    out.print(
        f"weight update: {plan.transfer}, {plan.update_bytes:,} bytes "
        f"({plan.update_bytes / GIB:.2f} GiB) each"
    )
    for process in plan.processes:
        out.print(f"\n[bold]{process.name}[/]")
        out.print(escape(process.line), soft_wrap=True, highlight=False)


def compose(overrides: list[str], config_dir: Path | None) -> Config:
    """One configuration. Raises ConfigError also for a comma list, which asks for several."""
    lists = [override for override in overrides if len(composing.sweep([override])) > 1]
    if lists:
        raise ConfigError(lists[0].partition("=")[0], "a comma list is for sweeps: add -m")
    return composing.compose(overrides, config_dir=config_dir)


def _sweep(overrides: list[str], config_dir: Path | None, *, dry_run: bool) -> None:
    from clawrl.cli.sweeping import Sweep

    sweep = Sweep.plan(overrides, config_dir)
    if dry_run:
        sweep.show()
    else:
        sweep.run()


def supervise(work: Callable[[StatusLine], Coroutine[Any, Any, Any]]) -> None:
    """Run what an offline command does, with a status line; Ctrl-C ends it."""
    with StatusLine(err) as display:
        run_until_signal(work(display), None)


def run_until_signal(work: Coroutine[Any, Any, Any], first: Callable[[], None] | None) -> None:
    """Run to the end. The first Ctrl-C calls `first`; the second, or without one, cancels."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        calls = 0

        def on_signal() -> None:
            nonlocal calls
            calls += 1
            if calls == 1 and first is not None:
                first()
            else:
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)
        await work

    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except BaseExceptionGroup as group:
        raise first_error(group) from None
