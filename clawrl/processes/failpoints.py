"""Named points at which a crash test lets a process die, as a power cut would.

`CLAWRL_FAILPOINT=learner.after_weights` kills the process at the first passage of that point,
`CLAWRL_FAILPOINT=learner.after_weights@3` at the third. Without the variable a point does nothing.
Nothing runs on the way out: no `finally`, no flush, no signal handler; that is the test.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "CLAWRL_FAILPOINT"

_passages: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Die here by SIGKILL if the environment says so.

    Raises:
        ValueError: the number behind `@` is not a positive integer.
    """
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    point, _, ordinal = wanted.partition("@")
    if point != name:
        return
    _passages[name] = _passages.get(name, 0) + 1
    if _passages[name] == _ordinal(ordinal, wanted):
        os.kill(os.getpid(), signal.SIGKILL)


def _ordinal(text: str, wanted: str) -> int:
    if not text:
        return 1
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{VARIABLE}={wanted}: after '@' comes a number from 1")
    return int(text)
