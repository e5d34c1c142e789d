"""What sessions leave: the section of the terminal, the report, failed tests, and a baseline that tightens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.base.store import Store
from fuselight_server.commands import count_baseline
from fuselight_server.commands.compile_tests import read_failed
from fuselight_server.commands.count_baseline import CountEntry
from tests.support.pytest_runs import run_pytest, write_files

MODEL = """\
import torch


def noisy(x):
    print("one")
    x = x + 1
    {second}
    return x * 2


def quiet(x):
    return x * 2
"""
TESTS = """\
import pytest
import torch

from model import noisy, quiet


@pytest.mark.parametrize("size", [3, 4])
def test_noisy(fuselight_check, size):
    fuselight_check(noisy, (torch.ones(size),))


def test_quiet(fuselight_check):
    fuselight_check(quiet, (torch.ones(3),))
    fuselight_check(quiet, [(torch.ones(3),), (torch.ones(4),)])


def test_without():
    pass
"""
SECOND = 'print("two")'
NESTED = """
import torch


def inner(x):
    y = x + 1
    print("inner")
    return y * 2


def outer(x):
    return inner(x.sin()).cos()


def test_outer(fuselight_check):
    assert fuselight_check(outer, (torch.ones(3),)).graphs == 4
"""


def numbers(folder: Path) -> dict[str, tuple[int, int, int]]:
    checks: dict[str, Any] = json.loads((folder / "baseline.json").read_text())["checks"]
    return {name: (entry["graphs"], entry["breaks"], entry["recompiles"]) for name, entry in checks.items()}


def write_model(folder: Path, second: str) -> None:
    write_files(folder, {"model.py": MODEL.format(second=second)})


def write_baseline(folder: Path, entries: dict[str, tuple[int, int, int]]) -> None:
    count_baseline.write(
        folder / "baseline.json", {name: CountEntry(*numbers) for name, numbers in entries.items()}
    )


def test_a_baseline_over_several_sessions(tmp_path: Path) -> None:
    write_model(tmp_path, SECOND)
    settings = "[pytest]\nfuselight_baseline = baseline.json\n"
    write_files(tmp_path, {"test_model.py": TESTS, "pytest.ini": settings})
    write_baseline(tmp_path, {"test_model.py::test_noisy[3]": (3, 4, 0)})

    first = run_pytest(
        tmp_path, "-p", "xdist", "-n", "2", "--fuselight", "--fuselight-report", "out/report.json"
    )
    assert first.code == 0, first.output
    section = first.section("Fuselight")
    assert "baseline baseline.json: 3 entries added, 1 entry changed" in section
    assert "test_model.py::test_noisy[3]\n  noisy: 2 graphs, 2 breaks, 0 recompilations" in section
    assert "    model.py:5: GB0059 graph break: `print` cannot be traced" in section
    assert "  quiet#2: 1 graph, 0 breaks, 1 recompilation" in section
    assert "4 checks in 3 tests: 2 with graph breaks, 1 with recompilations" in section
    known = numbers(tmp_path)
    assert known == {
        "test_model.py::test_noisy[3]": (2, 2, 0),
        "test_model.py::test_noisy[4]": (2, 2, 0),
        "test_model.py::test_quiet": (1, 0, 0),
        "test_model.py::test_quiet#2": (1, 0, 1),
    }
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    noisy = next(entry for entry in report["tests"] if entry["test"] == "test_model.py::test_noisy[3]")
    assert noisy["outcome"] == "passed"
    assert (noisy["checks"][0]["breaks"], noisy["checks"][0]["line"]) == (2, 9)
    assert [finding["line"] for finding in noisy["checks"][0]["findings"]] == [5, 7]
    assert not (tmp_path / ".fuselight").exists()

    write_model(tmp_path, f"{SECOND}\n    torch._dynamo.graph_break()")
    write_files(tmp_path, {"test_model.py": TESTS.replace("[3, 4]", "[3]")})
    count_baseline.write(tmp_path / "baseline.json", {}, {"test_model.py::test_quiet"})
    worse = run_pytest(tmp_path, CI="1")
    assert worse.summary("test_noisy[3]").startswith("FAILED")
    assert " - GB0025 " in worse.summary("test_noisy[3]")
    assert "3 breaks of noisy, expected at most 2 (baseline baseline.json)" in worse.output
    assert "quiet has no entry in baseline.json. Run the test outside of CI" in worse.output
    assert (
        "1 entry of the baseline belongs to a test that does not exist: test_model.py::test_noisy[4]. "
        "--fuselight-update removes them"
    ) in worse.section("Fuselight")
    assert numbers(tmp_path).keys() == known.keys() - {"test_model.py::test_quiet"}
    (failed,) = read_failed(Store.at(tmp_path))
    assert failed.test == "test_model.py::test_noisy[3]"
    assert {finding.code for finding in failed.findings} == {"GB0025"}

    accepted = run_pytest(tmp_path, "--fuselight-update", CI="1")
    assert "1 entry added, 1 entry changed, 1 entry removed" in accepted.section("Fuselight")
    assert numbers(tmp_path)["test_model.py::test_noisy[3]"] == (2, 3, 0)
    assert read_failed(Store.at(tmp_path)) == ()


@pytest.mark.parametrize("option", ["--fuselight", "--fuselight-report=r.json"])
def test_a_session_without_checks(tmp_path: Path, option: str) -> None:
    write_files(tmp_path, {"test_plain.py": "def test_it():\n    pass\n", "pytest.ini": "[pytest]\n"})
    ran = run_pytest(tmp_path, option)
    assert ran.code == 0
    if option == "--fuselight":
        assert "no check was completed" in ran.section("Fuselight")
    else:
        assert json.loads((tmp_path / "r.json").read_text()) == {"schema": 1, "tests": []}


STOPPED = """\
import pytest
import torch


