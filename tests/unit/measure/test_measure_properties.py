"""Properties of every profile: nothing is counted twice, the parts add up to the total, and no work is dropped.

The streams are generated: host events that nest, on two threads, with device work that starts whenever it likes.
"""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuselight.measure.profile.calls import read_calls
from fuselight.measure.profile.idle_time import split
from fuselight.measure.profile.intervals import Stretch, flatten, length, merged, trees, union, without
from fuselight.measure.profile.join import read_profile
from fuselight.measure.profile.recording import EventKind, Recording
from fuselight.shared.codec import decode, encode
from fuselight.shared.report import LaunchKind
from tests.support.profiles import ENGINE, MAIN, Stream, broken, generated, graph_call, line, region

GRAPHS = [
    generated("0/0 graph 0", "triton_a", "extern_kernels.mm", "triton_b"),
    generated("1/0 graph 1", "extern_kernels.addmm", "extern_kernels.mm", "cpp_fused_0"),
]
RECORDS = (
    "aten::mm", "aten::item", "aten::view", "triton_a", "triton_b", "graph_0_cpp_fused_0", "TorchDynamo Cache Lookup",
    region("0/0"), region("1/0"), graph_call("0/0 graph 0"), graph_call("1/0 graph 1"), graph_call("unknown"),
    "CompiledFunction", "autograd::engine::evaluate_function: MmBackward0", "a name of the user's",
)  # fmt: skip
RUNTIME = ("cudaLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaStreamSynchronize")
WORK = ("triton_a", "triton_b", "sgemm", "splitKreduce", "Memset (Device)", "Memcpy DtoH (Device -> Pinned)")
LENGTH = 200


@st.composite
def _streams(draw: st.DrawFn) -> Stream:
    """One to three calls."""
    stream = Stream()
    for call in range(draw(st.integers(1, 3))):
        start = call * 1000
        stream.call(start, start + LENGTH)
        _fill(draw, stream, (start, start + LENGTH), MAIN, 0)
        if draw(st.booleans()):
            _fill(draw, stream, (start + 20, start + LENGTH - 20), ENGINE, 0)
        for _ in range(draw(st.integers(0, 2))):
            stream.device(*_work(draw, start))
    return stream


def _fill(draw: st.DrawFn, stream: Stream, span: tuple[int, int], thread: int, depth: int) -> None:
    cuts = sorted(draw(st.lists(st.integers(*span), max_size=6, unique=True)))
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        if draw(st.booleans()):
            name = draw(st.sampled_from(RUNTIME))
            begun = start // 1000 * 1000
            stream.launch(start, *_work(draw, begun), name=name, thread=thread, took=end - start)
        else:
            kind = draw(st.sampled_from((EventKind.OPERATOR, EventKind.ANNOTATION)))
            sequence = draw(st.none() | st.integers(1, 4))
            stream.host(
                draw(st.sampled_from(RECORDS)), start, end, kind=kind, thread=thread, sequence=sequence
            )
            if depth < 3:
                _fill(draw, stream, (start, end), thread, depth + 1)


def _work(draw: st.DrawFn, begun: int) -> list[tuple[str, int, int]]:
    starts = draw(st.lists(st.integers(begun, begun + 300), max_size=3))
    return [(draw(st.sampled_from(WORK)), start, start + draw(st.integers(0, 60))) for start in starts]


@settings(max_examples=40, deadline=None)
@given(_streams(), st.booleans())
def test_kernels_and_gaps_are_the_window_each_moment_once(stream: Stream, on_device: bool) -> None:  # noqa: FBT001
    recording = stream.recording(on_device=on_device)
    for call in read_calls(recording, {}):
        parts = split(call, {}, {"0/0": line(3)}, on_device=on_device)
        window = call.window.end_ns - call.window.start_ns
        assert parts.busy_ns + sum(gap.end - gap.start for gap in parts.gaps) == window
        spans = [(gap.start, gap.end) for gap in parts.gaps]
        assert all(start < end for start, end in spans)
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(_streams(), st.booleans(), st.booleans())
def test_a_profile_adds_up_and_drops_nothing(stream: Stream, on_device: bool, known: bool) -> None:  # noqa: FBT001
    recording = stream.recording(on_device=on_device)
    profile = read_profile(recording, GRAPHS if known else [], breaks=[broken("0/0", 3), broken("1/0", 4)])
    assert profile.kernel_us + sum(gap.us for gap in profile.gaps) == pytest.approx(profile.wall_us)
    assert profile.joined_us <= profile.device_us + 1e-6
    if on_device:
        work = [event for event in recording.events if event.on_device]
        assert sum(row.count for row in profile.launches) * profile.calls == pytest.approx(len(work))
        if profile.calls == 1:
            assert sum(row.us for row in profile.launches) == pytest.approx(
                sum(event.ns for event in work) / 1000
            )
            assert profile.kernel_us <= profile.device_us + 1e-6
    keys = [
        (row.graph, row.launch)
        for row in profile.launches
        if row.graph is not None and row.launch is not None
    ]
    assert len(keys) == len(set(keys))
    for graph, launch in keys:
        assert known
        assert GRAPHS[graph].kernels[launch].launch == launch
    assert all(row.launch is None for row in profile.launches if row.graph is None)
    assert not any(row.stack for row in profile.launches if row.kind is LaunchKind.KERNEL)


@settings(max_examples=30, deadline=None)
@given(_streams())
def test_a_recording_round_trips(stream: Stream) -> None:
    recording = stream.recording()
    assert decode(Recording, json.loads(json.dumps(encode(recording)))) == recording


@settings(max_examples=30, deadline=None)
@given(_streams())
def test_host_time_covers_the_entire_window(stream: Stream) -> None:
    events = [event for event in stream.recording().events if event.thread == MAIN and not event.on_device]
    span = (0, LENGTH * 1000)
    flat = flatten(trees(events), lambda node, _: node.event.name, "", span)
    assert [stretch.start for stretch in flat] == [0, *(stretch.end for stretch in flat[:-1])]
    assert flat[-1].end == span[1]
    joined = merged(flat)
    assert sum(stretch.end - stretch.start for stretch in joined) == span[1]
    assert all(a.what != b.what for a, b in itertools.pairwise(joined))


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (min(pair), max(pair))))


@given(SPANS, st.integers(0, 60), st.integers(0, 60))
def test_a_union_and_its_complement_are_disjoint_and_complete(
    spans: list[tuple[int, int]], number: int, other: int
) -> None:
    within = (min(number, other), max(number, other))
    covered = union(spans)
    left = without(within, covered)
    moments = {at for start, end in spans for at in range(start, end)}
    assert length(covered) == len(moments)
    assert {at for start, end in left for at in range(start, end)} == set(range(*within)) - moments
    assert length(left) == len(set(range(*within)) - moments)


def test_stretches_that_touch_and_are_the_same_are_one() -> None:
    assert merged([Stretch(0, 1, "a"), Stretch(1, 3, "a"), Stretch(4, 5, "a")]) == [
        Stretch(0, 3, "a"),
        Stretch(4, 5, "a"),
    ]
