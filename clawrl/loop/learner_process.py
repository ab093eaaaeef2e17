"""The learner as a child process: started, restarted after a crash, ended in an orderly way."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from clawrl.config.schema import Config
from clawrl.errors import LearnerError
from clawrl.learner.command import learner_command, learner_environment
from clawrl.processes.child import Child
from clawrl.records.folder import RunFolder

log = logging.getLogger(__name__)

FINISH_STEP_S = 600
"""How long a learner may take to finish its step and save after the first Ctrl-C."""


class LearnerProcess:
    """Runs the learner until a version; a crash costs the step that it was in, no more."""

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        model_path: Path,
        *,
        until: int,
        replay: Path | None = None,
        bound_staleness: bool = True,
    ) -> None:
        self.restarts = 0
        self._max_restarts = config.learner.max_restarts
        self._stopping = False
        self._begins = 0
        """Where this process's own lines begin in the log, in bytes."""
        self._command = learner_command(
            config, folder.root, until, replay=replay, bound_staleness=bound_staleness
        )
        self._environment = learner_environment(config, model_path)
        self._log = folder.logs / "learner.log"
        self.child = self._new_child()

    def _new_child(self) -> Child:
        return Child("learner", self._command, log=self._log, env=self._environment)

    async def run(self) -> None:
        """Return when the learner has reached its version or was stopped.

        Raises:
            LearnerError: it keeps failing; the message ends with its last words.
        """
        while True:
            self._begins = self._log.stat().st_size if self._log.exists() else 0
            await self.child.start()
            code = await self.child.wait()
            if code == 0 or self._stopping:
                return
            reported = self._reported()
            if reported is not None:  # it would report the same again
                raise LearnerError(f"the learner: {reported}")
            if self.restarts >= self._max_restarts:
                raise LearnerError(
                    f"the learner ended with exit code {code} after {self.restarts} restarts "
                    f"(learner.max_restarts); see {self._log}, then `clawrl train --resume RUN`"
                )
            self.restarts += 1
            log.warning("learner ended code=%s restart=%d", code, self.restarts)
            self.child = self._new_child()

    def _reported(self) -> str | None:
        """The error that the learner logged as its last word; None after a crash."""
        with self._log.open(encoding="utf-8", errors="replace") as log:
            log.seek(self._begins)
            errors = [line.strip() for line in log if " ERROR clawrl.learner" in line]
        return errors[-1].partition(" ERROR ")[2].partition(" ")[2] if errors else None

    async def stop(self, *, now: bool = False) -> None:
        """Let it finish its step and save; `now`: do not wait for that."""
        self._stopping = True
        if self.child.returncode is None:
            await asyncio.shield(self.child.stop(grace_s=0.5 if now else FINISH_STEP_S))
