"""`warm`: pytest starts the test twice, and the second start says what it compiled again.

The starts replace the C++ kernels by stubs, so that no compiler runs: keys and records of the caches are the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pytest_runs import run_pytest, write_files

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


def test_depends_on_others(request):
    if not STARTED:
        import torch

        check = request.getfixturevalue("fuselight_check")
        assert check(torch.relu, (torch.ones(3),)).warm
"""


@pytest.mark.timeout(900)  # four processes of pytest
def test_the_second_start_of_a_check(tmp_path: Path) -> None:
    write_files(tmp_path, {"test_model.py": TESTS, "pytest.ini": "[pytest]\n"})
    ran = run_pytest(tmp_path, seconds=850)
    assert "assert <second start of scaled: 0 hits, 2 misses, compiled again" in ran.section("test_known")
    other = ran.section("test_depends_on_others")
    assert "the first start of `test_model.py::test_depends_on_others` did not reach this check" in other
    assert "1 passed" in other  # what the start printed
    assert "second_start.py" not in other
