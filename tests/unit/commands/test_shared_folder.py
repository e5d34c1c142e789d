"""Two processes that write to one folder lose nothing, and a full disk leaves what was there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.folder_writers import FILLER, WRITERS, kept, write_all

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "tests.support.folder_writers"]


def start(folder: Path, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    state = {"XDG_STATE_HOME": str(folder / "home")}
    return subprocess.Popen(
        [*before, *COMMAND, str(folder), *arguments],
        cwd=ROOT, env={**os.environ, **state}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


@pytest.mark.slow
def test_two_processes_lose_nothing(folder: Path) -> None:
    """The report of a run replaces the last one, and so may the answers about files of a job."""
    processes = [start(folder, name, "3") for name in ("a", "b")]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [json.loads(process.communicate()[0]) for process in processes] == [[], []]
    there = kept(folder)
    assert there.pop("report") == ["Net"]
    assert len(there.pop("choices")) >= 3
    assert {name: len(set(items)) for name, items in there.items()} == dict.fromkeys(there, 6)
    assert not [path for path in folder.rglob("*") if path.name.endswith(".new") or ".tuned" in path.name]


def in_a_small_disk(folder: Path) -> tuple[str, ...]:
    mount = f'mount -t tmpfs -o size=400k tmpfs {folder} && touch {folder}/pyproject.toml && exec "$@"'
    return ("unshare", "-rm", "sh", "-c", mount, "sh")


def can_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run([*in_a_small_disk(folder), "true"], check=False, capture_output=True).returncode == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", ["disk", "limit"])
def test_a_full_disk_loses_nothing(folder: Path, how: str) -> None:
    """Once a disk that is full, once a limit of the system on the size of files: a part of each is written."""
    if how == "disk" and not can_mount(folder):
        pytest.skip("this system lets no user mount a disk in memory")
    process = start(folder, how, before=in_a_small_disk(folder) if how == "disk" else ())
    before, errors, full, left, again, after = json.loads(process.communicate()[0])
    assert before.keys() == full.keys() == after.keys()
    assert len(before) == len(WRITERS)
    assert all(set(before[name]) <= set(full[name]) <= set(after[name]) for name in before)
    expected = "No space left" if how == "disk" else "File too large"
    assert len(errors) >= 8
    assert all(expected in text for text in errors.values())
    assert again == {}
    assert not [name for name in left if name.endswith(".new") or name == FILLER]


def test_the_program_of_these_tests_sees_a_loss(folder: Path) -> None:
    """What the other tests compare would differ if anything were lost."""
    write_all(folder, "a")
    there: dict[str, Any] = kept(folder)
    assert all(there.values())
    shutil.rmtree(folder / ".fuselight")
    assert not all(kept(folder).values())
