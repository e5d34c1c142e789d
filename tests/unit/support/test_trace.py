"""The reader of TORCH_TRACE logs: recordings of real runs, and bytes of any kind."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuselight.shared.report import NotCompiledKind, Outcome
from tests.support.torch_trace import Stats, open_log, read_events, read_log, read_parts
from tests.support.torch_trace.events import GraphBroke

RECORDINGS = sorted(Path(__file__).parents[2].joinpath("recordings").glob("torch-*/trace.log.gz"))
SUBJECT = (Path(__file__).parents[2] / "recordings" / "subject.py").read_text(encoding="utf-8").splitlines()


def line_of(text: str) -> int:
    """The subject's line with this text."""
    (found,) = [number for number, line in enumerate(SUBJECT, 1) if text in line]
    return found


def test_there_are_recordings() -> None:
    assert RECORDINGS


@pytest.mark.parametrize("log", RECORDINGS, ids=lambda log: log.parent.name)
def test_a_recording_is_read_completely(log: Path) -> None:
    parts, stats = read_log(log)
    assert stats.skipped == 0, stats.skips
    breaks = {(found.stack[-1].line, found.ids) for found in parts.breaks}
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
    skipped = [found for found in parts.breaks if found.frame_skipped]
    assert [found.stack[-1].line for found in skipped] == [line_of('print("loop", index)')]
    (limit,) = parts.not_compiled
    assert (limit.kind, limit.function) == (NotCompiledKind.RECOMPILE_LIMIT, "rescaled")
    assert limit.location.line == line_of("def rescaled")
    (fixed,) = [one for one in parts.compiles if parts.frames[one.frame].function == "fixed"]
    assert fixed.symbols[0].specialized_to == "4"
    assert fixed.symbols[0].source == "x.size(0)"
    assert fixed.symbols[0].stack[-1].line == line_of("if x.size(0) == 4")
    (whole,) = [one for one in parts.compiles if parts.frames[one.frame].function == "whole"]
    assert whole.outcome is Outcome.SKIPPED
    assert whole.graph is None
    first = parts.compiles[0]
    assert first.graph is not None
    assert first.graph.text_key in parts.texts
    assert first.guard_count
    assert first.guard_us
    again = [one for one in parts.recompiles if one.function == "rescaled"]
    assert len(again) == 8
    assert again[-1].compile_id is None
    assert again[0].entries[0].failures[0].difference == "scale == 'a'"


def test_the_breaks_equal_torchs_own_record() -> None:
    for log in RECORDINGS:
        text = gzip.decompress(log.read_bytes()).decode("utf-8")
        stats = Stats()
        broke = [event for event in read_events(open_log(log), stats) if isinstance(event.fact, GraphBroke)]
        assert len(broke) == text.count("\tGraph break in user code at ")


def test_only_the_bad_record_is_lost_and_its_line_is_reported() -> None:
    lines = [
        b'V1 a.py:1] {"str": ["/x.py", 1]}\n',
        b"V1 a.py:1] {this is not json\n",
        b'V1 a.py:1] {"dynamo_start": {"stack": 7}, "frame_id": 0, "frame_compile_id": 0}\n',
        b'V1 a.py:1] {"never_seen": {}, "frame_id": 0}\n',
        b"\ta payload\n",
        b'V1 a.py:1] {"dynamo_start": {"stack": [{"line": 3, "name": "f", "filename": 1}]}, "frame_id": 0}\n',
    ]
    stats = Stats()
    events = list(read_events(lines, stats))
    assert [line for line, _ in stats.skips] == [2, 3]
    assert stats.unread == {"never_seen": 1}
    assert events[-1].compile_id is None  # half of an id is none
    parts = read_parts(events)
    assert parts.frames[0].location.path == "/x.py"


def test_a_payload_before_any_record_is_counted() -> None:
    stats = Stats()
    assert list(read_events([b"\tlost\n", b"\n"], stats)) == []
    assert stats.skips == [(1, "a payload without a record")]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=30))
def test_any_bytes_are_read_to_the_end(lines: list[bytes]) -> None:
    read_parts(read_events(lines, Stats()))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KINDS = st.sampled_from(
    ["dynamo_start", "artifact", "compilation_metrics", "create_symbol", "symbolic_shape_specialization", "str",
     "dynamo_output_graph", "dynamo_cpp_guards_str"]
)  # fmt: skip
NAMES = st.sampled_from(["dynamo_graph_break_reason", "recompile_reasons", "dynamo_error"])


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(KINDS, JSON, NAMES, st.text(max_size=80), st.integers(-1, 3)), max_size=12))
def test_known_kinds_with_any_values_are_read_to_the_end(
    records: list[tuple[str, object, str, str, int]],
) -> None:
    lines: list[bytes] = []
    for kind, value, name, payload, frame in records:
        body = {
            kind: {"name": name} if kind == "artifact" else value,
            "frame_id": frame,
            "frame_compile_id": 0,
        }
        lines.append(f"V1 a.py:1] {json.dumps(body)}\n".encode())
        lines += [b"\t" + line.encode("utf-8", "surrogatepass") + b"\n" for line in payload.splitlines()]
    stats = Stats()
    read_parts(read_events(lines, stats))
    assert stats.records == len(records)


@settings(deadline=None)
@given(st.integers(0, 200_000), st.binary(max_size=8))
def test_a_damaged_recording_is_read_to_the_end(at: int, noise: bytes) -> None:
    data = gzip.decompress(RECORDINGS[0].read_bytes())
    at %= len(data)
    damaged = data[max(0, at - 20_000) : at] + noise + data[at : at + 20_000]
    read_parts(read_events(damaged.splitlines(keepends=True), Stats()))
