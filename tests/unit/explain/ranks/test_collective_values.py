"""FL917: branches that depend on the value of a collective, from the lines that ranks ran and the source."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from fuselight.shared.report import Collective, EqualRanks, Location, World
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from tests.support.reports import report

SOURCE = """\
def average(x):
    dist.all_reduce(x)
    return x / dist.get_world_size()

class Trainer:
    def run(self, loss):
        mean = average(loss)
        if mean < self.best:  # on
            self.best = mean
        if self.best > 0:  # on
            pass
        if loss.shape[0] > 3:
            pass
        return self.best

def main():
    best = Trainer().run(torch.ones(3))
    assert best > 0  # on
    if dist.get_rank() == 0:
        pass
"""
STACK = ((17, "main"), (7, "Trainer.run"), (2, "average"))


def branches_in(
    tmp_path: Path, text: str, stack: tuple[tuple[int, str], ...], **options: object
) -> tuple[list[Finding], list[int]]:
    """The findings of a world of two ranks that call one collective, and the marked lines."""
    path = tmp_path / "train.py"
    lines = textwrap.dedent(text).splitlines()
    frames = tuple(Location(str(path), line, function=function) for line, function in stack)
    kind = str(options.pop("kind", "all_reduce"))
    call = Collective(kind, (0, 1), "float32", ((3,),), 12, frames, **options)  # type: ignore[arg-type]
    world = World(2, (), (EqualRanks((0,)), EqualRanks((1,), collectives=(call, call))), {"0": 1.0, "1": 1.0})

    def read_line(_path: str, line: int) -> str | None:
        return lines[line - 1] if line <= len(lines) else None

    every = findings(report(roots=(str(tmp_path),), world=world), read_line=read_line)
    marked = [number for number, line in enumerate(lines, 1) if "# on" in line]
    return [finding for finding in every if finding.code == "FL917"], marked


def test_the_value_is_followed_through_the_callers(tmp_path: Path) -> None:
    result, marked = branches_in(tmp_path, SOURCE, STACK)
    assert [finding.span.line for finding in result] == marked != []
    first = result[0]
    assert first.title == "this branch depends on the value of the all_reduce on line 2, which is not known"
    assert first.severity.name == "INFORMATION"
    assert "a job may take the other side of the branch" in first.message
    assert [related.span.line for related in first.related] == [2]


@pytest.mark.parametrize(
    "options", [{"source": "fsdp"}, {"is_backward": True}, {"kind": "barrier"}, {"kind": "send"}]
)
def test_collectives_without_a_value_for_the_program_decide_nothing(
    tmp_path: Path, options: dict[str, object]
) -> None:
    source = "def f(x):\n    y = model(x)\n    if y:\n        pass\n"
    assert len(branches_in(tmp_path, source, ((2, "f"),))[0]) == 1
    assert branches_in(tmp_path, source, ((2, "f"),), **options)[0] == []


def test_a_caller_that_does_not_get_the_value_ends_the_way(tmp_path: Path) -> None:
    source = """\
    def log(x):
        y = x.clone()
        dist.all_reduce(y)
        print(y)

    def main(x):
        done = log(x)
        if x > 0 or done:
            pass
    """
    assert branches_in(tmp_path, source, ((7, "main"), (3, "log")))[0] == []


def test_a_file_that_cannot_be_parsed_has_no_findings(tmp_path: Path) -> None:
    assert branches_in(tmp_path, "def f(x:\n    dist.all_reduce(x)\n", ((2, "f"),))[0] == []
