"""The reader of TORCH_TRACE logs on recordings of one program, as parts of a Report."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fuselight.shared.report import NotCompiledKind, Outcome
from fuselight_server.jobs.reports.conversion import read_unmapped_report
from fuselight_server.jobs.trace_log.reader import read_jobs

RECORDINGS = sorted(Path(__file__).parents[3].joinpath("recordings").glob("torch-*/trace.log.gz"))
SUBJECT = (Path(__file__).parents[3] / "recordings" / "subject.py").read_text(encoding="utf-8").splitlines()


def line_of(text: str) -> int:
    """The subject's line with this text."""
    (number,) = [number for number, line in enumerate(SUBJECT, 1) if text in line]
    return number


def test_there_are_recordings() -> None:
    assert RECORDINGS


@pytest.mark.parametrize("log", RECORDINGS, ids=lambda log: log.parent.name)
def test_a_recording_is_read_completely(log: Path) -> None:
    (job,) = read_jobs([log])
    (process,) = job.processes
    assert job.notes == ()
    parts = read_unmapped_report(process)
    breaks = {(graph_break.stack[-1].line, graph_break.ids) for graph_break in parts.breaks}
    assert breaks == {
        (line_of('print("broken")'), ("GB0059",)),
        (line_of("if x.sum() > 0"), ("GB0170",)),
        (line_of('print("loop", index)'), ("GB0059", "GB7000")),
    }
    helper = parts.breaks[0]
    assert [place.line for place in helper.stack][-2:] == [
        line_of("helper(self.linear"),
        line_of('print("broken")'),
    ]
    assert helper.hints
    assert "print" in helper.explanation
    skipped = [graph_break for graph_break in parts.breaks if graph_break.frame_skipped]
    assert [graph_break.stack[-1].line for graph_break in skipped] == [line_of('print("loop", index)')]
    limits = [record for record in parts.not_compiled if record.kind is NotCompiledKind.RECOMPILE_LIMIT]
    (limit,) = limits
    assert limit.function == "rescaled"
    assert limit.location.line == line_of("def rescaled")
    (fixed,) = [record for record in parts.compiles if parts.frames[record.frame].function == "fixed"]
    assert fixed.symbols[0].specialized_to == "4"
    assert fixed.symbols[0].source == "x.size(0)"
    assert fixed.symbols[0].stack[-1].line == line_of("if x.size(0) == 4")
    (whole,) = [record for record in parts.compiles if parts.frames[record.frame].function == "whole"]
    assert whole.outcome is Outcome.SKIPPED
    assert whole.graph is None
    first = parts.compiles[0]
    assert first.graph is not None
    assert first.graph.text_key in parts.texts
    assert first.guard_count
    assert first.guard_us
    again = [recompilation for recompilation in parts.recompiles if recompilation.function == "rescaled"]
    assert len(again) == 8
    assert again[-1].compile_id is None
    assert again[0].entries[0].failures[0].difference == "scale is no longer 'a'"


def test_the_breaks_equal_torchs_own_record() -> None:
    for log in RECORDINGS:
        text = gzip.decompress(log.read_bytes()).decode("utf-8")
        (process,) = read_jobs([log])[0].processes
        broke = [item for compiled in process.compiles for item in compiled.breaks]
        assert len(broke) == text.count("\tGraph break in user code at ")
