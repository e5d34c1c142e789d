"""All processes of a measurement run the text that the first one has read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fuselight.capture.calls.kept_texts import kept_text


def test_the_first_text_is_that_of_all(tmp_path: Path) -> None:
    folder = str(tmp_path / "texts")
    assert kept_text(folder, "a.py", lambda: b"first") == b"first"
    assert kept_text(folder, "a.py", lambda: b"second") == b"first"
    assert kept_text(folder, "b.py", lambda: b"another") == b"another"
    assert len(list((tmp_path / "texts").iterdir())) == 2


def test_a_file_that_cannot_be_read_is_kept_by_nobody(tmp_path: Path) -> None:
    def gone() -> bytes:
        raise FileNotFoundError("a.py")

    with pytest.raises(FileNotFoundError):
        kept_text(str(tmp_path), "a.py", gone)
    assert kept_text(str(tmp_path), "a.py", lambda: b"there again") == b"there again"


def test_processes_that_read_at_the_same_time_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        texts = pool.map(lambda n: kept_text(str(tmp_path), "a.py", lambda: b"%d" % n), range(64))
        assert len(set(texts)) == 1


def test_where_nothing_can_be_kept_the_text_is_still_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert kept_text(str(tmp_path / "file" / "texts"), "a.py", lambda: b"text") == b"text"
