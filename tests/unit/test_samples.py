import copy

import pytest

from clawrl.config.schema import Objective
from clawrl.records.nouns import Interaction, Sampling, Verdict, Vote
from clawrl.samples.assemble import assemble
from clawrl.samples.render import HINT_HEADING, PromptRenderer, RenderError, hinted
from tests.factories import make_interaction
from tests.tiny import make_byte_tokenizer

HINT = "Write it in one sentence."
COMBINED = Objective()
BINARY = Objective(w_opd=0)
OPD = Objective(w_binary=0)


@pytest.fixture(scope="module")
def renderer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    make_byte_tokenizer().save_pretrained(folder)
    return PromptRenderer(folder)


@pytest.fixture(scope="module")
def tokenizer():
    return make_byte_tokenizer()


def served(renderer, **changes) -> Interaction:
    """An interaction whose prompt ids are what the renderer makes of its messages."""
    interaction = make_interaction(**changes)
    prompt_ids = renderer.render(
        interaction.messages, tools=interaction.tools, template_kwargs=interaction.template_kwargs
    )
    return interaction.model_copy(update={"prompt_ids": changes.get("prompt_ids", prompt_ids)})


def verdict_on(interaction, score, hint=None) -> Verdict:
    return Verdict(
        interaction_id=interaction.interaction_id,
        session_id=interaction.session_id,
        judge="cues/1",
        votes=[Vote(score=score)],
        score=score,
        hint=hint,
    )


def sample_of(renderer, score, hint=None, objective=COMBINED, context_tokens=512, **changes):
    interaction = served(renderer, **changes)
    return assemble(
        interaction,
        verdict_on(interaction, score, hint),
        objective=objective,
        renderer=renderer,
        context_tokens=context_tokens,
    )


def test_an_accepted_sample_holds_exactly_what_was_served(renderer):
    interaction = served(renderer, sampling=Sampling(temperature=0.7))
    sample = assemble(
        interaction,
        verdict_on(interaction, -1, HINT),
        objective=COMBINED,
        renderer=renderer,
        context_tokens=512,
    )
    assert sample.accepted
    assert sample.reason is None
    assert sample.prompt_ids == interaction.prompt_ids
    assert sample.reply_ids == interaction.reply_ids
    assert sample.behaviour_logp == interaction.behaviour_logp
    assert (sample.score, sample.hint, sample.hint_dropped) == (-1, HINT, None)
    assert (sample.temperature, sample.finish_reason) == (0.7, "stop")
    assert sample.weights == interaction.weights


def test_the_hinted_prompt_differs_by_the_hint_in_the_last_user_message(renderer, tokenizer):
    sample = sample_of(renderer, -1, HINT)
    text = tokenizer.decode(sample.prompt_ids)
    question = "What is 12 + 7?"
    assert tokenizer.decode(sample.hinted_prompt_ids) == text.replace(
        question, f"{question}\n\n[user's hint / instruction]\n{HINT}"
    )


@pytest.mark.parametrize(
    ("objective", "score", "hint", "reason"),
    [
        (COMBINED, 1, None, None),
        (COMBINED, 0, HINT, None),
        (COMBINED, None, HINT, None),
        (COMBINED, 0, None, "score_0"),
        (COMBINED, None, None, "no_feedback_score"),
        (BINARY, -1, HINT, None),
        (BINARY, 0, HINT, "score_0"),
        (BINARY, None, HINT, "no_feedback_score"),
        (OPD, 0, HINT, None),
        (OPD, None, HINT, None),
        (OPD, -1, None, "no_hint"),
    ],
)
def test_what_is_rejected_depends_on_the_objective(renderer, objective, score, hint, reason):
    sample = sample_of(renderer, score, hint, objective)
    assert sample.reason == reason
    assert sample.accepted == (reason is None)
    assert sample.score == score
    assert bool(sample.reply_ids) == sample.accepted


