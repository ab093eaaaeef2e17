import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clawrl.judge.clauses import clauses
from clawrl.judge.cues import CuesJudge, read_next_state
from clawrl.judge.phrasebook import language_rules, nothing_rules, tool_rules
from clawrl.judge.tool_output import exit_code
from clawrl.judge.wording import instruction, joined
from tests.factories import make_feedback, make_interaction

CASES = yaml.safe_load(
    (Path(__file__).parent.parent / "data" / "cues_cases.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("text", CASES["corrections"])
def test_a_correction_or_complaint_is_minus_1(text):
    score, hint = read_next_state("user", text)
    assert score == -1
    assert hint is None or len(hint) > 10


@pytest.mark.parametrize("text", CASES["not_understood"])
def test_a_correction_in_unknown_words_is_0_and_never_praise(text):
    assert read_next_state("user", text) == (0, None)


@pytest.mark.parametrize("text", CASES["acceptances"])
def test_thanks_or_moving_on_is_plus_1_without_hint(text):
    assert read_next_state("user", text) == (1, None)


@pytest.mark.parametrize("text", CASES["unrelated"])
def test_what_says_nothing_about_the_reply_is_0(text):
    assert read_next_state("user", text) == (0, None)


@pytest.mark.parametrize("text", CASES["failed_calls"])
def test_a_failed_call_is_minus_1(text):
    assert read_next_state("tool", text)[0] == -1


@pytest.mark.parametrize("text", CASES["good_calls"])
def test_output_without_an_error_is_plus_1(text):
    assert read_next_state("tool", text) == (1, None)


@pytest.mark.parametrize("text", CASES["nothing_done"])
def test_a_tool_that_did_nothing_or_changed_nothing_is_minus_1_with_a_hint(text):
    score, hint = read_next_state("tool", text)
    assert score == -1
    assert hint.startswith("Check that the call has an effect.")


@pytest.mark.parametrize("text", CASES["something_done"])
def test_a_zero_beside_what_was_done_is_no_fault(text):
    assert read_next_state("tool", text) == (1, None)


@pytest.mark.parametrize("text", CASES["alive"])
def test_a_heartbeat_says_nothing(text):
    assert read_next_state("tool", text) == (0, None)


@pytest.mark.parametrize("text", CASES["own_words"])
def test_who_corrects_themselves_says_nothing_about_the_reply(text):
    assert read_next_state("user", text) == (0, None)


@pytest.mark.parametrize("text", CASES["blame_beside_own_words"])
def test_blame_of_the_reply_counts_beside_ones_own_fault(text):
    assert read_next_state("user", text)[0] == -1


@pytest.mark.parametrize("text", CASES["nobody_speaks"])
def test_silence_presence_and_time_outs_of_the_chat_are_0(text):
    assert read_next_state("user", text) == (0, None)


@pytest.mark.parametrize("text", CASES["shrugs"])
def test_bare_dissatisfaction_is_minus_1_without_a_hint(text):
    assert read_next_state("user", text) == (-1, None)


@pytest.mark.parametrize("text", CASES["ironic_frames"])
def test_praise_by_its_frame_alone_is_minus_1(text):
    assert read_next_state("user", text)[0] == -1


@pytest.mark.parametrize("text", CASES["next_work"])
def test_the_next_piece_of_work_after_use_or_praise_is_plus_1(text):
    assert read_next_state("user", text) == (1, None)


@pytest.mark.parametrize(("text", "score"), CASES["other_languages"])
def test_plain_words_of_other_languages_are_understood(text, score):
    assert read_next_state("user", text)[0] == score


@pytest.mark.parametrize("text", CASES["not_read_yet"])
def test_who_has_not_looked_yet_says_nothing(text):
    assert read_next_state("user", text) == (0, None)


@pytest.mark.parametrize(("text", "score"), CASES["marks"])
def test_a_mark_left_in_the_chat_counts(text, score):
    assert read_next_state("user", text) == (score, None)


def test_a_change_asked_for_after_praise_is_still_a_change():
    assert read_next_state("user", "Great. Now make it shorter.")[0] == -1
    assert read_next_state("user", "Thanks! Next time please leave out the intro.")[0] == -1


def test_an_error_beside_exit_code_0_is_0():
    assert read_next_state("tool", "error: disk full\nexit code: 0") == (0, None)


@pytest.mark.parametrize("text", ["", "  \n "])
async def test_a_person_who_wrote_nothing_makes_it_abstain(text):
    verdict = await CuesJudge().judge(make_interaction(), make_feedback(content=text))
    assert (verdict.score, verdict.hint, verdict.hints) == (None, None, [])
    assert verdict.votes[0].problem == "empty_next_state"


@pytest.mark.parametrize("text", CASES["found_nothing"])
def test_a_tool_that_printed_or_found_nothing_says_nothing(text):
    assert read_next_state("tool", text) == (0, None)


def test_no_output_and_exit_code_0_is_a_call_that_worked():
    assert read_next_state("tool", "(no output)\nexit code: 0") == (1, None)


async def test_the_verdict_does_not_depend_on_the_reply_or_the_request():
    seen = set()
    for reply in ("**Step 1** ...", "It is 19.", ""):
        interaction = make_interaction(
            interaction_id="i",
            session_id="s",
            reply={"role": "assistant", "content": reply},
            messages=[{"role": "user", "content": f"no lists! {reply}"}],
        )
        verdict = await CuesJudge().judge(interaction, make_feedback(content="too long, sorry"))
        seen.add((verdict.score, verdict.hint, verdict.judge))
    assert seen == {(-1, "Keep the reply short and to the point.", "cues/4")}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("no bullets pls", "No bullets."),
        ("Could you not use bold?", "Do not use bold."),
        ("can u make it shorter", "Make the reply shorter."),
        ("shorter!!", "Make the reply shorter."),
        ("redo it without the intro", "Write the reply without the intro."),
        ("I need it in simple words", "I need it in simple words."),
        ("less formal please", "Make the reply less formal."),
        (
            "not specific enough",
            "Be specific: name the exact step and the number that it is about.",
        ),
        ("check the file first before you change it", "Check the file first before you change it."),
        ("能不能简短一点", "请按这个要求改回答\uff1a简短一点。"),
    ],
)
def test_the_hint_is_the_users_own_sentence_as_an_instruction(text, hint):
    assert read_next_state("user", text) == (-1, hint)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "thanks but can you drop the numbered list? also what is 15% of 60?",
            "Drop the numbered list.",
        ),
        (
            "Use plain words please. Next: Tom has 12 apples and eats 5. How many are left?",
            "Use plain words.",
        ),
        (
            "Too stiff. A farmer has 30 cows and sells half of them. How many cows does he have?",
            "Be less stiff; use plain, everyday words.",
        ),
    ],
)
def test_a_new_question_stays_out_of_the_hint(text, hint):
    assert read_next_state("user", text) == (-1, hint)


