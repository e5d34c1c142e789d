"""Which entries of earlier sessions belong to tests that do not exist any more."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fuselight_server.commands import count_baseline
from fuselight_server.commands.count_baseline import NAME, CountEntry
from fuselight_server.pytest_plugin import session_hooks
from fuselight_server.pytest_plugin.check_types import test_name as name_of_test
from fuselight_server.pytest_plugin.session_results import stale_entries, stale_tests


@pytest.mark.parametrize(
    ("node_id", "name"),
    [
        ("a/test_x.py::test_one@gpu", "a/test_x.py::test_one"),  # as --dist loadgroup of pytest-xdist has it
        ("a/test_x.py::Test::test_one[a@b-(4, 8)]@gpu_2", "a/test_x.py::Test::test_one[a@b-(4, 8)]"),
        ("a/test_x.py::test_one[a@b]", "a/test_x.py::test_one[a@b]"),
        ("a@b/test_x.py::test_one", "a@b/test_x.py::test_one"),
    ],
)
def test_the_name_of_a_test_has_no_group(node_id: str, name: str) -> None:
    assert name_of_test(node_id) == name


KEPT = ("test_a.py::test_one", "test_a.py::test_one#2", "test_a.py::test_old[4]", "test_b.py::test_two")


@pytest.mark.parametrize(
    ("collected", "arguments", "gone"),
    [
        (["test_a.py::test_one"], ["test_a.py"], {"test_a.py::test_old[4]"}),
        (["test_a.py::test_one", "test_a.py::test_old[4]"], ["."], set()),
        (["test_a.py::test_one"], ["test_a.py::test_one"], set()),  # one test was asked for
        (["test_a.py::test_one"], ["sub\\test_a.py::test_one"], set()),
        ([], ["."], set()),  # a file that was not collected may be left out on purpose
        (["test_b.py::test_two"], ["test_b.py"], set()),
    ],
)
def test_only_what_a_session_can_tell(
    tmp_path: Path, collected: list[str], arguments: list[str], gone: set[str]
) -> None:
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).touch()
    assert stale_entries(KEPT, collected, arguments, tmp_path) == gone


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").touch()
    assert stale_entries(KEPT, [], ["."], tmp_path) == {"test_b.py::test_two"}


def test_the_light_module_knows_the_name_of_the_baseline() -> None:
    assert session_hooks._BASELINE == NAME


def test_a_session_of_the_last_failures_knows_only_files_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").touch()
    count_baseline.write(tmp_path / NAME, dict.fromkeys(KEPT, CountEntry(1, 0, 0)))
    item = SimpleNamespace(nodeid="test_a.py::test_one", get_closest_marker=lambda _: None)
    for is_last_failed, gone in ((True, {KEPT[3]}), (False, {KEPT[2], KEPT[3]})):
        config = SimpleNamespace(
            getoption=lambda name, default=None, value=is_last_failed: value if name == "lf" else default,
            getini=lambda _: "",
            rootpath=tmp_path,
            args=["."],
            stash=pytest.Stash(),
        )
        assert stale_tests(cast("Any", config), [cast("Any", item)]) == gone
