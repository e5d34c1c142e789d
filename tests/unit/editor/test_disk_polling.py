"""Files that change on the disk, for clients that do not report them."""

from __future__ import annotations

import os
from pathlib import Path

from fuselight_server.editor.handlers.disk_polling import DiskChange, changes, stamps_of, watched_paths
from fuselight_server.editor.results.captures import capture_result_of
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.source.document import SourceDocument
from tests.support.reports import report


def test_a_written_a_deleted_and_a_new_file_are_changes(tmp_path: Path) -> None:
    kept, written, deleted, new = (tmp_path / f"{name}.py" for name in ("kept", "written", "deleted", "new"))
    for path in (kept, written, deleted):
        path.write_text("x = 1\n")
    paths = [str(path) for path in (kept, written, deleted, new)]
    before = stamps_of(paths)
    written.write_text("x = 22\n")
    deleted.unlink()
    new.write_text("x = 1\n")
    now = stamps_of(paths)
    assert changes(before, now) == [
        DiskChange(str(written), is_deleted=False),
        DiskChange(str(deleted), is_deleted=True),
        DiskChange(str(new), is_deleted=False),
    ]
    assert changes(now, now) == []


def test_a_file_of_the_same_size_has_another_time(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("x = 1\n")
    before = stamps_of([str(path)])
    path.write_text("x = 2\n")
    os.utime(path, ns=(1, 1))
    assert changes(before, stamps_of([str(path)])) == [DiskChange(str(path), is_deleted=False)]


def test_a_file_that_was_not_looked_at_has_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("x = 1\n")
    assert changes({}, stamps_of([str(path), "/no\0path"])) == []


def test_files_of_results_open_documents_and_the_last_program_are_looked_at(tmp_path: Path) -> None:
    state = State()
    state.folders[str(tmp_path)] = Folder(path=str(tmp_path), uri=tmp_path.as_uri())
    result = capture_result_of(Key("/w/model.py", "Net"), 1, report(), ())
    state.accept_result(result)
    document = Document(
        uri="file:///w/open.py",
        path="/w/open.py",
        version=1,
        source=SourceDocument("/w/open.py", ""),
        runnable=True,
    )
    state.open(document)
    untitled = Document(
        uri="untitled:1",
        path="untitled:1",
        version=1,
        source=SourceDocument("untitled:1", ""),
        runnable=False,
    )
    state.open(untitled)
    watched = watched_paths(state)
    assert {"/w/open.py", str(tmp_path / ".fuselight" / "last-run.json")} <= set(watched)
    assert set(result.depends) <= set(watched)
    assert "untitled:1" not in watched
