"""Links that a repository brings: what Fuselight keeps, and what a diff names, goes through none of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fuselight.shared.foreign_files import leaves_project, project_root
from fuselight.shared.kernel_calls import KernelCalls, write_calls
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.store import Store
from fuselight_server.base.unified_diff import DiffError
from fuselight_server.base.views import write_view
from fuselight_server.commands import count_baseline
from fuselight_server.commands.changed_texts import diff_texts
from fuselight_server.commands.chosen_files import keep_choices
from fuselight_server.commands.sources import SourceFiles
from fuselight_server.execution.runs.stored_reports import StoredReports
from fuselight_server.upgrades.results import RunsFolder
from tests.support.reports import report


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder next to the project, with a file that must stay as it is."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    return folder


def everything_in(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() if path.is_file() else "" for path in sorted(folder.rglob("*"))}


def _keep_report(project: Path) -> None:
    StoredReports(project / ".fuselight" / "captures", 9, 1 << 20).keep_report("a", report())


def _keep_view(project: Path) -> None:
    write_view(Store.at(project), "view.md", "text")


def _keep_calls(project: Path) -> None:
    write_calls(project / ".fuselight" / "notebooks" / "a.json", KernelCalls(""))


def _keep_run(project: Path) -> None:
    Store.at(project).write_report(report())


def _keep_choice(project: Path) -> None:
    keep_choices(project, {"a": "b"})


WRITERS = [_keep_report, _keep_view, _keep_calls, _keep_run, _keep_choice]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize(
    "linked", [".fuselight", ".fuselight/captures", ".fuselight/views", ".fuselight/notebooks"]
)
def test_what_is_kept_goes_through_no_link(
    project: Path, outside: Path, write: Callable[[Path], None], linked: str
) -> None:
    (project / linked).parent.mkdir(exist_ok=True)
    (project / linked).symlink_to(outside, target_is_directory=True)
    before = everything_in(outside)
    with contextlib.suppress(OSError):
        write(project)
    assert everything_in(outside) == before


@pytest.mark.parametrize("write", WRITERS)
def test_a_linked_file_is_replaced_and_not_followed(
    project: Path, outside: Path, write: Callable[[Path], None]
) -> None:
    write(project)
    files = [path for path in (project / ".fuselight").rglob("*") if path.is_file()]
    for path in files:
        path.unlink()
        path.symlink_to(outside / "kept.txt")
    write(project)
    assert everything_in(outside) == {str(outside / "kept.txt"): "kept"}


def test_a_baseline_of_tests_is_not_written_through_a_link(project: Path, outside: Path) -> None:
    (project / "base.json").symlink_to(outside / "base.json")
    (project / "tests").symlink_to(outside, target_is_directory=True)
    for path in (project / "base.json", project / "tests" / "base.json"):
        with pytest.raises(OSError, match="link"):
            count_baseline.write(path, {})
    count_baseline.write(project / "own.json", {})
    assert sorted(path.name for path in outside.iterdir()) == ["kept.txt"]


def test_the_runs_of_an_upgrade_go_through_no_link(project: Path, outside: Path) -> None:
    (project / "targets").symlink_to(outside, target_is_directory=True)
    with pytest.raises(CommandError, match="link"):
        RunsFolder(project).prepare()


def diff_of(name: str) -> bytes:
    return f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-x = 1\n+x = 2\n".encode()


@pytest.mark.parametrize(
    "name", ["../outside/net.py", "pkg/net.py", "net.py", "sub/../../outside/net.py", "/ABSOLUTE/net.py"]
)
def test_a_diff_names_no_file_outside_of_its_folder(project: Path, outside: Path, name: str) -> None:
    (outside / "net.py").write_text("x = 1\n")
    (project / "pkg").symlink_to(outside, target_is_directory=True)
    (project / "net.py").symlink_to(outside / "net.py")
    diff = diff_of(name).replace(b"a//ABSOLUTE", bytes(outside)).replace(b"b//ABSOLUTE", bytes(outside))
    with pytest.raises(DiffError, match="outside of the folder or leads out of it by a link"):
        diff_texts(diff, project, SourceFiles())


def test_a_diff_applies_in_a_folder_above(project: Path) -> None:
    (project / "sub" / "more").mkdir(parents=True)
    (project / "sub" / "net.py").write_text("x = 1\n")
    texts = diff_texts(diff_of("sub/net.py"), project / "sub" / "more", SourceFiles())
    assert texts == {str(project / "sub" / "net.py"): "x = 2\n"}


def test_a_linked_folder_is_not_a_part_of_the_project_that_it_leads_to(project: Path, outside: Path) -> None:
    (outside / ".git").mkdir()
    (outside / "net.py").touch()
    (project / "pkg").symlink_to(os.path.relpath(outside, project))
    assert project_root(project / "pkg" / "net.py") == project.resolve()
    assert leaves_project(project / "pkg" / "net.py")
    assert project_root(outside / "net.py") == outside.resolve()