def test_thanks_before_a_new_problem_stay_thanks():
    text = (
        "Thanks! Her boss told her that 3 films are too long. How many minutes are 2 films of 90?"
    )
    assert read_next_state("user", text) == (1, None)


def test_words_quoted_from_the_reply_are_not_the_users_praise():
    assert read_next_state("user", '"Great job" on what?')[0] == -1


def test_a_quoted_line_is_not_read():
    assert read_next_state("user", "> This is too long\nThanks!") == (1, None)


def test_a_bare_no_gives_no_hint():
    for text in ("no", "Wrong.", "try again", "undo", "thanks for nothing"):
        assert read_next_state("user", text) == (-1, None)


def test_the_hint_of_a_failed_call_quotes_the_line_that_tells_most():
    output = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: bad literal'
    assert read_next_state("tool", output) == (-1, "Avoid this error: ValueError: bad literal")
    score, hint = read_next_state("tool", "cat: a.txt: No such file or directory\nexit code: 1")
    assert score == -1
    assert hint == (
        "Check that the path exists before using it. "
        "The tool said: cat: a.txt: No such file or directory"
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("exit code: 3", 3),
        ("Process finished with exit status 0", 0),
        ('{"exit_code": 2}', 2),
        ("[exit 1]", 1),
        ("returncode=-9", -9),
        ("exit code 1\nexit code 0", 0),
        ("sys.exit(1)", None),
        ("exits at 5", None),
    ],
)
def test_the_last_exit_code_counts(text, code):
    assert exit_code(text) == code