@torch._dynamo.disable
def stop(how):
    how()


def stopping(x, how):
    y = x + 1
    stop(how)
    return y


def timeout():
    pytest.fail("Timeout (>1.0s)")


def interrupt():
    raise KeyboardInterrupt


def half(fuselight_check):
    return fuselight_check(lambda x: x * 2, (torch.ones(2),))


def test_timeout(fuselight_check):
    half(fuselight_check)
    fuselight_check(stopping, (torch.ones(2), timeout))


@pytest.mark.xfail(strict=True)
def test_known(fuselight_check):
    assert half(fuselight_check).graphs == 2


@pytest.fixture
def broken():
    yield
    raise OSError("teardown")


def test_teardown(fuselight_check, broken):
    half(fuselight_check)


def test_interrupted(fuselight_check):
    half(fuselight_check)
    fuselight_check(stopping, (torch.ones(2), interrupt))


def test_never(fuselight_check):
    half(fuselight_check)
"""


def test_what_does_not_end_is_listed_and_only_what_passes_is_kept(tmp_path: Path) -> None:
    settings = "[pytest]\nfuselight_baseline = new/folder/baseline.json\n"
    write_files(tmp_path, {"test_stops.py": STOPPED, "pytest.ini": settings})
    ran = run_pytest(tmp_path, "--fuselight", "--fuselight-report", "report.json")
    section = ran.section("Fuselight")
    for name, reason in (("timeout", "Timeout (>1.0s)"), ("interrupted", "KeyboardInterrupt")):
        first = f"test_stops.py::test_{name}\n  <lambda>: 1 graph, 0 breaks, 0 recompilations\n"
        assert f"{first}  stopping: stopped: {reason}" in section
    assert "6 checks in 4 tests: 0 with graph breaks, 0 with recompilations, 2 stopped" in section
    assert "baseline" not in section  # no test has passed
    assert not (tmp_path / "new").exists()
    assert read_failed(Store.at(tmp_path)) == ()  # an expected failure is not shown in the editor
    outcomes = {
        test["test"].partition("::test_")[2]: (
            test["outcome"],
            [check["stopped"] for check in test["checks"]],
        )
        for test in json.loads((tmp_path / "report.json").read_text())["tests"]
    }
    assert outcomes == {
        "timeout": ("failed", [None, "Timeout (>1.0s)"]),
        "known": ("skipped", [None]),
        "teardown": ("passed", [None]),
        "interrupted": ("interrupted", [None, "KeyboardInterrupt"]),
    }
    passed = run_pytest(tmp_path, "-k", "never")
    assert "baseline new/folder/baseline.json: 1 entry added" in passed.section("Fuselight")


def test_a_wrong_setting_is_an_error_of_the_session(tmp_path: Path) -> None:
    settings = "[pytest]\nfuselight_expect = graphs=1 breaks\n"
    write_files(tmp_path, {"test_plain.py": "def test_it():\n    pass\n", "pytest.ini": settings})
    ran = run_pytest(tmp_path)
    assert ran.code == pytest.ExitCode.USAGE_ERROR
    assert "fuselight_expect: `breaks` is not a name with a number. Write `graphs=1 breaks=0`." in ran.output


def test_a_count_that_a_setting_changes_names_the_setting(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "test_nested.py": NESTED,
            "pytest.ini": "[pytest]\nfuselight_baseline = baseline.json\n",
        },
    )
    assert run_pytest(tmp_path).code == 0
    assert numbers(tmp_path) == {"test_nested.py::test_outer": (4, 1, 0)}
    conftest = "import torch\n\ntorch._dynamo.config.nested_graph_breaks = True\n"
    write_files(tmp_path, {"conftest.py": conftest})
    changed = run_pytest(tmp_path)
    assert changed.code == 1
    assert (
        "Changed since the baseline: `torch._dynamo.config.nested_graph_breaks` was its default, now True"
    ) in changed.section("test_outer")
    (tmp_path / "baseline.json").unlink()
    alone = run_pytest(tmp_path)
    assert "`torch._dynamo.config.nested_graph_breaks` is on" in alone.section("test_outer")


def test_a_baseline_of_another_release_names_both(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "test_nested.py": NESTED,
            "pytest.ini": "[pytest]\nfuselight_baseline = baseline.json\n",
        },
    )
    entry = CountEntry(1, 0, 0, torch="1.0")
    count_baseline.write(tmp_path / "baseline.json", {"test_nested.py::test_outer": entry})
    worse = run_pytest(tmp_path)
    assert "4 graphs of outer, expected at most 1" in worse.output
    assert "(baseline baseline.json). Changed since the baseline: torch was 1.0, now " in worse.output
