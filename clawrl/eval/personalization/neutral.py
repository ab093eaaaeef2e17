"""Whether the policy still knows ordinary English: the likelihood of fixed, neutral sentences.

Learning one person's taste should not cost the rest. The 64 sentences in `neutral.txt` have nothing
to do with homework, numbers or style; their log-likelihood falls when the policy is damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from clawrl.errors import EngineError
from clawrl.eval.evaluation.bounded import each
from clawrl.protocols import Engine
from clawrl.records.nouns import Record

Encode = Callable[[str], list[int]]
"""Text to token ids, without any special token."""


class TextLikelihood(Record):
    """What the policy thinks of one text."""

    text_id: str
    logp: float
    """Nats, summed over the scored tokens."""
    tokens: int


def neutral_texts() -> list[str]:
    """The sentences, always in the same order."""
    text = Path(__file__).with_name("neutral.txt").read_text(encoding="utf-8")
    return text.splitlines()


async def score_texts(
    engine: Engine,
    encode: Encode,
    *,
    bos: int | None,
    concurrent: int,
    finished: Callable[[], None] = lambda: None,
) -> list[TextLikelihood]:
    """The log-likelihood of each neutral text, at temperature 1.

    Args:
        engine: what serves the policy.
        encode: text to token ids, without any special token.
        bos: the token that begins a text; None where the model has none: then the text's first
            token is the context, and is not scored.
        concurrent: how many texts are scored at a time.
        finished: called after each text.

    Raises:
        EngineError: the engine failed, or scored another number of tokens than it was given.
    """

    async def one(numbered: tuple[int, str]) -> TextLikelihood:
        number, text = numbered
        ids = encode(text)
        context, scored = ([bos], ids) if bos is not None else (ids[:1], ids[1:])
        logp = await engine.score(context, scored)
        if len(logp) != len(scored):
            raise EngineError(f"the engine scored {len(logp)} of {len(scored)} tokens")
        return TextLikelihood(text_id=f"neutral-{number}", logp=sum(logp), tokens=len(logp))

    return await each(
        one, list(enumerate(neutral_texts())), concurrent=concurrent, finished=finished
    )


def nats_per_token(texts: Sequence[TextLikelihood]) -> float:
    """The mean log-probability of a token: all nats by all tokens."""
    return sum(text.logp for text in texts) / sum(text.tokens for text in texts)


async def neutral_logp(
    engine: Engine, encode: Encode, *, bos: int | None = None, concurrent: int = 8
) -> float:
    """The neutral texts' mean log-probability in nats a token. Raises as `score_texts`."""
    return nats_per_token(await score_texts(engine, encode, bos=bos, concurrent=concurrent))
