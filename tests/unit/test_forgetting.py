"""A session is blanked in place, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawrl.errors import UserError
from clawrl.records.folder import RunFolder
from clawrl.records.forgetting import forget
from clawrl.records.writer import RecordWriter
from tests.factories import make_feedback, make_interaction


def recorded(root: Path) -> tuple[RunFolder, RecordWriter]:
    folder = RunFolder(root)
    writer = RecordWriter(folder, version=0, queue_records=100)
    for name in ("a", "b"):
        words = [{"role": "user", "content": f"secret of {name}"}]
        turn = make_interaction(session_id=name, messages=words)
        writer.put(turn).result()
        writer.put(make_feedback(turn, content=f"secret of {name}")).result()
    return folder, writer


def test_a_session_is_blanked_in_every_file_and_lines_stay_where_they_were(tmp_path: Path) -> None:
    folder, writer = recorded(tmp_path)
    writer.close()
    sizes = [path.stat().st_size for path in tmp_path.rglob("*.jsonl")]
    assert forget(folder, "a") == 2
    assert [path.stat().st_size for path in tmp_path.rglob("*.jsonl")] == sizes
    text = "".join(path.read_text() for path in tmp_path.rglob("*.jsonl"))
    assert "secret of a" not in text
    assert text.count("secret of b") == 2
    first, second = folder.interactions.read()
    assert (first.untrainable, first.reply_ids) == ("forgotten", None)
    assert second.untrainable is None
    assert [one.content for one in folder.feedback.read()] == ["", "secret of b"]


def test_an_unknown_session_and_a_run_in_use_are_refused(tmp_path: Path) -> None:
    folder, writer = recorded(tmp_path)
    with pytest.raises(UserError, match="stop it first"):
        forget(folder, "a")
    writer.close()
    with pytest.raises(UserError, match="no session 'c'"):
        forget(folder, "c")
