"""Every annotated case of provenance end to end, for an absent H100.

The worker of the ring serves all files, as that of `fuselight kernels` does. Invariant: what is generated from each
line, kept of it, left to ATen, left out of CUDA graphs and refused to be fused is what the line says, and nothing else.
The files say per release of torch what comes: names of kernels and what is fused are its own.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from fuselight.shared.devices import find
from fuselight.shared.report import Report
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.kernels import generate
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from tests.support.case_files import RELEASES, copied, marked, selected, torch_release
from tests.support.kernel_cases import KINDS, disagreements, expectations, facts, rewritten
from tests.support.live_worker import LiveWorker

CASES = Path(__file__).parents[2] / "cases" / "kernels"
FILES = sorted(path.name for path in CASES.glob("*.py"))
FURTHER = {
    "constants.py",
    "dropout.py",
    "embedding.py",
    "layer_norm.py",
    "layers.py",
    "loss.py",
    "reductions.py",
    "scans.py",
}
"""Of these, the files whose kinds of facts others have, too."""
OWN_TRITON = "own_triton.py"
"""A program that imports Triton itself."""


pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        torch_release() not in RELEASES, reason=f"the cases are written for torch {', '.join(RELEASES)}"
    ),
]
HAS_TRITON = importlib.util.find_spec("triton") is not None
WITHOUT_TRITON = ("copies.py", "layer_norm.py", "scans.py", "templates.py", "training.py")
"""Files that are generated with Triton hidden as well. `make test` takes the templates, and one of the others."""
of_each_without_triton = pytest.mark.parametrize("name", marked(WITHOUT_TRITON, WITHOUT_TRITON[:3]))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(CASES, FILES, tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="module")
def outcome(request: pytest.FixtureRequest, workspace: Path, live: LiveWorker) -> CheckOutcome:
    """What was generated of the files of the tests that were selected."""
    paths = selected(request, workspace, FILES)
    options = CommandOptions(paths, python=sys.executable)
    return live.do_command(generate(options, lambda _text: None, CancelToken(), device=find("h100")))


@pytest.mark.parametrize("name", marked(FILES, FURTHER))
def test_a_case_and_its_generated_kernels_agree(
    name: str, outcome: CheckOutcome, workspace: Path, pytestconfig: pytest.Config
) -> None:
    if name == OWN_TRITON and not HAS_TRITON:
        pytest.skip("this environment has no Triton")
    path = workspace / name
    text = path.read_text(encoding="utf-8")
    counts = facts(_reports(outcome, path), str(path), text)
    if pytestconfig.getoption("--update-cases"):
        (CASES / name).write_text(rewritten(text, counts, torch_release()), encoding="utf-8")
        return
    messages = disagreements(text, counts, torch_release())
    assert not messages, "\n" + "\n".join(messages)


@pytest.mark.skipif(not HAS_TRITON, reason="this environment has no Triton")
@pytest.mark.parametrize("name", [OWN_TRITON])
def test_a_kernel_of_the_program_moves_what_it_reads_and_writes(name: str, outcome: CheckOutcome) -> None:
    """It gets a tensor that it only writes; the next kernel reads what it left in that tensor, or nobody does."""
    size = 4 * 1024
    for function, expected in (
        (
            "launched",
            [("double", size, size), ("double_in_place", size, size), ("triton_poi_fused_cos", size, size)],
        ),
        ("half_used", [("split", size, 2 * size), ("triton_poi_fused_cos", size, size)]),
    ):
        (report,) = [report for report in outcome.reports if report.target.name == function]
        assert report.target.path.endswith(name)
        assert [
            (kernel.name.rpartition("_")[0], kernel.bytes_read, kernel.bytes_written)
            for graph in report.generated
            for kernel in graph.kernels
        ] == expected


def test_everything_was_generated(outcome: CheckOutcome) -> None:
    assert outcome.problems == []
    assert [report.target.name for report in outcome.reports if report.failures] == []
    unknown = {
        (report.target.name, problem.what) for report in outcome.reports for problem in report.problems
    }
    # Only a GPU can time candidates: what max-autotune would choose is listed as unknown.
    tuned = ("coordinate_descent_tuning", "max_autotune")
    assert unknown == {("multiply", f"{name} times kernels against each other") for name in tuned}
    failed = [graph.failure for report in outcome.reports for graph in report.generated]
    assert failed == [None] * len(failed)


def test_there_are_enough_cases_of_each_kind() -> None:
    expected = [
        expectation
        for name in FILES
        for expectation in expectations((CASES / name).read_text(encoding="utf-8"))
    ]
    assert len(FILES) >= 12
    assert {kind: sum(fact.kind == kind for fact in expected) >= 2 for kind in KINDS} == dict.fromkeys(
        KINDS, True
    )


@pytest.fixture(scope="module")
def hidden(request: pytest.FixtureRequest, workspace: Path) -> CheckOutcome:
    """What is generated of these files where `import triton` fails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "support" / "without_triton"))
        options = CommandOptions(selected(request, workspace, WITHOUT_TRITON), python=sys.executable)
        return asyncio.run(generate(options, lambda _text: None, CancelToken(), device=find("h100")))


@of_each_without_triton
def test_without_triton_the_same_kernels_come_from_the_same_lines(
    name: str, hidden: CheckOutcome, workspace: Path
) -> None:
    path = workspace / name
    text = path.read_text(encoding="utf-8")
    messages = disagreements(text, facts(_reports(hidden, path), str(path), text), torch_release())
    assert not messages, "\n" + "\n".join(messages)


@pytest.mark.skipif(not HAS_TRITON, reason="this environment has no Triton to compare with")
@of_each_without_triton
def test_without_triton_kernels_have_the_same_text(
    name: str, outcome: CheckOutcome, hidden: CheckOutcome, workspace: Path
) -> None:
    ours, theirs = (
        {report.target.name: _texts(report) for report in _reports(each, workspace / name)}
        for each in (hidden, outcome)
    )
    assert ours
    assert all(ours.values())
    assert ours == theirs


@of_each_without_triton
def test_without_triton_nothing_fails(name: str, hidden: CheckOutcome, workspace: Path) -> None:
    assert hidden.problems == []
    reports = _reports(hidden, workspace / name)
    assert [report.failures for report in reports if report.failures] == []
    failed = [graph.failure for report in reports for graph in report.generated]
    assert failed == [None] * len(failed)


def _reports(outcome: CheckOutcome, path: Path) -> list[Report]:
    return [report for report in outcome.reports if report.target.path == str(path)]


def _texts(report: Report) -> list[str]:
    texts = [
        report.texts[kernel.text_key]
        for graph in report.generated
        for kernel in graph.kernels
        if kernel.text_key in report.texts
    ]
    return [re.sub(r"'backend_hash': '[^']*'", "", text) for text in texts]
