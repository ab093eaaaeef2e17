"""The teacher: comments on graded homework that are specific and friendly.

Eight checks, written down before the first training run: four for specific, four for friendly.
"""

from __future__ import annotations

from clawrl.tastes.taste import Check, Taste, has, lacks

TEACHER = Taste(
    name="teacher",
    metric="comment_quality",
    checks=(
        Check("names_a_number", "quotes a number of the pupil's work", has(r"\d")),
        Check(
            "names_the_place",
            "says where: a line, a step, a calculation, a part",
            has(
                r"\b(line|step|calculation|addition|subtraction|multiplication|division|equation|"
                r"sum|product|total|first part|second part|last part|final answer|working)\b"
            ),
        ),
        Check(
            "says_right_or_wrong",
            "says whether it is right",
            has(
                r"\b(correct|incorrect|right|wrong|mistake|error|accurate|well solved|not quite)\b"
            ),
        ),
        Check(
            "says_what_next",
            "says what to do next",
            has(
                r"\b(try|next time|check|keep|remember|practi[cs]e|make sure|double-check|"
                r"look again|consider)\b"
            ),
        ),
        Check(
            "speaks_to_the_pupil",
            "speaks to the pupil (you)",
            has(r"\byou(r|'ve|'re|'ll)?\b"),
        ),
        Check(
            "praises",
            "praises something",
            has(
                r"\b(good|great|nice|well done|excellent|love|liked?|impressive|wonderful|proud|"
                r"clear|careful|fantastic|awesome)\b"
            ),
        ),
        Check(
            "is_warm",
            "is warm: an exclamation, an encouragement",
            has(
                r"!|\b(keep it up|keep going|you can do|you've got this|well done|so close|"
                r"don't worry|happy|enjoyed)\b"
            ),
        ),
        Check(
            "not_formal",
            "no report language (the student, the solution, in conclusion, therefore)",
            lacks(
                r"\b(the (student|pupil|solution|answer|response|given)|in conclusion|therefore|"
                r"thus|furthermore|overall|it is important|to solve this)\b"
            ),
        ),
    ),
)
