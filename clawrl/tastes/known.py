"""The tastes by name, as the configuration's `taste` names them."""

from __future__ import annotations

from clawrl.tastes.assistant import ASSISTANT
from clawrl.tastes.student import STUDENT
from clawrl.tastes.taste import Taste
from clawrl.tastes.teacher import TEACHER

TASTES: dict[str, Taste] = {taste.name: taste for taste in (STUDENT, TEACHER, ASSISTANT)}
