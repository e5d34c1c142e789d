"""Every annotated case of provenance, through the real thing, for an H100 that is not there.

One worker serves all files, as for `fuselight kernels`. Invariant: what is generated from each line, kept of it, left
to ATen, left out of CUDA graphs and refused to be fused is what the line says, and nothing else.
The files speak of torch 2.13: names of kernels and what is fused are its own.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path

import pytest

from fuselight.devices import find
from fuselight_server.cli.kernels import KernelOptions, generate
from fuselight_server.cli.outcome import Outcome
from tests.support.case_files import copied, selected, torch_release
from tests.support.kernel_cases import KINDS, disagreements, expectations, facts, rewritten

CASES = Path(__file__).parents[1] / "cases" / "kernels"
FILES = sorted(path.name for path in CASES.glob("*.py"))
WRITTEN_FOR = "2.13"


pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        torch_release() != WRITTEN_FOR, reason=f"the cases are written for torch {WRITTEN_FOR}"
    ),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton"),
]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(CASES, FILES, tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="module")
def outcome(request: pytest.FixtureRequest, workspace: Path) -> Outcome:
    """What was generated of the files of the tests that were selected; of all for a test that counts."""
    paths = selected(request, workspace, FILES)
    options = KernelOptions(paths=paths, device=find("h100"), python=sys.executable)
    return asyncio.run(generate(options, lambda _text: None))


@pytest.mark.parametrize("name", FILES)
def test_a_case_and_what_is_generated_of_it_agree(
    name: str, outcome: Outcome, workspace: Path, pytestconfig: pytest.Config
) -> None:
    path = workspace / name
    text = path.read_text(encoding="utf-8")
    reports = [report for report in outcome.reports if report.target.path == str(path)]
    found = facts(reports, str(path), text)
    if pytestconfig.getoption("--update-cases"):
        (CASES / name).write_text(rewritten(text, found), encoding="utf-8")
        return
    said = disagreements(text, found)
    assert not said, "\n" + "\n".join(said)


def test_everything_was_generated(outcome: Outcome) -> None:
    assert outcome.problems == []
    assert [report.target.name for report in outcome.reports if report.failures or report.problems] == []
    failed = [graph.failure for report in outcome.reports for graph in report.generated]
    assert failed == [None] * len(failed)


def test_there_are_enough_cases_of_each_kind() -> None:
    expected = [one for name in FILES for one in expectations((CASES / name).read_text(encoding="utf-8"))]
    assert len(FILES) >= 12
    assert {kind: sum(one.kind == kind for one in expected) >= 2 for kind in KINDS} == dict.fromkeys(
        KINDS, True
    )
