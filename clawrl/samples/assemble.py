"""One interaction and its verdict become one sample, accepted or rejected with its reason.

Invariants: the sample's ids and log-probabilities are those that were served, never made from text
again; a missing score is not 0; what is missing is never padded.
"""

from __future__ import annotations

import math
from functools import partial

from clawrl.config import schema
from clawrl.records.nouns import Interaction, Sample, Verdict
from clawrl.samples.credit import Credit
from clawrl.samples.render import PromptRenderer, RenderError, hinted


def assemble(
    interaction: Interaction,
    verdict: Verdict,
    *,
    objective: schema.Objective,
    renderer: PromptRenderer,
    context_tokens: int,
    credit: Credit | None = None,
) -> Sample:
    """Make the sample of one main turn.

    Args:
        interaction: the turn, with the ids and log-probabilities that were served.
        verdict: of the same turn.
        objective: its two weights say which signals count: with `w_binary` alone a sample needs a
            score of -1 or +1, with `w_opd` alone a usable hint, with both either of them.
        renderer: of the policy's model.
        context_tokens: the longest hinted prompt and reply together; beyond it the hint is dropped.
        credit: of an episode's step: it stands in place of the verdict's score.

    Returns:
        An accepted sample, or a rejected one with its reason and without ids.

    Raises:
        ValueError: the verdict is about another interaction.
    """
    if verdict.interaction_id != interaction.interaction_id:
        raise ValueError(
            f"verdict of {verdict.interaction_id} given for {interaction.interaction_id}"
        )
    about = Sample(
        interaction_id=interaction.interaction_id,
        session_id=interaction.session_id,
        accepted=False,
        score=verdict.score,
        reward=credit.reward if credit else None,
        advantage=credit.advantage if credit else None,
        hint=verdict.hint,
        temperature=interaction.sampling.temperature,
        finish_reason=interaction.finish_reason,
        weights=interaction.weights,
        live=interaction.live,
    )
    fault = capture_fault(interaction)
    if fault is not None:
        return about.model_copy(update={"reason": fault})

    hinted_ids, dropped = None, None
    if verdict.hint and objective.w_opd > 0:
        hinted_ids, dropped = _hinted_prompt(interaction, verdict.hint, renderer, context_tokens)
    elif verdict.hint:
        dropped = "unused_by_objective"
    reason = _missing_signal(verdict, credit, objective, has_hint=hinted_ids is not None)
    if reason is not None:
        return about.model_copy(update={"reason": reason, "hint_dropped": dropped})
    return about.model_copy(
        update={
            "accepted": True,
            "prompt_ids": interaction.prompt_ids,
            "reply_ids": interaction.reply_ids,
            "behaviour_logp": interaction.behaviour_logp,
            "hinted_prompt_ids": hinted_ids,
            "hint_dropped": dropped,
        }
    )


def capture_fault(interaction: Interaction) -> str | None:
    """Why a turn can be no sample whatever its verdict says; None: it can."""
    if interaction.untrainable is not None:
        return f"untrainable: {interaction.untrainable}"
    if interaction.turn_type != "main":
        return f"untrainable: {interaction.turn_type}_turn"
    if not interaction.prompt_ids or interaction.reply_ids is None:
        return "missing_ids"
    if not interaction.reply_ids:
        return "empty_reply"
    if interaction.behaviour_logp is None:
        return "missing_logp"
    if len(interaction.behaviour_logp) != len(interaction.reply_ids):
        return "logp_count"
    if not all(math.isfinite(logp) for logp in interaction.behaviour_logp):
        return "logp_not_finite"
    return None


def _missing_signal(
    verdict: Verdict, credit: Credit | None, objective: schema.Objective, *, has_hint: bool
) -> str | None:
    """Why the objective can learn nothing from this turn; None: it can."""
    if has_hint:
        return None
    if objective.w_binary == 0:
        return "no_hint"
    if credit is not None:
        return credit.reason
    if verdict.score is None:
        return "no_feedback_score"
    return "score_0" if verdict.score == 0 else None


def _hinted_prompt(
    interaction: Interaction, hint: str, renderer: PromptRenderer, context_tokens: int
) -> tuple[list[int] | None, str | None]:
    """The hinted prompt's ids, or None and why the hint is dropped."""
    render = partial(
        renderer.render, tools=interaction.tools, template_kwargs=interaction.template_kwargs
    )
    try:
        if render(interaction.messages) != interaction.prompt_ids:
            return None, "render_mismatch"
        prompt_ids = render(hinted(interaction.messages, hint))
    except RenderError as error:
        return None, str(error)
    if len(prompt_ids) + len(interaction.reply_ids or []) > context_tokens:
        return None, "context_exceeded"
    return prompt_ids, None
