"""Blank one session in place, in every stream of a run.

Every line stays where it is and as long as it was (blanks fill it up), so that readers' positions
in the files, kept in checkpoints, go on being right.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil
from pydantic import ValidationError

from clawrl.errors import RecordError, UserError
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Episode, Feedback, Interaction, Line, Sample, Verdict

FORGOTTEN = "forgotten"


def forget(folder: RunFolder, session_id: str) -> int:
    """Blank what a session said: requests, replies, ids, feedback, hints. Its numbers stay.

    Each file is replaced whole or not at all; doing it again finishes what a crash left.

    Returns:
        How many lines belong to the session.

    Raises:
        UserError: the run is being written, or has no such session.
        RecordError: a line cannot be read.
    """
    asked = (folder.interactions, folder.feedback, folder.episodes)
    streams = (*asked, folder.verdicts, folder.samples)
    files = [(path, stream.noun) for stream in streams for path in stream.files()]
    _require_unused({path.resolve() for path, _ in files}, folder)
    found = sum(_blank_file(path, noun, session_id) for path, noun in files)
    if not found:
        raise UserError(f"{folder.root}: no session '{session_id}' in this run")
    return found


def _require_unused(files: set[Path], folder: RunFolder) -> None:
    for process in psutil.process_iter():
        try:
            opened = {Path(file.path) for file in process.open_files()}
        except psutil.Error:
            continue
        if opened & files:
            raise UserError(
                f"{folder.root}: process {process.pid} has this run open; stop it first"
            )


def _blank_file(path: Path, noun: type[Line], session_id: str) -> int:
    lines, found = path.read_bytes().split(b"\n"), 0
    for index, raw in enumerate(lines[:-1]):
        if b'"session_id"' not in raw:
            continue
        try:
            record = noun.model_validate_json(raw)
        except ValidationError as error:
            raise RecordError(path, index + 1, str(error.errors()[0]["msg"])) from None
        if getattr(record, "session_id", None) == session_id:
            found += 1
            lines[index] = _blanked(record).model_dump_json().encode().ljust(len(raw))
    if found:
        _replace(path, b"\n".join(lines))
    return found


def _blanked(record: Line) -> Line:
    if isinstance(record, Interaction):
        gone = dict.fromkeys(("tools", "prompt_ids", "reply_ids", "behaviour_logp"))
        reply = {"role": "assistant", "content": ""}
        return record.model_copy(
            update={**gone, "messages": [], "reply": reply, "untrainable": FORGOTTEN}
        )
    if isinstance(record, Feedback):
        return record.model_copy(update={"content": ""})
    if isinstance(record, Verdict):
        hints = [hint.model_copy(update={"hint": None}) for hint in record.hints]
        return record.model_copy(update={"hint": None, "hints": hints})
    if isinstance(record, Sample):
        ids = ("prompt_ids", "reply_ids", "behaviour_logp")
        reason = FORGOTTEN if record.accepted else record.reason
        gone = {**{name: [] for name in ids}, "hint": None, "hinted_prompt_ids": None}
        return record.model_copy(update={**gone, "accepted": False, "reason": reason})
    if isinstance(record, Episode):
        steps = [step.model_copy(update={"state": {}}) for step in record.steps]
        return record.model_copy(update={"steps": steps, "detail": ""})
    return record


def _replace(path: Path, content: bytes) -> None:
    mode = path.stat().st_mode & 0o777
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".forget-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
