"""Which lines of watched files run."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType

from fuselight.worker.child.line_watch import LineWatch

TEXT = """\
def outer(x):
    if x > 1:
        return inner(x)
    return [
        item
        for item in range(x)
    ]


def inner(x):
    try:
        return 1 / (x - 2)
    except ZeroDivisionError:
        return 0
"""


def module_at(path: Path) -> ModuleType:
    path.write_text(TEXT)
    module = ModuleType(path.stem)
    exec(compile(TEXT, str(path), "exec"), module.__dict__)  # noqa: S102 - the text of this test
    return module


def test_lines_of_watched_files_are_noted_each_once_and_no_others(tmp_path: Path) -> None:
    watched, other = module_at(tmp_path / "m.py"), module_at(tmp_path / "n.py")
    watch, trace = LineWatch([str(tmp_path / "m.py")]), sys.gettrace()
    watched.outer(5)  # not watched yet
    for _ in range(2):
        with watch.watching():
            watched.outer(2)
            other.outer(0)
    watched.outer(0)
    assert sys.gettrace() is trace
    (run,) = watch.lines_run
    assert set(run.lines) - {11} == {2, 3, 12, 13, 14}, "11 is `try`, which has no code in some versions"


def test_a_second_call_adds_what_only_it_runs(tmp_path: Path) -> None:
    watched = module_at(tmp_path / "m.py")
    watch = LineWatch([str(tmp_path / "m.py")])
    for value in (3, 1):
        with watch.watching():
            watched.outer(value)
    (run,) = watch.lines_run
    assert {2, 3, 12} < set(run.lines)
    assert set(run.lines) & {4, 5, 6}
    assert 14 not in run.lines


def test_an_exception_ends_the_watch(tmp_path: Path) -> None:
    watched = module_at(tmp_path / "m.py")
    watch, trace = LineWatch([str(tmp_path / "m.py")]), sys.gettrace()
    try:
        with watch.watching():
            watched.outer("a")
    except TypeError:
        pass
    assert sys.gettrace() is trace
    assert watch.lines_run[0].lines == (2,)


def test_a_file_that_did_not_run_is_listed_without_lines(tmp_path: Path) -> None:
    watch = LineWatch([str(tmp_path / "m.py")])
    with watch.watching():
        pass
    assert [run.lines for run in watch.lines_run] == [()]


def test_threads_of_the_engine_are_seen_or_nothing_is_said(tmp_path: Path) -> None:
    watched = module_at(tmp_path / "m.py")
    watch = LineWatch([str(tmp_path / "m.py")])
    with watch.watching(has_threads=True):
        thread = threading.Thread(target=watched.outer, args=(2,))
        thread.start()
        thread.join()
    seen = [set(run.lines) - {11} for run in watch.lines_run]
    assert seen in ([], [{2, 3, 12, 13, 14}])
    assert bool(seen) == hasattr(sys, "monitoring")
