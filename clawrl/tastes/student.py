"""The student: homework that does not look as if an AI had written it.

Seven checks, written down before the first training run after reading base replies. The rule of the
published setting (no bold, no numbered lines, no box) is `REFERENCE_RULE`, reported beside them.
"""

from __future__ import annotations

from clawrl.tastes.taste import Check, Taste, lacks

STUDENT = Taste(
    name="student",
    metric="naturalness",
    checks=(
        Check(
            "no_announcement",
            "starts with the matter, not with a stock opening",
            lacks(
                r"\A\W*(to (solve|find|answer|determine|calculate|figure|do) |let'?s |let us |sure|"
                r"certainly|of course|yes\b|absolutely|here'?s |here is |here are |in this problem|"
                r"in order to |i'd be happy|i can help|great |first,|this is a )"
            ),
        ),
        Check(
            "no_step_talk",
            "does not talk about steps",
            lacks(r"step[- ]by[- ]step|\bsteps?\b|break (it|this|the problem|them) down|breaking"),
        ),
        Check(
            "no_lecturing",
            "does not speak as a teacher to a class (we, let's)",
            lacks(r"\b(we|we're|we'll|we've|let'?s|let us|us|our)\b"),
        ),
        Check(
            "no_lists",
            "has no numbered lines and no bullets",
            lacks(r"^\s*(\d+[.)]|[-*•])\s"),
        ),
        Check(
            "no_markup",
            "has no bold, headings, code or LaTeX",
            lacks(r"\*\*|^\s*#|`|\\boxed|\\\(|\\\[|\\frac|\\times|\$\$"),
        ),
        Check(
            "no_stock_connectives",
            "does without therefore, thus, now and the like",
            lacks(
                r"\b(therefore|thus|hence|in conclusion|to summarize|in summary|furthermore|"
                r"moreover|additionally|as a result|consequently|given that|note that)\b|"
                r"(^|[.!?]\s+)(now|next|finally|so),"
            ),
        ),
        Check(
            "no_address",
            "does not talk to the reader",
            lacks(r"\byou(r|'ve|'re|'ll|'d)?\b|\bhope this\b|\bfeel free\b"),
        ),
    ),
)

REFERENCE_RULE = (
    Check("no_bold", "no `**`", lacks(r"\*\*")),
    Check("no_numbered_line", "no line that starts with a number and a dot", lacks(r"^\s*\d+\.")),
    Check("no_box", "no `\\boxed`", lacks(r"\\boxed")),
)
"""The published setting's rule (arXiv 2603.10165): all three at once."""


def reference_rule(reply: str) -> bool:
    """Whether the reply passes the published setting's rule; an empty reply does not."""
    return bool(reply.strip()) and all(check.passes(reply) for check in REFERENCE_RULE)
