"""A shell command as the simple commands that it consists of, as far as it can be read. Pure.

bashlex reads most of bash's grammar; where it gives up (`[[ ]]`, `case`, arrays) a lexer that knows
quotes, operators and here-documents stands in. What a command computes before it runs it, nobody
can read: this serves a guard, never a wall.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_LONGEST = 20_000
"""Characters of a command that the grammar is asked about; a longer one is only lexed."""
_HERE = re.compile(r"(?<!<)<<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)")
_SHELLS = ("bash", "sh", "dash", "zsh")
_SEPARATORS = frozenset(";&|()\n")
"""A word of these characters alone ends a command."""
_KEYWORDS = frozenset(
    ("if", "then", "else", "elif", "fi", "do", "done", "while", "until", "{", "}", "!", "time")
)
_REDIRECTS = (">", ">>", ">|", "&>", "&>>", "<>")


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command: its words, without quotes, and the files that it writes by redirect."""

    words: tuple[str, ...]
    written: tuple[str, ...] = ()
    feeds: str = ""
    """The program that its output is piped into, empty: none."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function and whether its body starts itself more than once, or in the background."""

    name: str
    multiplies: bool


@dataclass(frozen=True, slots=True)
class Parts:
    """What was found in a command."""

    commands: tuple[Simple, ...]
    functions: tuple[Function, ...] = ()


def parts_of(command: str) -> Parts:
    """Every simple command and function in `command`, those inside substitutions too."""
    text, scripts = _without_here_documents(command)
    found = _by_grammar(command) or _by_grammar(text) or _by_lexer(text)
    inner = [parts_of(script) for script in scripts]
    return Parts(
        found.commands + tuple(one for part in inner for one in part.commands),
        found.functions + tuple(one for part in inner for one in part.functions),
    )


def _by_grammar(text: str) -> Parts | None:
    """None: bashlex cannot read it."""
    import bashlex  # builds its tables at the first import

    if len(text) > _LONGEST:
        return None
    try:
        trees: list[Any] = bashlex.parse(text)
    except Exception:  # noqa: BLE001 - it raises many kinds; all mean that it gives up
        return None
    commands: list[Simple] = []
    functions: list[Function] = []
    for tree in trees:
        _walk(tree, "", commands, functions)
    return Parts(tuple(commands), tuple(functions))


def _walk(node: Any, feeds: str, commands: list[Simple], functions: list[Function]) -> None:
    kind = node.kind
    if kind == "command":
        words = tuple(part.word for part in node.parts if part.kind == "word")
        written = tuple(
            part.output.word
            for part in node.parts
            if part.kind == "redirect" and part.type in _REDIRECTS and hasattr(part.output, "word")
        )
        commands.append(Simple(words, written, feeds))
    if kind == "function":
        name = node.name.word
        functions.append(Function(name, _multiplies(node.body, name)))
    if kind == "pipeline":
        stages = [part for part in node.parts if part.kind != "pipe"]
        for stage, following in zip(stages, [*stages[1:], None], strict=True):
            _walk(stage, _program(following), commands, functions)
        return
    for child in _children(node):
        _walk(child, feeds if kind == "compound" else "", commands, functions)


def _children(node: Any) -> Iterator[Any]:
    for name in ("parts", "list"):
        yield from getattr(node, name, None) or ()
    for name in ("command", "output"):
        child = getattr(node, name, None)
        if hasattr(child, "kind"):
            yield child


def _program(node: Any) -> str:
    words = [part.word for part in getattr(node, "parts", ()) if part.kind == "word"]
    return words[0] if words else ""


def _multiplies(node: Any, name: str) -> bool:
    """Whether a function's body starts the function twice in a pipeline, or in the background."""
    if node.kind == "pipeline" and sum(_program(part) == name for part in node.parts) > 1:
        return True
    parts: Sequence[Any] = getattr(node, "parts", ())
    for part, following in itertools.pairwise(parts):
        if following.kind == "operator" and following.op == "&" and _starts(part, name):
            return True
    return any(_multiplies(child, name) for child in _children(node))


def _starts(node: Any, name: str) -> bool:
    if node.kind == "command" and _program(node) == name:
        return True
    return any(_starts(child, name) for child in _children(node))


def _by_lexer(text: str) -> Parts:
    """Words between operators; one line at a time where a quote is not closed."""
    commands: list[Simple] = []
    words: list[str] = []
    for token in _tokens(text):
        if not set(token) <= _SEPARATORS:
            words.append(token)
            continue
        if words:
            commands.append(_simple(words))
        words = []
    if words:
        commands.append(_simple(words))
    return Parts(tuple(commands))


def _tokens(text: str) -> list[str]:
    try:
        return _lexed(text)
    except ValueError:
        found: list[str] = []
        for line in text.splitlines():
            try:
                found += [*_lexed(line), "\n"]
            except ValueError:
                found += [*line.split(), "\n"]
        return found


def _lexed(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    return list(lexer)


def _simple(words: list[str]) -> Simple:
    while words and words[0] in _KEYWORDS:
        words = words[1:]
    written = tuple(target for mark, target in itertools.pairwise(words) if mark in _REDIRECTS)
    return Simple(tuple(words), written)


def _without_here_documents(command: str) -> tuple[str, list[str]]:
    """The command without the bodies of its here-documents; those that a shell reads apart."""
    lines = command.split("\n")
    kept: list[str] = []
    scripts: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        for match in _HERE.finditer(line):
            ends = [i for i in range(at, len(lines)) if lines[i].strip() == match["end"]]
            if not ends:
                continue
            if any(word in _SHELLS for word in line[: match.start()].split()):
                scripts.append("\n".join(lines[at : ends[0]]))
            at = ends[0] + 1
            line = line.replace(match[0], "", 1)
        kept.append(line)
    return "\n".join(kept), scripts
