"""Every family puts its findings into the workspace, whatever stacks the report contains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.shared.report import (
    Compile,
    Culprit,
    Failure,
    Frame,
    GuardFailure,
    GuardPlace,
    Location,
    Mismatch,
    NotCompiled,
    NotCompiledKind,
    Note,
    Outcome,
    Recompile,
    Report,
    Symbol,
)
from fuselight_server.explain.findings import findings
from tests.support.reports import FILE, LIBRARY, ROOT, broken, report

PATHS = (FILE, f"{ROOT}/other.py", f"{ROOT}/.venv/lib/python3.11/site-packages/lib/a.py", LIBRARY, "<string>")
LOCATIONS = st.builds(
    Location,
    path=st.sampled_from(PATHS),
    line=st.integers(1, 40),
    column=st.sampled_from((None, 4)),
    end_line=st.none() | st.integers(1, 40),
    end_column=st.none() | st.integers(0, 9),
)
STACKS = st.lists(LOCATIONS, max_size=3).map(tuple)
FRAMES = st.builds(
    Frame, function=st.just("f"), location=LOCATIONS, resumes_at=st.sampled_from((None, 7, 12))
)
DIFFERENCES = st.sampled_from(("x.size(0) was 4, now 7", "___stack0 was 1.5, now 2.5", "n was 1, now 2", ""))
GUARD_FAILURES = st.builds(
    GuardFailure,
    kind=st.just("TENSOR_MATCH"),
    source=st.just("x"),
    code=st.just("x"),
    difference=DIFFERENCES,
    born=STACKS,
)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    frames = (draw(FRAMES), draw(FRAMES))
    failing = draw(st.lists(GUARD_FAILURES, max_size=2).map(tuple))
    number, compile_id = draw(st.integers(0, 1)), draw(st.sampled_from((None, "0/1")))
    return report(
        frames=frames,
        compiles=(
            Compile("0/0", number, Outcome.COMPILED, guard_count=9000, guard_places=(GuardPlace(draw(STACKS), 3),)),
            Compile(
                "0/1", number, Outcome.COMPILED, caller=draw(STACKS),
                symbols=(Symbol("s0", "x.size(0)", specialized_to="4", stack=draw(STACKS)),),
            ),
        ),
        breaks=(broken(*draw(STACKS), above=draw(STACKS)),),
        recompiles=(
            Recompile("f", draw(LOCATIONS), (Mismatch("0/0", failing),), compile_id, caller=draw(STACKS)),
        ),
        not_compiled=tuple(
            NotCompiled(kind, "f", draw(LOCATIONS), "why", stack=draw(STACKS), caller=draw(STACKS))
            for kind in draw(st.lists(st.sampled_from(NotCompiledKind), max_size=2))
        ),
        failures=(Failure(Culprit.USER, "exception", "no", stack=draw(STACKS)),),
        notes=(Note("fake_tensors", "on fake tensors", draw(LOCATIONS)),),
    )  # fmt: skip


@pytest.mark.slow
@given(reports())
def test_no_finding_is_in_a_library(facts: Report) -> None:
    actual_findings = findings(facts)
    assert {"FL201", "FL102"} & {
        actual_finding.code for actual_finding in actual_findings
    } or facts.recompiles[0].compile_id is None
    for finding in actual_findings:
        assert finding.span.path.startswith(f"{ROOT}/")
        assert "site-packages" not in finding.span.path


@pytest.mark.slow
@given(reports())
def test_no_range_ends_before_it_starts(facts: Report) -> None:
    for finding in findings(facts):
        for span in (finding.span, *(related.span for related in finding.related)):
            if span.end_line is None and span.end_column is None:
                continue
            assert (span.end_line or span.line, span.end_column or 0) > (span.line, span.column or 0)
