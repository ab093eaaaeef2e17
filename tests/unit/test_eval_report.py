from __future__ import annotations

import html
import io
import random
import subprocess
import sys

import pytest
from rich.console import Console

from clawrl.errors import UserError
from clawrl.eval.personalization import wording
from clawrl.eval.personalization.change import (
    Limit,
    check_rows,
    complaint_row,
    control_rows,
    first_and_last,
    score_row,
)
from clawrl.eval.personalization.measurement import MeasuredReply, Measurement, record
from clawrl.eval.personalization.neutral import TextLikelihood
from clawrl.eval.scoring.answers import final_number, is_correct
from clawrl.eval.statistics.diversity import distinct_bigrams
from clawrl.records.folder import RunFolder
from clawrl.records.jsonl import JsonlFile
from clawrl.records.nouns import Remainder, Retired, Sample, Update, Weights
from clawrl.report.learning_curve import draw_curve
from clawrl.report.replies import side_by_side, verbatim
from clawrl.report.run_report import summary_table, write_report
from clawrl.tastes.student import STUDENT, reference_rule
from tests.factories import make_interaction

NATURAL = "Nine and nine more, and a few apples on top of that, makes 18."
STOCK = "To solve this problem, we need two steps.\n\n1. **Add** them.\n2. It is \\boxed{18}"
PNG = b"\x89PNG"


def measured_reply(
    problem: int, repeat: int, text: str, *, tokens: int | None = None, asked: bool = True
):
    return MeasuredReply(
        problem_id=f"p{problem}",
        question=f"What is 9 + {problem}?",
        answer="18",
        repeat=repeat,
        seed=repeat,
        text=text,
        finish_reason="stop",
        tokens=tokens or len(text.split()),
        checks=STUDENT.results(text, "stop"),
        score=STUDENT.score(text, "stop"),
        reference_rule=reference_rule(text),
        distinct_bigrams=distinct_bigrams(text),
        final_number=final_number(text) is not None,
        correct=is_correct(text, "18"),
        complained=text == STOCK if asked else None,
    )


def measurement(
    version: int, natural_share: float, *, problems=12, texts=None, nats=-3.0, asked=True
):
    """Replies of which a seeded share are natural; `texts` instead gives them outright."""
    generator = random.Random(version)
    replies = [
        measured_reply(
            problem,
            repeat,
            texts[(problem * 2 + repeat) % len(texts)]
            if texts
            else generator.choices([NATURAL, STOCK], [natural_share, 1 - natural_share])[0],
            asked=asked,
        )
        for problem in range(problems)
        for repeat in range(2)
    ]
    return Measurement(
        version=version,
        taste="student",
        metric="naturalness",
        wants={check.name: check.wants for check in STUDENT.checks},
        temperature=1,
        max_tokens=128,
        replies=replies,
        neutral=[TextLikelihood(text_id=f"n{i}", logp=nats * 10, tokens=10) for i in range(64)],
    )


def update(version: int) -> Update:
    return Update(
        version=version,
        parent=version - 1,
        sample_ids=[f"s{version}a", f"s{version}b"],
        stale={"s9": 2} if version == 2 else {},
        digest_before="a",
        digest_after="b",
        created=0,
        metrics={"score_mean": -0.5 + 0.1 * version, "hint_rate": 0.5, "mismatch": 0.001 * version},
    )


@pytest.fixture
def finished(tmp_path) -> RunFolder:
    """A run of three updates, one of which a restart took back once."""
    (tmp_path / "config.yaml").write_text(
        "recipe: student_persona\nseed: 3\nmodel: {name: tiny}\nlearner: {lr: 1.0e-5}\n"
    )
    folder = RunFolder(tmp_path)
    record(folder, measurement(0, 0.2))
    record(folder, measurement(3, 0.9))
    with JsonlFile(folder.ledger) as ledger:
        for line in (
            update(1),
            update(2),
            Retired(version=2, digest="b", sample_ids=["s2a", "s2b"], created=0),
            update(2),
            update(3),
            Remainder(sample_ids=["s4"], created=0),
        ):
            ledger.append(line)
    samples = folder.samples.writer(0)
    weights = Weights(version_first=0, version_last=0, digest="a")
    for number in range(7):
        samples.append(
            Sample(
                interaction_id=f"i{number}", session_id="s", accepted=True, weights=weights, score=1
            )
        )
    for number, reason in enumerate(["score_0", "score_0", "untrainable: cut_by_client"]):
        samples.append(
            Sample(interaction_id=f"r{number}", session_id="s", accepted=False, reason=reason)
        )
    samples.close()
    return folder


def on_screen(folder: RunFolder) -> str:
    screen = io.StringIO()
    Console(width=80, file=screen).print(summary_table(folder))
    return screen.getvalue()


def rows_by_name(before: Measurement, after: Measurement):
    return {row.name: row for row in control_rows(before, after)}


