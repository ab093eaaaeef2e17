"""Replies before and after, side by side, exactly as they were written.

A reply holds the very markup that a taste may dislike, so nothing of it may be rendered: it is
escaped and put into an HTML table, which Markdown readers show as it is.
"""

from __future__ import annotations

import html

from clawrl.eval.personalization.measurement import MeasuredReply, Measurement

_LONGEST_CHARACTERS = 2400
_ESCAPES = {ord(sign): f"&#{ord(sign)};" for sign in "&<>\"'$*_`\\[]#|~"}


def side_by_side(before: Measurement, after: Measurement | None, count: int) -> list[str]:
    """A block of HTML for each of the first `count` problems: the first reply of each version."""
    first = _by_problem(before)
    second = _by_problem(after) if after else {}
    blocks: list[str] = []
    for number, (problem_id, reply) in enumerate(list(first.items())[:count], start=1):
        shown = [(before.version, reply)]
        if after is not None:
            shown.append((after.version, second[problem_id]))
        blocks.append(_block(number, shown))
    return blocks


def _by_problem(found: Measurement) -> dict[str, MeasuredReply]:
    """The first reply to each problem, in the fixed order of the problems."""
    return {reply.problem_id: reply for reply in found.replies if reply.repeat == 0}


def _block(number: int, shown: list[tuple[int, MeasuredReply]]) -> str:
    problem = shown[0][1]
    width = 100 // len(shown)
    heads = "".join(f'<th width="{width}%">version {version}</th>' for version, _ in shown)
    texts = "".join(f'<td valign="top">{verbatim(reply.text)}</td>\n' for _, reply in shown)
    notes = "".join(f"<td><sub>{html.escape(_note(reply))}</sub></td>" for _, reply in shown)
    return (
        f"**{number}.** {_inline(problem.question)} (answer: {_inline(problem.answer)};"
        f" `{problem.problem_id}`)\n\n"
        f"<table>\n<tr>{heads}</tr>\n<tr>\n{texts}</tr>\n<tr>{notes}</tr>\n</table>"
    )


def _note(reply: MeasuredReply) -> str:
    failed = [name for name, passed in reply.checks.items() if not passed]
    checks = "all checks passed" if not failed else f"fails {', '.join(failed)}"
    right = "right" if reply.correct else "wrong" if reply.final_number else "no final number"
    cut = ", cut off" if reply.cut else ""
    return f"score {reply.score:.2f}: {checks}; {reply.tokens} tokens{cut}; {right}"


def verbatim(text: str) -> str:
    """Text that shows in an HTML cell as it is: no tag, no list, no bold, no formula."""
    if not text.strip():
        return "<i>(empty)</i>"
    rest = len(text) - _LONGEST_CHARACTERS
    if rest > 0:
        text = f"{text[:_LONGEST_CHARACTERS]} ... ({rest} more characters)"
    escaped = _inline(text).replace("\r", "")
    # A blank line would end the HTML block, and Markdown would begin to read the reply.
    return "<br>\n".join(line if line.strip() else "&nbsp;" for line in escaped.split("\n"))


def _inline(text: str) -> str:
    """Escaped for HTML and for Markdown's own signs, on one pass."""
    return text.translate(_ESCAPES)
