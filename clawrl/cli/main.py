"""`clawrl`: the commands. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from clawrl import __version__
from clawrl.errors import ClawRLError, UserError

OVERRIDES_HELP = "Hydra overrides, such as [cyan]recipe=NAME learner.lr=3e-6 objective=opd[/]."

app = typer.Typer(
    name="clawrl",
    help="Train a language model from what comes back after each of its replies, while it serves.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
model_app = typer.Typer(no_args_is_help=True, help="Models on this machine.")
app.add_typer(model_app, name="model")
report_app = typer.Typer(no_args_is_help=True, help="What came out of runs.")
app.add_typer(report_app, name="report")

Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help=OVERRIDES_HELP)
]
ConfigDir = Annotated[
    Path | None,
    typer.Option(
        "--config-dir",
        help="A folder of your own recipes and options, beside clawrl's.",
        exists=True,
        file_okay=False,
    ),
]
Cfg = Annotated[bool, typer.Option("--cfg", help="Print the resolved configuration and stop.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Load a _target_ that a run folder names outside clawrl.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]


def _version(show: bool) -> None:
    if show:
        typer.echo(f"clawrl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version_flag: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    _debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and debug messages.")
    ] = False,
) -> None: ...


@app.command()
def train(
    overrides: Overrides = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="RUN", help="Go on with a stopped run.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="Train offline on a run's recorded samples."),
    ] = None,
    multirun: Annotated[
        bool, typer.Option("-m", "--multirun", help="Run every combination of comma lists.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the process plan and start nothing.")
    ] = False,
    cfg: Cfg = False,
    config_dir: ConfigDir = None,
    trust: Trust = False,
) -> None:
    """Train while serving: personas talk, a judge reads what they say, the weights follow.

    Examples:
      clawrl train recipe=student_persona

      clawrl train recipe=student_persona learner.lr=3e-6 objective=opd

      clawrl train -m objective=binary,opd,combined seed=1,2,3 run=NAME

      clawrl train --resume runs/student_persona-20260101-120000
    """
    from clawrl.cli import run

    run.train(
        overrides or [],
        resume=resume,
        source=source,
        multirun=multirun,
        dry_run=dry_run,
        cfg=cfg,
        config_dir=config_dir,
        trust=trust,
    )


@app.command()
def collect(
    overrides: Overrides = None,
    turns: Annotated[
        int, typer.Option(min=1, help="A persona: stop after this many judgeable turns.")
    ] = 64,
    episodes: Annotated[
        int, typer.Option(min=1, help="Environments: make this many attempts.")
    ] = 64,
    scripted: Annotated[
        bool,
        typer.Option("--scripted", help="Environments: a script replies in place of a model."),
    ] = False,
    cfg: Cfg = False,
    config_dir: ConfigDir = None,
) -> None:
    """Let a persona talk to the model, or the model act in environments, and record it.

    Nothing is judged or trained.

    Examples:
      clawrl collect recipe=student_persona --turns 64

      clawrl collect recipe=terminal --episodes 32
    """
    from clawrl.cli import run

    run.collect(
        overrides or [],
        turns=turns,
        episodes=episodes,
        scripted=scripted,
        cfg=cfg,
        config_dir=config_dir,
    )


@app.command()
def episodes(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    show: Annotated[
        str | None,
        typer.Option("--show", metavar="ID", help="Print one episode; the id's start will do."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the episodes of a run, or read one: actions, what came back, verdicts, the outcome.

    Examples:
      clawrl episodes runs/NAME

      clawrl episodes runs/NAME --show 3f2a
    """
    from clawrl.cli import episodes as reading

    reading.episodes(folder, show=show, as_json=as_json)


@app.command()
def judge(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    overrides: Overrides = None,
    name: Annotated[
        str | None,
        typer.Option("--judge", metavar="NAME", help="Another judge; short for judge=NAME."),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Ask the judge again where a recorded vote could be replayed."
        ),
    ] = False,
    config_dir: ConfigDir = None,
    trust: Trust = False,
) -> None:
    """Judge a recorded run: next states become verdicts and samples.

    A run that was judged before is judged into a new folder beside it. Votes of a language model
    are replayed from the record where the judge is the same, unless --fresh is given.

    Examples:
      clawrl judge runs/NAME

      clawrl judge runs/NAME --judge prm judge.model=Qwen/Qwen3-4B objective=opd
    """
    from clawrl.cli import run

    run.judge(folder, overrides or [], name=name, fresh=fresh, config_dir=config_dir, trust=trust)


@app.command()
def replay(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    records: Annotated[
        bool,
        typer.Option("--records", help="Only verdicts and samples: seconds, nothing is trained."),
    ] = False,
) -> None:
    """Show that a run's records make the run again, bit for bit, on the CPU.

    Cues are read anew and recorded votes counted again, samples assembled again, and the ledger's
    batches trained again. The run stays as it is. Exits with 1 and the first difference if there
    is one.

    Example: clawrl replay runs/NAME
    """
    from clawrl.cli import replaying

    replaying.replay(folder, records=records)


