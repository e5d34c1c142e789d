"""Pages in `.fuselight/views/`: one file for each subject, private, and not without a bound."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fuselight_server.base import views
from fuselight_server.base.store import Store
from fuselight_server.base.views import forget_views, view_name, write_view


def test_a_view_is_replaced_and_forgotten(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    path = write_view(store, "benchmark.html", "one")
    assert write_view(store, "benchmark.html", "two") == path
    assert path.read_text() == "two"
    assert path.parent == tmp_path / ".fuselight" / "views"
    assert (tmp_path / ".fuselight" / ".gitignore").read_text() == "*\n"
    if os.name == "posix":
        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    forget_views(store)
    assert not path.parent.exists()
    forget_views(store)


def test_the_oldest_views_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX", 2)
    store = Store.at(tmp_path)
    for index, name in enumerate(("a.html", "b.html", "c.html")):
        path = write_view(store, name, name)
        os.utime(path, (index, index))
    assert {file.name for file in (tmp_path / ".fuselight" / "views").iterdir()} == {"b.html", "c.html"}


@pytest.mark.skipif(os.name != "posix", reason="making a link needs no permission on POSIX alone")
def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    store = Store.at(tmp_path / "project")
    store.folder.parent.mkdir()
    store.prepare()
    (store.folder / "views").symlink_to(elsewhere)
    with pytest.raises(OSError, match="it is a link"):
        write_view(store, "a.html", "")
    forget_views(store)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "subject"),
    [
        ("benchmark", ("model.py", "Net", "/w/model.py")),
        ("report", ("../../etc", "", "/w/x")),
        ("job", ("ж" * 300,)),
    ],
)
def test_a_name_is_a_plain_file_name(kind: str, subject: tuple[str, ...]) -> None:
    name = view_name(kind, *subject)
    assert Path(name).name == name
    assert name.startswith(kind)
    assert name.endswith(".html")
    assert len(name.encode()) < 255


def test_two_subjects_have_two_names() -> None:
    name = view_name("benchmark", "m.py", "f", of="/a/m.py")
    assert name != view_name("benchmark", "m.py", "f", of="/b/m.py")
    assert name == view_name("benchmark", "m.py", "f", of="/a/m.py")