def test_the_report_says_what_changed_and_how_sure_that_is(finished):
    report = write_report(finished).read_text(encoding="utf-8")
    assert report.startswith("# student_persona: naturalness 0.")
    assert "after 3 updates" in report
    assert "whose interval excludes 0" in report
    assert "| naturalness | 0." in report
    for check in STUDENT.checks:
        assert f"| {check.name} | " in report
        assert f"- `{check.name}`: {check.wants}" in report
    for name in (
        "reference rule",
        "reply length, tokens",
        "distinct bigrams",
        "states a final number",
        "final number is right",
        "neutral text, nats/token",
        "cut off by length",
    ):
        assert f"| {name} | " in report
    assert "![learning curve](learning_curve.png)" in report
    assert (finished.root / "learning_curve.png").read_bytes().startswith(PNG)


def shares(complained: list[int], problems: int = 10) -> list[Measurement]:
    """Measurements in which so many of ten replies to each problem's pair are complained about."""
    return [
        measurement(place, 0, problems=problems, texts=[STOCK] * count + [NATURAL] * (10 - count))
        for place, count in enumerate(complained)
    ]


def said(found: list[Measurement], persona: str = "student") -> str:
    row = complaint_row(found[0], found[1] if len(found) > 1 else None)
    assert row is not None
    return wording.complaints(row, persona)


def test_the_report_and_the_table_begin_with_a_sentence_for_strangers(tmp_path):
    folder = RunFolder(tmp_path)
    for found in shares([8, 3]):
        record(folder, found)
    sentence = "The student's complaints fell from 8 in 10 replies to 3 in 10."
    report = write_report(folder).read_text(encoding="utf-8")
    assert report.split("\n\n")[1] == sentence
    assert "| complained about | 0.80 [" in report
    screen = on_screen(folder)
    assert screen.startswith(sentence)
    assert "complained about" in screen


def test_the_sentence_says_no_more_than_was_found():
    assert said(shares([2, 8])).startswith("The student's complaints rose from 2 in 10 replies to")
    assert said(shares([5, 5])) == "The student's complaints stayed at 5 in 10 replies."
    assert said(shares([5])) == "The student's complaints: 5 in 10 replies."
    assert said(shares([8, 3]), "assistant").startswith("The teaching assistant's complaints fell")
    chance = [measurement(0, 0.45, problems=3), measurement(1, 0.6, problems=3)]
    assert said(chance).endswith(", which may be chance.")


def test_without_known_complaints_there_is_no_sentence_and_no_row(tmp_path):
    folder = RunFolder(tmp_path)
    record(folder, measurement(0, 0.2, asked=False))
    record(folder, measurement(3, 0.9, asked=False))
    report = write_report(folder).read_text(encoding="utf-8")
    assert "'s complaints" not in report
    assert "| complained about" not in report
    assert on_screen(folder).startswith(folder.root.name)


def test_complaints_known_on_one_side_alone_are_no_change():
    before, after = measurement(0, 0.2), measurement(3, 0.9, asked=False)
    row = complaint_row(before, after)
    assert row is not None
    assert row.after is row.change is None
    assert complaint_row(after, before) is None


def test_the_report_counts_what_was_trained_on(finished):
    report = write_report(finished).read_text(encoding="utf-8")
    assert "| updates | 3 (1 retired by restarts) |" in report
    assert "| samples trained on | 6 |" in report
    assert "| samples accepted | 7 |" in report
    assert "| samples rejected | score_0 2, untrainable: cut_by_client 1 |" in report
    assert "| passed over as too old | 1 |" in report
    assert "| accepted, left over at the end | 1 |" in report
    assert "same weights, nats a token | mean 0.0020, largest 0.0030 |" in report


def test_writing_a_report_again_changes_nothing(finished):
    first = write_report(finished).read_bytes()
    assert write_report(finished).read_bytes() == first


def test_the_same_five_problems_stand_side_by_side(finished):
    report = write_report(finished).read_text(encoding="utf-8")
    assert report.count("<table>") == report.count("</table>") == 5
    for problem in range(5):
        assert f"(answer: 18; `p{problem}`)" in report
    assert "`p5`" not in report


def test_after_one_measurement_there_is_a_report_without_a_change(tmp_path):
    folder = RunFolder(tmp_path)
    record(folder, measurement(0, 0.3))
    report = write_report(folder).read_text(encoding="utf-8")
    assert "no second measurement to compare with" in report
    assert (tmp_path / "learning_curve.png").is_file()


def test_a_run_without_any_measurement_still_reports_its_training(tmp_path):
    folder = RunFolder(tmp_path)
    report = write_report(folder).read_text(encoding="utf-8")
    assert "Nothing was measured" in report
    assert "| updates | 0 |" in report
    assert not (tmp_path / "learning_curve.png").exists()
    with pytest.raises(UserError, match="nothing was measured yet"):
        summary_table(folder)


def test_the_screen_shows_the_same_numbers_within_80_columns(finished):
    screen = on_screen(finished)
    report = (write_report(finished)).read_text(encoding="utf-8")
    before, after = measurement(0, 0.2), measurement(3, 0.9)
    change = score_row(before, after).change
    assert change is not None
    assert f"{change.value:+.2f} [{change.low:+.2f}, {change.high:+.2f}]" in screen
    assert f"{change.value:+.2f} [{change.low:+.2f}, {change.high:+.2f}]" in report
    assert "\N{HORIZONTAL ELLIPSIS}" not in screen
    for row in [*check_rows(before, after), *control_rows(before, after)]:
        assert row.name in screen