@app.command("eval")
def evaluate(
    overrides: Overrides = None,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="NAME", help="What to measure; `list` describes all."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="A folder, hub id, known name, RUN, RUN@VERSION, or the URL of a server.",
        ),
    ] = None,
    samples: Annotated[int | None, typer.Option("--n", min=1, help="Replies to each item.")] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="Short for data.path=FILE.")
    ] = None,
    as_json: Json = False,
    config_dir: ConfigDir = None,
) -> None:
    """Measure a model on a task; without one, on the recipe's persona taste.

    Every reply is kept below runs/evals. A stopped evaluation goes on where it was, a complete one
    is read again. The key of a server at a URL is read from CLAWRL_API_KEY.

    Examples:
      clawrl eval --task list

      clawrl eval --task aime24 --model smollm2-135m --n 4

      clawrl eval --task gsm8k --model runs/NAME@6 data.path=gsm8k_test.jsonl

      clawrl eval --task math500 --model http://127.0.0.1:8000 sampling.max_tokens=4096

      clawrl eval --model runs/NAME
    """
    from clawrl.cli import evaluating

    evaluating.evaluate(
        evaluating.Options(overrides or [], task, model, samples, data, as_json, config_dir)
    )


@app.command()
def serve(
    overrides: Overrides = None,
    no_train: Annotated[
        bool, typer.Option("--no-train", help="Record only, also where the recipe learns.")
    ] = False,
    cfg: Cfg = False,
    config_dir: ConfigDir = None,
) -> None:
    """Serve the model behind an OpenAI-compatible gateway that records every turn.

    With recipe=personal it learns from what comes back. Served again under the same run=NAME, it
    goes on where it was.

    Examples:
      clawrl serve gateway.port=8080

      clawrl serve recipe=personal

      clawrl serve recipe=personal learner.when=hours(22-7)
    """
    from clawrl.cli import run

    run.serve(overrides or [], train=not no_train, cfg=cfg, config_dir=config_dir)


@app.command()
def connect(
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="openclaw, codex or opencode.")],
    url: Annotated[
        str, typer.Option("--url", help="The gateway's address, with /v1.")
    ] = "http://127.0.0.1:8080/v1",
    model: Annotated[str, typer.Option("--model", help="The model's name there.")] = "policy",
    key: Annotated[str, typer.Option("--key", help="Your API key, if it asks for one.")] = "none",
    context: Annotated[int, typer.Option("--context", help="Its context in tokens.")] = 8192,
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Print what belongs there; no more.")
    ] = False,
) -> None:
    """Point an installed agent at the gateway: shows the change, asks, keeps a backup.

    Example: clawrl connect opencode
    """
    from clawrl.cli import connecting
    from clawrl.connect.clients import Endpoint

    to = Endpoint(url, model, key, context_tokens=context, max_tokens=min(4096, context // 4))
    connecting.connect(client, to, yes=yes, show=show)


@app.command()
def forget(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    folder: Annotated[Path, typer.Option("--run", metavar="RUN", help="The run folder.")],
) -> None:
    """Blank what a session said in every record of a stopped run.

    Example: clawrl forget SESSION --run runs/NAME
    """
    from clawrl.records.folder import RunFolder
    from clawrl.records.forgetting import forget as blank

    lines = blank(RunFolder.open(folder), session)
    typer.echo(
        f"{lines} records blanked. Weights that were trained on this session already keep what "
        "they learned."
    )


@app.command()
def doctor(
    overrides: Overrides = None, config_dir: ConfigDir = None, as_json: Json = False
) -> None:
    """Say what this machine has, whether a recipe fits, and how to fix what is missing.

    Example: clawrl doctor recipe=student_persona
    """
    from clawrl.cli import doctor as checkup

    checkup.run(overrides or [], config_dir=config_dir, as_json=as_json)


@report_app.command("run")
def report_run(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
) -> None:
    """Write a run's report again: report.md and the learning curve.

    Example: clawrl report run runs/NAME
    """
    from clawrl.cli import reporting

    reporting.report_run(folder)


@report_app.command("paper")
def report_paper(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The run folders.")],
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the table there too.")
    ] = None,
) -> None:
    """Print the paper's personalization table, made of your runs, beside the published numbers.

    Example: clawrl report paper runs/NAME/*
    """
    from clawrl.cli import reporting

    reporting.report_paper(folders, markdown=markdown)


@app.command()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="RUN, RUN@VERSION, a folder below runs/evals, or wandb:ENTITY/PROJECT/RUN_ID.",
        ),
    ],
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where compare.md and compare.png go."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say which run is better than the first, and how sure that is.

    Scores are compared in pairs, the same problems on both sides. Runs that differ in their seed
    alone are pooled.

    Examples:
      clawrl compare runs/NAME@0 runs/NAME@8

      clawrl compare runs/NAME/objective=binary,seed=* runs/NAME/objective=opd,seed=*
    """
    from clawrl.cli import comparing

    comparing.compare_runs(runs, out_dir=out_dir, as_json=as_json)


@model_app.command("prepare")
def prepare(
    name: Annotated[str, typer.Argument(help="smollm2-135m, a hub id, or a local path.")],
) -> None:
    """Fetch and convert a model once; it is kept in your cache.

    Example: clawrl model prepare smollm2-135m
    """
    from clawrl.cli import run

    run.prepare(name)


def main() -> None:
    """Entry point: one line for every error of ours, a traceback only with --debug."""
    debug = "--debug" in sys.argv[1:]
    from clawrl.cli.logs import quiet_libraries, show_warnings

    show_warnings(debug)
    quiet_libraries()
    try:
        app()
    except ClawRLError as error:
        if debug:
            raise
        typer.secho(f"error: {error}", err=True, fg=typer.colors.RED)
        sys.exit(2 if isinstance(error, UserError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
