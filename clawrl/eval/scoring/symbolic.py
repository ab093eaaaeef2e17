"""Whether two answers are the same mathematics: bounded in time, from any thread, never raising.

`math-verify` bounds its own time by signals, which work in a main thread only and cannot interrupt
arithmetic on huge numbers. So it runs in a process of its own (`math_worker`), which is started
with the first question, ended by its alarm where a question takes too long, and started again for
the next one.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import threading
from contextlib import suppress
from functools import lru_cache

from clawrl.errors import MachineError
from clawrl.eval.scoring.math_worker import READY

LONGEST_CHARACTERS = 300
"""A longer text is not an answer."""


class Comparer:
    """Owns the worker process; one question at a time, whichever thread asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: subprocess.Popen[str] | None = None

    def same(self, right: str, answer: str) -> bool:
        """Whether they are equal; False also where that cannot be found out in time.

        Raises:
            MachineError: math-verify cannot be loaded.
        """
        with self._lock:
            if self._worker is not None and self._worker.poll() is not None:
                self._end()
            worker = self._worker or self._start()
            try:
                print(json.dumps([right, answer]), file=worker.stdin, flush=True)
                verdict = _line(worker)
            except OSError:  # it ended before it had read the question
                verdict = ""
            if not verdict:
                self._end()
            return verdict == "true"

    def close(self) -> None:
        """End the worker, if there is one."""
        with self._lock:
            self._end()

    def _start(self) -> subprocess.Popen[str]:
        self._worker = worker = subprocess.Popen(
            [sys.executable, "-m", "clawrl.eval.scoring.math_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C is for this process; the worker ends with its input
        )
        if _line(worker) != READY:
            self._end()
            raise MachineError("math-verify cannot be loaded; install clawrl again")
        return worker

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.kill()
        worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            with suppress(OSError):  # a question that it did not live to read
                if pipe is not None:
                    pipe.close()


def _line(worker: subprocess.Popen[str]) -> str:
    """The next line that it writes; empty where it ended instead."""
    return worker.stdout.readline().strip() if worker.stdout is not None else ""


_COMPARER = Comparer()
atexit.register(_COMPARER.close)


@lru_cache(maxsize=100_000)
def same_mathematics(right: str, answer: str) -> bool:
    """Whether an answer equals the right one: 0.5 and 1/2, with or without units, sets, intervals.

    Raises:
        MachineError: math-verify cannot be loaded.
    """
    if right == answer:
        return True
    if max(len(right), len(answer)) > LONGEST_CHARACTERS:
        return False
    return _COMPARER.same(right, answer)