def test_clauses_hold_one_thought_each():
    text = (
        "Thanks, but too long - e.g. the intro. Also, what is 5% of 80, and how many are 3.5 dozen?"
    )
    found = clauses(text)
    assert [clause.text for clause in found if clause.contrasted] == ["too long"]
    assert [clause.text for clause in found] == [
        "Thanks",
        "too long",
        "eg the intro.".replace("eg", "e.g"),
        "Also",
        "what is 5% of 80",
        "how many are 3.5 dozen?",
    ]


def test_a_hint_has_at_most_three_different_sentences():
    assert joined(["A.", "A.", "", "B.", "C.", "D."]) == "A. B. C."
    assert joined([]) is None


@given(st.sampled_from(CASES["corrections"]))
def test_an_instruction_is_one_line_that_ends(text):
    line = instruction(text.splitlines()[0])
    assert line == "" or (line.endswith((".", "。")) and len(line) > 10)


@given(st.text(max_size=300), st.sampled_from(["user", "tool"]))
def test_any_text_is_read_without_an_error(text, role):
    score, hint = read_next_state(role, text)
    assert score in (-1, 0, 1, None)
    assert hint is None or (score in (-1, 1) and len(hint) <= 402)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Sent it to the whole team, thanks. Next time please add a summary.", "add a summary"),
        ("Booked! For the future: I prefer window members.", "I prefer window members"),
        ("已经提交了\uff0c谢谢。下次记得写日期。", "记得写日期"),
    ],
)
def test_a_reply_that_was_used_is_plus_1_and_the_wish_for_the_next_is_its_hint(text, hint):
    score, said = read_next_state("user", text)
    assert score == 1
    assert said is not None
    assert hint in said


def test_a_wish_for_the_next_time_without_use_is_a_correction():
    assert read_next_state("user", "Next time please add a summary.")[0] == -1


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("Nice work, but the hall holds eighty.", -1),
        ("The hall holds eighty.", 0),
        ("写得不错\uff0c不过我们那个厅坐八十人。", -1),
        ("but how many minutes?", -1),
        ("how many minutes?", 0),
        ("Great plan, but let me ask my wife first.", 1),
    ],
)
def test_an_unknown_thought_after_praise_and_but_is_a_fault(text, score):
    assert read_next_state("user", text)[0] == score


def test_a_fact_in_the_same_breath_as_praise_is_none():
    assert read_next_state("user", "good to know my oven isn't broken")[0] == 1
    assert read_next_state("user", "good, my oven doesn't go that high")[0] == -1


@pytest.mark.parametrize("text", ["celsius", "line chart", "Python!!", "only the typo", "用英文"])
def test_a_fragment_that_names_a_form_or_unit_is_a_correction(text):
    score, hint = read_next_state("user", text)
    assert score == -1
    assert hint is not None
    assert text.rstrip("!").casefold() in hint.casefold()


def test_contents_of_a_long_output_are_no_errors_of_the_call():
    lines = ["Could not be simpler", "Invalid states are explained below", "one", "two", "three"]
    assert read_next_state("tool", "\n".join([*lines, "four", "five"])) == (1, None)
    assert read_next_state("tool", "Could not reach the server")[0] == -1


@pytest.mark.parametrize(
    "text",
    [
        "a " * 100_000, "x" * 200_000, "very " * 50_000, "(((" * 50_000, "my the " * 50_000,
        ("word: " * 60 + "\n") * 2_000, ("x" * 300 + "\n") * 2_000, "\uff0c我不" * 50_000,
    ],
)  # fmt: skip
@pytest.mark.parametrize("role", ["user", "tool"])
def test_a_huge_next_state_is_read_in_bounded_time(text, role):
    started = time.process_time()
    read_next_state(role, text)
    assert time.process_time() - started < 5


def test_every_rule_has_phrases_and_only_faults_have_advice():
    for rule in (*language_rules(), *tool_rules(short=True), *nothing_rules()):
        assert rule.says
        assert rule.advice is None or rule.kind == "complaint"
