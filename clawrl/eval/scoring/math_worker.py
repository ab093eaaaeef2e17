"""A process of its own that says whether two answers are the same mathematics.

It reads one JSON line `[right, answer]` and writes `true` or `false`. An answer may be anything a
model says, such as a power tower that no computer can write out: each comparison ends the whole
process by an alarm that needs no cooperation of the code that runs, and memory is bounded too. The
other side (`clawrl.eval.scoring.symbolic`) starts another one.
"""

from __future__ import annotations

import json
import logging
import resource
import signal
import sys

LIMIT_S = 3
"""Processor time for one comparison: on a busy machine the verdict must be the same."""
WALL_LIMIT_S = 30
MEMORY_BYTES = 4 << 30
READY = "ready"


def same(right: str, answer: str) -> bool:
    """By `math-verify`: fractions and decimals, sets, intervals, units, equations, matrices."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    kinds = [LatexExtractionConfig(), ExprExtractionConfig()]
    wanted, found = (
        parse(f"${text}$", kinds, parsing_timeout=None)  # pyright: ignore[reportArgumentType]
        for text in (right, answer)
    )
    return bool(verify(wanted, found, allow_set_relation_comp=True, timeout_seconds=None))


def main() -> None:
    """Answer lines until the input ends."""
    logging.disable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    same("1", "1")  # loads everything
    print(READY, flush=True)
    for line in sys.stdin:
        right, answer = json.loads(line)
        _alarms(LIMIT_S, WALL_LIMIT_S)
        try:
            verdict = same(right, answer)
        except Exception:  # noqa: BLE001 - whatever rubbish does to a parser, it is not the answer
            verdict = False
        _alarms(0, 0)
        print(json.dumps(verdict), flush=True)


def _alarms(processor_s: float, wall_s: float) -> None:
    """Set both, or clear them with 0. Their default action ends the process."""
    signal.setitimer(signal.ITIMER_PROF, processor_s)
    signal.setitimer(signal.ITIMER_REAL, wall_s)


if __name__ == "__main__":
    main()