def test_markup_in_a_recipes_name_is_not_read_by_the_screen(tmp_path):
    (tmp_path / "config.yaml").write_text("recipe: '[red]me[/nope]'\n")
    folder = RunFolder(tmp_path)
    record(folder, measurement(0, 0.3))
    assert "[red]me[/nope]" in on_screen(folder)


def test_a_short_reply_breaks_the_length_control_and_nothing_else_hides_it():
    before, after = measurement(0, 0, texts=[NATURAL]), measurement(1, 0, texts=["It is 18."])
    rows = rows_by_name(before, after)
    assert rows["reply length, tokens"].holds is False
    assert rows["final number is right"].holds is True
    assert rows["cut off by length"].holds is None


def test_repetition_lost_numbers_and_lost_english_break_their_controls():
    before = measurement(0, 0, texts=[NATURAL])
    after = measurement(1, 0, texts=["apples and apples and apples and apples and"], nats=-3.11)
    rows = rows_by_name(before, after)
    for name in (
        "distinct bigrams",
        "states a final number",
        "final number is right",
        "neutral text, nats/token",
    ):
        assert rows[name].holds is False, name


def test_a_control_that_falls_by_just_its_limit_holds():
    assert Limit(low=-0.05).holds(0.70 - 0.75)
    assert not Limit(low=-0.05).holds(-0.0501)
    assert Limit(0.5, 2).holds(2.0)
    assert not Limit(0.5, 2).holds(2.01)
    assert not Limit(0.5, 2).holds(float("nan"))


def test_without_neutral_texts_their_row_is_left_out():
    before = measurement(0, 0.2).model_copy(update={"neutral": None})
    assert "neutral text, nats/token" not in rows_by_name(before, before)


def test_measurements_of_other_problems_are_not_compared():
    with pytest.raises(UserError, match="versions 0 and 4 were measured on other problems"):
        first_and_last([measurement(0, 0.2), measurement(4, 0.2, problems=11)])


def test_the_first_and_the_last_version_are_compared():
    found = [measurement(version, 0.2) for version in (0, 2, 5)]
    before, after = first_and_last(found)
    assert after is not None
    assert (before.version, after.version) == (0, 5)


@pytest.mark.parametrize(
    "text",
    ["a\n\n\nb", "**bold**", "<script>x</script>", "1. one\n- two", "$x$ `y` | z", "", " \n"],
)
def test_a_reply_is_shown_as_it_was_written(text):
    shown = verbatim(text)
    assert "\n\n" not in shown  # a blank line would end the table
    for sign in ("**", "<script", "`", "$", "|"):
        assert sign not in shown
    plain = shown.replace("<br>\n", "\n").replace("&nbsp;", "")
    assert html.unescape(plain) == (text if text.strip() else "<i>(empty)</i>")


def test_a_very_long_reply_is_shortened_and_says_so():
    assert "(600 more characters)" in html.unescape(verbatim("a" * 3000))


def test_replies_are_paired_by_problem_not_by_place():
    before = measurement(0, 0, texts=[STOCK], problems=3)
    after = measurement(1, 0, texts=[NATURAL], problems=3)
    turned = after.model_copy(update={"replies": after.replies[::-1]})
    for block, problem in zip(side_by_side(before, turned, 3), range(3), strict=True):
        assert f"`p{problem}`" in block
        assert "score 1.00: all checks passed" in html.unescape(block)


@pytest.mark.parametrize("versions", [[], [0], [0, 1, 2, 3]])
@pytest.mark.parametrize("updates", [0, 1, 3])
def test_the_curve_is_drawn_from_whatever_there_is(tmp_path, versions, updates):
    path = tmp_path / "curve.png"
    measured = [measurement(version, 0.3 + 0.1 * version) for version in versions]
    drawn = draw_curve(path, "title", measured, [update(n + 1) for n in range(updates)])
    assert drawn == bool(versions or updates) == path.exists()
    if drawn:
        assert path.read_bytes().startswith(PNG)


def test_importing_the_evaluation_loads_no_heavy_package():
    code = (
        "import sys, clawrl.report.run_report, clawrl.eval.personalization.measure\n"
        "heavy = {'torch', 'vllm', 'transformers', 'matplotlib', 'datasets', 'wandb'}\n"
        "print(*heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_report_says_after_how_many_sessions_the_persona_was_pleased(finished):
    config = finished.config.read_text()
    finished.config.write_text(config + "taste: student\n")
    assert "first replies in a row" not in write_report(finished).read_text(encoding="utf-8")
    replies = ["To solve this, we add.", *["Anna has 3 + 4 = 7 apples in the end."] * 3]
    interactions = finished.interactions.writer(0)
    for number, text in enumerate(replies):
        reply = {"role": "assistant", "content": text}
        interactions.append(make_interaction(session_id=str(number), reply=reply))
    interactions.close()
    report = write_report(finished).read_text(encoding="utf-8")
    assert "| sessions until 3 first replies in a row pass all checks | 4 |" in report
