"""The bash that runs inside, and the one above it that starts another when it ends.

Process 1 of the sandbox is the keeper: it sets the limits, starts the shell, and when the shell
ends, however it ends, kills everything else, reports the exit code on a pipe of its own and starts
the next shell. It waits for the dead: one that was killed while it waited on a full pipe may still
fill it, and that would stand in the next command's output. Nothing inside can signal it. The shell
reads its commands from the pipe that is its standard input, one line each, and prints a random
token on both streams after each; commands see /dev/null, neither that pipe nor the descriptors that
tokens go to.
"""

from __future__ import annotations

import shlex

from clawrl.environments.sandbox.spec import SandboxSpec

OUT_FD = 198
ERR_FD = 199
"""The streams as they were at the shell's start, for the tokens: a command may redirect its own."""
KEEPER_ERR_FD = 197
REPORT_FD = 196
PWD_CHARACTERS = 2000
"""Of the working directory in the trailer: one short write to a pipe is never torn."""


def keeper_script(spec: SandboxSpec, report_fd: int) -> str:
    """What process 1 runs."""
    report = "" if report_fd == REPORT_FD else f"exec {REPORT_FD}>&{report_fd} {report_fd}>&-\n"
    copies = "".join(
        f"cp -R --preserve=mode,timestamps {origin(index)}/. {shlex.quote(target)} || exit 90\n"
        for index, target in enumerate(spec.fresh)
    )
    limits = (
        f"ulimit -c 0 -q 0 -u {spec.processes} -n {spec.open_files} -t {spec.cpu_s}"
        f" -v {spec.memory_mib * 1024} -f {spec.file_mib * 1024} || exit 91\n"
    )
    return (
        f"{report}{copies}{limits}"
        f"exec {KEEPER_ERR_FD}>&2 2>/dev/null\n"  # what the keeper says of a killed shell
        "while :; do\n"
        "  (echo 900 >/proc/self/oom_score_adj; exec bash --norc --noprofile)"
        f" {REPORT_FD}>&- 2>&{KEEPER_ERR_FD} {KEEPER_ERR_FD}>&-\n"
        "  code=$?\n"
        "  while kill -KILL -1; do :; done\n"  # until the last one is gone, not only told to go
        "  wait\n"
        f"  echo $code >&{REPORT_FD} || exit\n"
        "done\n"
    )


def origin(index: int) -> str:
    """Where the directory that the `index`-th fresh copy is made from is shown."""
    return f"/mnt/fresh/{index}"


def prelude(workdir: str, fallback: str) -> str:
    """The first line a new shell reads: where tokens go, and the working directory."""
    return (
        f"exec {OUT_FD}>&1 {ERR_FD}>&2; "
        "__clawrl_end() { local code=$?; "
        f'printf "%s%s%s %s %s%s%s" "$1" "$2" "$code" "$BASHPID" "${{PWD:0:{PWD_CHARACTERS}}}"'
        f' "$1" "$2" >&{OUT_FD}; printf "%s%s%s%s" "$1" "$2" "$1" "$2" >&{ERR_FD}; '
        "return $code; }; "
        f"cd -- {shlex.quote(workdir)} 2>/dev/null || cd -- {shlex.quote(fallback)}\n"
    )


def command_line(command: str, token: str) -> str:
    """One command as the shell reads it. It has no NUL in it.

    The token is passed in two halves, so that the line itself (`set -v`, `set -x`) is no token.
    """
    half = len(token) // 2
    return (
        f"eval {shlex.quote(command)} </dev/null {OUT_FD}>&- {ERR_FD}>&-; "
        f"__clawrl_end {token[:half]} {token[half:]} 2>/dev/null\n"
    )
