"""Temporary folders are deleted with their owner, or after it by the next process; nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fuselight.shared import owned_folders


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def name_of(pid: int, purpose: str = "fix") -> str:
    """The name of a folder that process `pid` would make."""
    own = Path(owned_folders.new_folder(purpose))
    own.rmdir()
    return own.name.replace(f"-{os.getpid()}-", f"-{pid}-")


def test_a_folder_lives_as_long_as_the_block(parent: Path) -> None:
    with owned_folders.owned_folder("fix") as folder:
        (Path(folder) / "text").write_text("a")
        assert Path(folder).stat().st_mode & 0o777 == 0o700
        assert [*parent.iterdir()] == [Path(folder)]
    assert not [*parent.iterdir()]


def test_a_fork_does_not_delete_the_folder_of_its_parent() -> None:
    block = owned_folders.owned_folder("fix")
    folder = block.__enter__()
    pid = os.fork()
    if pid == 0:
        block.__exit__(None, None, None)
        os._exit(0)
    os.waitpid(pid, 0)
    assert Path(folder).is_dir()
    block.__exit__(None, None, None)
    assert not Path(folder).exists()


def test_folders_of_dead_owners_are_deleted(parent: Path) -> None:
    left = parent / name_of(dead_process())
    (left / "deep").mkdir(parents=True)
    (left / "deep" / "text").write_text("a")
    with owned_folders.owned_folder("run") as folder:
        assert [*parent.iterdir()] == [Path(folder)]


def test_nothing_else_is_deleted(parent: Path, tmp_path: Path) -> None:
    dead = dead_process()
    other = tmp_path / "other"
    other.mkdir()
    (other / "text").write_text("a")
    name = name_of(dead)
    user, namespace = name.split("-")[2:4]
    kept = [
        parent / name_of(os.getpid()),
        parent / name.replace(f"-{user}-", f"-{int(user) + 1}-", 1),
        parent / name.replace(f"-{namespace}-", f"-{int(namespace) + 1}-", 1),
        parent / f"fuselight-turns-{user}",
        parent / f"fuselight-mine-{dead}",
        parent / f"{name}-more",
    ]
    for path in kept:
        path.mkdir()
    link = parent / name_of(dead)
    link.symlink_to(other)
    inside = parent / name_of(dead)
    inside.mkdir()
    (inside / "link").symlink_to(other)
    file = parent / name_of(dead)
    file.write_text("a")
    owned_folders.remove_abandoned(str(parent))
    assert {*parent.iterdir()} == {*kept, link, file}
    assert (other / "text").read_text() == "a"


def test_a_missing_folder_has_nothing_to_delete(tmp_path: Path) -> None:
    owned_folders.remove_abandoned(str(tmp_path / "missing"))
