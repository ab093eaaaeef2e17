"""Would a judge that is fitted on labelled next states read kinds of them that it never saw?

A linear classifier over character n-grams, alone, beside what the cues judge says, and in a
committee with it, against the cues judge itself. Each kind of next state is judged by a classifier
fitted on the open rows of all other kinds. `python benchmarks/judge_left_out_kinds.py`, a minute.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from clawrl.eval.judging.agreement import SCORES, kappa
from clawrl.eval.judging.labelled import LabelledState, own_states
from clawrl.judge.cues import read_next_state
from clawrl.judge.votes import majority
from clawrl.records.nouns import Score, Vote

NGRAMS = (2, 3, 4)
SLOTS = 8192
"""N-grams are hashed into so many features."""
CHARS = 1500
PENALTY = 3.0
"""Of the ridge, on the diagonal of the kernel; rows have length 1."""
SECOND_HALF = 475
"""From this number on the rows were written after the first rules for the form of a message."""

Array = npt.NDArray[np.float64]


def ngram_features(texts: Sequence[str]) -> Array:
    """[N, SLOTS], each row of length 1: the logarithm of how often each n-gram occurs."""
    found = np.zeros((len(texts), SLOTS))
    for row, text in enumerate(texts):
        padded = f" {text[:CHARS].lower()} "
        for size in NGRAMS:
            for at in range(len(padded) - size + 1):
                found[row, zlib.crc32(padded[at : at + size].encode()) % SLOTS] += 1
    found = np.log1p(found)
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)


def left_out(
    features: Array, states: Sequence[LabelledState], fitted: Sequence[bool]
) -> list[Score]:
    """Each state's score by a ridge classifier fitted without its kind on the rows of `fitted`."""
    kernel = features @ features.T + 1  # the one is the intercept
    labels = np.array([[float(state.score == score) for score in SCORES] for state in states])
    kinds = np.array([state.kind for state in states])
    scores: list[Score] = [0] * len(states)
    for kind in set(kinds):
        rows = np.flatnonzero(np.array(fitted) & (kinds != kind))
        weights = np.linalg.solve(
            kernel[np.ix_(rows, rows)] + PENALTY * np.eye(len(rows)), labels[rows] - 1 / 3
        )
        for at in np.flatnonzero(kinds == kind):
            scores[at] = SCORES[int(np.argmax(kernel[at, rows] @ weights))]
    return scores


def main() -> None:
    """Print kappa of each judge on all rows, the held-out third and the second half."""
    states = own_states()
    started = time.perf_counter()
    cues = [read_next_state(state.role, state.content)[0] for state in states]
    per_verdict_ms = (time.perf_counter() - started) / len(states) * 1000
    text = ngram_features([state.content for state in states])
    role = np.array([[float(state.role == "tool")] for state in states])
    said = np.array([[float(one == score) for score in (*SCORES, None)] for one in cues])
    fitted = [state.part == "open" for state in states]
    alone = left_out(np.hstack([text, role]), states, fitted)
    beside = left_out(np.hstack([text, role, said, said * role]), states, fitted)
    together = [
        majority([Vote(score=first), Vote(score=second)])
        for first, second in zip(cues, alone, strict=True)
    ]
    judges: dict[str, Sequence[Score | None]] = {
        "cues": cues,
        "n-grams": alone,
        "n-grams beside cues": beside,
        "committee of both": together,
    }
    parts = {
        "all": [True] * len(states),
        "held out": [not one for one in fitted],
        "second half": [int(state.id.split("-")[1]) >= SECOND_HALF for state in states],
    }
    for judge, scores in judges.items():
        for part, chosen in parts.items():
            pairs = [
                (state.score, score)
                for state, score, used in zip(states, scores, chosen, strict=True)
                if used
            ]
            value = kappa(pairs)
            shown = f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]" if value else "-"
            print(f"{judge:<20} {part:<12} n={len(pairs):<4} kappa {shown}")
    raised = sum(
        score is not None and score > state.score
        for state, score in zip(states, cues, strict=True)
        if state.injected
    )
    print(f"injections raised by cues: {raised} of {sum(state.injected for state in states)}")
    print(f"cues: {per_verdict_ms:.1f} ms a verdict")


if __name__ == "__main__":
    main()
