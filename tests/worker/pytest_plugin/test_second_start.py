"""`warm`: pytest starts the test twice, and the second start says what it compiled again.

The starts replace the C++ kernels by stubs, so that no compiler runs: keys and records of the caches are the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pytest_runs import PytestRun, run_pytest, write_files

TESTS = """\
import os

STARTED = "FUSELIGHT_PYTEST_START" in os.environ

def test_known(fuselight_check):
    import torch

    if STARTED:
        from torch._inductor.async_compile import AsyncCompile

        AsyncCompile.cpp_pybinding = lambda *_: lambda *arguments: None
    scale = float(os.getpid())

    def scaled(x):
        return x * scale

    assert fuselight_check(scaled, (torch.ones(3),)).warm
"""
DEPENDS_ON_OTHERS = """\
import os

def test_depends_on_others(request):
    if "FUSELIGHT_PYTEST_START" not in os.environ:
        import torch

        check = request.getfixturevalue("fuselight_check")
        assert check(torch.relu, (torch.ones(3),)).warm
"""


def ran(folder: Path, tests: str) -> PytestRun:
    write_files(folder, {"test_model.py": tests, "pytest.ini": "[pytest]\n"})
    return run_pytest(folder, seconds=850)


@pytest.mark.timeout(900)  # three processes of pytest
def test_the_second_start_of_a_check(tmp_path: Path) -> None:
    shown = ran(tmp_path, TESTS).section("test_known")
    assert "assert <second start of scaled: 0 hits, 2 misses, compiled again" in shown


@pytest.mark.corpora  # test_checked_results.py has another start that does not reach its check
@pytest.mark.timeout(900)
def test_a_start_that_does_not_reach_the_check(tmp_path: Path) -> None:
    other = ran(tmp_path, DEPENDS_ON_OTHERS).section("test_depends_on_others")
    assert "the first start of `test_model.py::test_depends_on_others` did not reach this check" in other
    assert "1 passed" in other  # what the start printed
    assert "second_start.py" not in other
