"""What a task's Dockerfile asks for, as far as a sandbox can give it without an engine.

FROM is taken as this machine's own programs; WORKDIR, COPY, ENV and RUN are done as the sandbox's
user. Anything else needs Docker, and is said by name.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from clawrl.errors import DataError

_CONTINUED = re.compile(r"\\[ \t]*\n")
_IGNORED = ("FROM", "LABEL", "MAINTAINER", "EXPOSE", "CMD", "SHELL")
"""They say nothing of the files in which the task begins."""


@dataclass(frozen=True, slots=True)
class Copied:
    """One file of the task that is put into the sandbox."""

    source: Path
    target: str


@dataclass(frozen=True, slots=True)
class Image:
    """How a task's first state is made: files and commands, in order."""

    workdir: str
    steps: tuple[Copied | str, ...]
    """A string is a command for bash."""
    variables: tuple[tuple[str, str], ...] = ()


def read_image(folder: Path) -> Image:
    """Read `folder/Dockerfile`.

    Raises:
        DataError: there is none, or it asks for what only a container engine can do.
    """
    path = folder / "Dockerfile"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    workdir = "/"
    steps: list[Copied | str] = []
    variables: dict[str, str] = {}
    for keyword, rest in _instructions(text):
        if keyword in _IGNORED:
            continue
        if keyword == "WORKDIR":
            workdir = str(PurePosixPath(workdir, rest))
        elif keyword == "ENV":
            variables |= _variables(rest)
        elif keyword == "RUN":
            steps.append(f"cd {shlex.quote(workdir)} || exit 1\n{_command(rest)}")
        elif keyword in ("COPY", "ADD"):
            steps += _copies(rest, folder, workdir, path)
        else:
            raise DataError(f"{path}: {keyword} needs Docker")
    if workdir == "/":
        raise DataError(f"{path}: it names no WORKDIR, and a sandbox cannot write into /")
    return Image(workdir, tuple(steps), tuple(variables.items()))


def _instructions(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = _CONTINUED.sub(" ", "\n".join(lines))
    found: list[tuple[str, str]] = []
    for line in joined.splitlines():
        keyword, _, rest = line.strip().partition(" ")
        if keyword:
            found.append((keyword.upper(), rest.strip()))
    return found


def _command(rest: str) -> str:
    if rest.startswith("["):
        return shlex.join(json.loads(rest))
    return rest


def _variables(rest: str) -> dict[str, str]:
    words = shlex.split(rest)
    if words and "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    return dict(word.split("=", 1) for word in words if "=" in word)


def _copies(rest: str, folder: Path, workdir: str, path: Path) -> list[Copied]:
    words = shlex.split(rest)
    if len(words) < 2 or any(word.startswith("--") or "://" in word for word in words):
        raise DataError(f"{path}: 'COPY {rest}' needs Docker")
    *sources, target = words
    into = str(PurePosixPath(workdir, target))
    as_folder = target.endswith("/") or target == "." or len(sources) > 1
    found: list[Copied] = []
    for name in sources:
        source = (folder / name).resolve()
        if not source.is_relative_to(folder.resolve()) or not source.exists():
            raise DataError(f"{path}: there is no {name} beside it")
        if source.is_file():
            found.append(
                Copied(source, str(PurePosixPath(into, source.name)) if as_folder else into)
            )
            continue
        files = sorted(file for file in source.rglob("*") if file.is_file())
        found += [Copied(f, str(PurePosixPath(into, f.relative_to(source)))) for f in files]
    return found
