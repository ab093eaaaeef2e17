"""The samples that wait to be trained on, in the order in which they were written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from clawrl.errors import LearnerError
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Sample, Update


@dataclass(frozen=True, slots=True)
class Batch:
    """The samples of one update, and those passed over since the last because they were too old."""

    samples: list[Sample]
    stale: dict[str, int] = field(default_factory=dict)
    """Their staleness by id."""


class SamplePool:
    """Follows a run's samples. Each accepted one is handed out at most once.

    It always reads from the run's beginning and skips what the ledger names: the ledger alone says
    what was used, so that there is no second position that could disagree with it.
    """

    def __init__(self, folder: RunFolder, survived: Iterable[Update]) -> None:
        self._reader = folder.samples.follow()
        self._seen: set[str] = set()
        for update in survived:
            self._seen.update(update.sample_ids, update.stale)
        self._waiting: dict[str, Sample] = {}
        self._stale: dict[str, int] = {}

    def poll(self) -> None:
        """Take in what was written since the last call.

        Raises:
            RecordError: a line is not a sample.
            LearnerError: an accepted sample lacks what training needs.
        """
        for sample in self._reader.poll():
            if sample.accepted and sample.interaction_id not in self._seen:
                require_trainable(sample)
                self._seen.add(sample.interaction_id)
                self._waiting[sample.interaction_id] = sample

    def take(
        self,
        count: int,
        *,
        version: int,
        max_staleness: int | None,
        max_staleness_live: int | None,
    ) -> Batch | None:
        """The oldest `count` samples, or None while there are too few.

        Args:
            count: samples of one batch.
            version: that of the learner's weights.
            max_staleness: older samples are passed over for good; None: any age will do.
            max_staleness_live: the same for turns of live users.
        """
        for name, sample in list(self._waiting.items()):
            limit = max_staleness_live if sample.live else max_staleness
            if limit is not None and (age := staleness(sample, version)) > limit:
                self._stale[name] = age
                del self._waiting[name]
        if len(self._waiting) < count:
            return None
        chosen = list(self._waiting)[:count]
        stale, self._stale = self._stale, {}
        return Batch([self._waiting.pop(name) for name in chosen], stale)

    def take_again(self, update: Update) -> Batch:
        """Exactly the batch of a recorded update.

        Raises:
            LearnerError: a sample is not in the run folder, or was used before.
        """
        missing = [name for name in update.sample_ids if name not in self._waiting]
        if missing:
            raise LearnerError(
                f"update {update.version} was made from samples that are not here: "
                f"{', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''}"
            )
        for name in update.stale:
            self._waiting.pop(name, None)
        samples = [self._waiting.pop(name) for name in update.sample_ids]
        return Batch(samples, dict(update.stale))


def staleness(sample: Sample, version: int) -> int:
    """How many versions `sample` is behind, counted from the older of its weights."""
    return version - (sample.weights.version_first if sample.weights else version)


def require_trainable(sample: Sample) -> None:
    """Raise LearnerError unless there is one log-probability for each reply id, and a prompt.

    A missing one is never padded: 0.0 would claim that the token was certain.
    """
    ids, logp = len(sample.reply_ids), len(sample.behaviour_logp)
    if not (ids == logp > 0 and sample.prompt_ids and sample.weights):
        raise LearnerError(
            f"sample {sample.interaction_id}: accepted with {len(sample.prompt_ids)} prompt ids, "
            f"{ids} reply ids, {logp} log-probabilities, weights {sample.weights}: cannot be "
            "trained on; remove its line or mark it rejected"
        )
