"""What `make test` says of tests that failed, and what it runs again."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
JUNIT = """<testsuites><testsuite>
<testcase classname="{owner}" name="works" time="1"/>
<testcase classname="{owner}" name="waits" time="2"><skipped/></testcase>
<testcase classname="{owner}" name="fails" time="3">{failure}</testcase>
</testsuite></testsuites>"""


@pytest.fixture(name="load")
def load_fixture(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A script as a module; what it imports of its folder is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    before = set(sys.modules)

    def load(path: str) -> Any:
        name = f"loaded_{Path(path).stem}"
        spec = importlib.util.spec_from_file_location(name, ROOT / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    yield load
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("owner", "failure", "failed"),
    [
        (
            "tests.unit.shared.test_wire",
            '<failure message="AssertionError: 1 is not 2&#10;more">def test(): ...</failure>',
            ("tests/unit/shared/test_wire.py::fails", "AssertionError: 1 is not 2"),
        ),
        (
            "devices.spec.mjs",
            '<failure message="devices.spec.mjs:8:1 fails">the test\n\n    Error: no list\n</failure>',
            ("devices.spec.mjs > fails", "Error: no list"),
        ),
        ("Runs", "<failure>Too late\n  at a line</failure>", ("Runs > fails", "Too late")),
        ("Runs", "<error/>", ("Runs > fails", "no message")),
    ],
)
def test_a_failed_test_is_named_with_its_error(
    load: Any, tmp_path: Path, owner: str, failure: str, failed: tuple[str, str]
) -> None:
    file = tmp_path / "ring.xml"
    file.write_text(JUNIT.format(owner=owner, failure=failure))
    rings = load("scripts/rings.py")
    outcome = rings.read_junit("ring", file, ended=rings.Ended(1, 2.5), seconds=5.0)
    assert (outcome.passed, outcome.failed, outcome.skipped) == (1, 1, 1)
    assert outcome.failures == (failed,)
    assert str(outcome) == "ring: 1 passed, 1 failed, 1 skipped in 5 s, 2 s of CPU"


def test_a_run_that_names_no_failed_test_is_a_failure(load: Any, tmp_path: Path) -> None:
    file = tmp_path / "ring.xml"
    file.write_text(JUNIT.format(owner="Runs", failure=""))
    rings = load("scripts/rings.py")
    outcome = rings.read_junit("ring", file, ended=rings.Ended(1, 2.5), seconds=5.0)
    assert (outcome.passed, outcome.failed, outcome.failures) == (2, 1, ())


def test_only_the_failed_files_run_again(load: Any, tmp_path: Path) -> None:
    run = load("tests/editor/run.py")
    (tmp_path / "editor-visual.xml").write_text(JUNIT.format(owner="devices.spec.mjs", failure="<failure/>"))
    (tmp_path / "editor-trusted.xml").write_text(JUNIT.format(owner="Runs", failure="<failure/>"))
    (tmp_path / "editor-untrusted.xml").write_text(JUNIT.format(owner="Runs", failure=""))
    assert run.failed_parts("visual", tmp_path) == ["visual:devices.spec.mjs"]
    assert run.failed_parts("host", tmp_path) == ["host:trusted"]
    assert run.failed_parts("package", tmp_path) == ["package"]
    (tmp_path / "editor-visual.xml").unlink()
    assert run.failed_parts("visual", tmp_path) == ["visual"]  # it ended before a test
    assert run.part("visual:devices.spec.mjs") == ("visual", "devices.spec.mjs")
    with pytest.raises(run.argparse.ArgumentTypeError, match="no kind `visuals`"):
        run.part("visuals")


@pytest.mark.parametrize(
    ("name", "path", "is_selected"),
    [
        ("jobs", "/project/jobs/visual/jobs.spec.mjs", True),
        ("jobs", "/project/jobs/visual/tuning.spec.mjs", False),
        ("bench_page.spec.mjs", "/checkout/visual/bench_page.spec.mjs", True),
        ("bench_page.spec.mjs", r"C:\checkout\visual\bench_page.spec.mjs", True),
        ("page", "/checkout/visual/bench_page.spec.mjs", False),
        ("a.b", "/checkout/visual/axb.spec.mjs", False),
    ],
)
def test_a_visual_test_is_selected_by_the_name_of_its_file(
    load: Any,
    name: str,
    path: str,
    is_selected: bool,  # noqa: FBT001 - a row
) -> None:
    pattern = load("tests/editor/run.py").spec_pattern(name)
    assert bool(re.search(pattern, path)) is is_selected


def test_files_start_in_the_order_of_the_last_run(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = load("scripts/outcomes.py")
    monkeypatch.setattr(outcomes, "ROOT", tmp_path)
    monkeypatch.setattr(outcomes, "ARTIFACTS", tmp_path / "artifacts")
    folder = tmp_path / "tests" / "worker"
    texts = {
        "short": "",
        "medium": "# " * 9,
        "large": "# " * 99,
        "patient": "pytestmark = pytest.mark.timeout(600)",
    }
    folder.mkdir(parents=True)
    files = [folder / f"test_{name}.py" for name in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text)

    def order() -> list[str]:
        return [file.stem.removeprefix("test_") for file in outcomes.longest_first("worker", files)]

    assert order() == ["patient", "large", "medium", "short"]
    results = tmp_path / "artifacts" / "junit" / "worker.xml"
    results.parent.mkdir(parents=True)
    cases = (("medium", 2), ("short", 2), ("short", 1), ("patient", 1), ("deleted", 9))
    texts_of_cases = (
        f'<testcase classname="tests.worker.test_{name}" time="{time}"/>' for name, time in cases
    )
    results.write_text(f"<testsuite>{''.join(texts_of_cases)}</testsuite>")
    assert order() == ["large", "short", "medium", "patient"]  # `large` has not run
    results.write_text("<testsuite>")
    assert order() == ["patient", "large", "medium", "short"]


def test_the_parts_of_a_ring_take_equally_long(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = load("scripts/outcomes.py")
    monkeypatch.setattr(outcomes, "ROOT", tmp_path)
    monkeypatch.setattr(outcomes, "ARTIFACTS", tmp_path / "artifacts")
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    files = []
    for name, size in {"a": 50, "b": 40, "c": 30, "d": 20}.items():
        files.append(folder / f"test_{name}.py")
        files[-1].write_text("#" * size)

    def parts(count: int) -> list[str]:
        names = [[file.stem[-1] for file in part] for part in outcomes.equal_parts("unit", files, count)]
        return ["".join(part) for part in names]

    assert parts(2) == ["ad", "bc"], "nothing has run: by size"
    assert parts(9) == ["a", "b", "c", "d"]
    results = tmp_path / "artifacts" / "junit"
    results.mkdir(parents=True)
    for number, (name, time) in enumerate({"a": 1, "b": 1, "d": 9}.items()):
        case = f'<testcase classname="tests.unit.test_{name}" time="{time}"/>'
        (results / f"unit-{number}.xml").write_text(f"<testsuite>{case}</testsuite>")
    (results / "unit-again.xml").write_text("<testsuite>")
    assert parts(2) == ["d", "abc"], "`c` has not run"


def test_a_ring_of_parts_has_the_results_of_each(load: Any) -> None:
    outcomes = load("scripts/outcomes.py")
    parts = [
        outcomes.Outcome("unit-1", passed=3, cpu_seconds=2.0, slowest=((1.0, "a"),)),
        outcomes.Outcome("unit-2", passed=1, failed=1, cpu_seconds=1.0, failures=(("b", "E"),)),
    ]
    ring = outcomes.joined("unit", parts, 5.0)
    assert (ring.passed, ring.failed, ring.seconds, ring.cpu_seconds) == (4, 1, 5.0, 3.0)
    assert ring.slowest == ((1.0, "a"),)
    assert ring.failures == (("b", "E"),)
    assert outcomes.joined("unit", [], 0.0).failed == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "wait4"), reason="this system does not count it")
def test_the_processor_time_of_a_ring_includes_its_grandchildren(load: Any) -> None:
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    nested = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {spin!r}])\nsys.exit(4)"
    ended = load("scripts/rings.py")._run([sys.executable, "-c", nested], dict(os.environ))
    assert ended.code == 4
    assert ended.cpu_seconds >= 0.3


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="this system lets nobody adopt an orphan")
def test_the_processor_time_of_a_ring_includes_processes_that_outlive_their_starter(load: Any) -> None:
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    starter = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {spin!r}])"
    nested = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {starter!r}])"
    ended = load("scripts/rings.py")._run([sys.executable, "-c", nested], dict(os.environ))
    assert ended.code == 0
    assert ended.cpu_seconds >= 0.3


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="this system does not count it")
def test_a_ring_that_a_signal_ends_has_the_code_that_a_shell_gives(load: Any) -> None:
    killed = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    assert load("scripts/rings.py")._run([sys.executable, "-c", killed], dict(os.environ)).code == 137


@pytest.mark.parametrize(
    ("example", "line"),
    [
        (
            5.0,
            "as much as 24 captures of examples/training_step.py, each of which takes 5.0 s of CPU on this machine\n",
        ),
        (0.0, ""),
    ],
)
def test_the_sum_is_in_captures_of_an_example_too(
    load: Any, capsys: pytest.CaptureFixture[str], example: float, line: str
) -> None:
    test = load("scripts/test.py")
    outcomes = [
        test.Outcome("worker", passed=3, cpu_seconds=90.0),
        test.Outcome("unit", passed=1, cpu_seconds=30.0),
    ]
    assert test.conclude(outcomes, 300.0, example) == 0
    assert f"== summary, 5.0 minutes, 2.0 CPU-minutes\n{line}worker: 3 passed" in capsys.readouterr().out


def test_no_unit_test_imports_torch() -> None:
    """The ring starts before torch is installed, and importing torch takes 5 seconds in each of its processes."""
    assert "torch" not in sys.modules