def test_a_binary_objective_renders_no_hint(renderer):
    sample = sample_of(renderer, -1, HINT, BINARY)
    assert sample.hinted_prompt_ids is None
    assert sample.hint_dropped == "unused_by_objective"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"untrainable": "temperature_0"}, "untrainable: temperature_0"),
        ({"turn_type": "side"}, "untrainable: side_turn"),
        ({"prompt_ids": None}, "missing_ids"),
        ({"reply_ids": None}, "missing_ids"),
        ({"reply_ids": [], "behaviour_logp": []}, "empty_reply"),
        ({"behaviour_logp": None}, "missing_logp"),
        ({"behaviour_logp": [-0.5]}, "logp_count"),
        ({"behaviour_logp": [-0.5, -0.5, 0.0]}, "logp_count"),
        ({"behaviour_logp": [-0.5, float("-inf")]}, "logp_not_finite"),
        ({"behaviour_logp": [-0.5, float("nan")]}, "logp_not_finite"),
    ],
)
def test_a_turn_that_was_not_captured_whole_is_rejected_and_never_padded(renderer, changes, reason):
    sample = sample_of(renderer, -1, HINT, **changes)
    assert (sample.accepted, sample.reason) == (False, reason)
    assert (sample.prompt_ids, sample.reply_ids, sample.behaviour_logp) == ([], [], [])
    assert sample.hinted_prompt_ids is None


def test_a_prompt_that_renders_otherwise_than_served_drops_the_hint(renderer):
    sample = sample_of(renderer, -1, HINT, prompt_ids=[1, 2, 3])
    assert sample.accepted
    assert sample.prompt_ids == [1, 2, 3]
    assert sample.hinted_prompt_ids is None
    assert sample.hint_dropped == "render_mismatch"
    alone = sample_of(renderer, -1, HINT, OPD, prompt_ids=[1, 2, 3])
    assert (alone.reason, alone.hint_dropped) == ("no_hint", "render_mismatch")


def test_a_hinted_prompt_beyond_the_context_drops_the_hint(renderer):
    whole = sample_of(renderer, -1, HINT)
    fits = len(whole.hinted_prompt_ids) + len(whole.reply_ids)
    assert sample_of(renderer, -1, HINT, context_tokens=fits).hint_dropped is None
    assert sample_of(renderer, -1, HINT, context_tokens=fits - 1).hint_dropped == "context_exceeded"


def test_a_conversation_without_a_user_drops_the_hint(renderer):
    messages = [{"role": "system", "content": "Say something."}]
    assert sample_of(renderer, -1, HINT, messages=messages).hint_dropped == "no_user_message"


def test_tools_and_template_arguments_are_those_that_were_served(renderer, tokenizer):
    tools = [{"type": "function", "function": {"name": "lookup_table", "parameters": {}}}]
    sample = sample_of(renderer, -1, HINT, tools=tools)
    assert sample.hint_dropped is None
    assert "lookup_table" in tokenizer.decode(sample.hinted_prompt_ids)


def test_a_verdict_on_another_turn_is_an_error(renderer):
    with pytest.raises(ValueError, match="given for"):
        assemble(
            make_interaction(),
            verdict_on(make_interaction(), 1),
            objective=COMBINED,
            renderer=renderer,
            context_tokens=512,
        )


def test_text_parts_render_like_flat_text(renderer):
    def render(content):
        return renderer.render(
            [{"role": "user", "content": content}], tools=None, template_kwargs={}
        )

    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert render(parts) == render("one\ntwo")


def test_a_message_without_content_renders_as_an_empty_one(renderer):
    def render(**message):
        messages = [{"role": "assistant", **message}, {"role": "user", "content": "x"}]
        return renderer.render(messages, tools=None, template_kwargs={})

    assert render(content=None, tool_calls=[]) == render(content="")


def test_a_template_that_fails_is_a_render_error(renderer):
    call = {"type": "function", "function": {"name": "f", "arguments": "no json"}}
    messages = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    with pytest.raises(RenderError, match="render_failed"):
        renderer.render(messages, tools=None, template_kwargs={})


def test_the_hint_goes_into_the_last_user_message_and_the_original_stays():
    messages = [
        {"role": "user", "content": "first"},
        {"role": "user", "content": "second"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "result"},
    ]
    before = copy.deepcopy(messages)
    changed = hinted(messages, HINT)
    assert messages == before
    assert changed[1]["content"] == "second" + HINT_HEADING + HINT
    assert [changed[i] for i in (0, 2, 3)] == [before[i] for i in (0, 2, 3)]


def test_the_hint_joins_the_last_text_part_or_becomes_one():
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    text = {"type": "text", "text": "look"}
    both = hinted([{"role": "user", "content": [image, text]}], HINT)[0]["content"]
    assert both == [image, {"type": "text", "text": "look" + HINT_HEADING + HINT}]
    alone = hinted([{"role": "user", "content": [image]}], HINT)[0]["content"]
    assert alone[0] == image
    assert alone[1]["text"].endswith(HINT)
