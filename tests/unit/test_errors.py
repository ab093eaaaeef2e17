import asyncio

import pytest

from clawrl.cli.run import run_until_signal
from clawrl.errors import LearnerError


def test_an_error_in_a_task_group_reaches_the_user_as_one_error():
    async def work() -> None:
        async with asyncio.TaskGroup():
            raise LearnerError("the learner: no room")

    with pytest.raises(LearnerError, match="no room"):
        run_until_signal(work(), None)
