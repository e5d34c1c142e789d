"""Profiles joined to launches and lines. All streams here are hand-made, none was recorded."""

from __future__ import annotations

import pytest

from fuselight.measure.profile.join import read_profile
from fuselight.measure.profile.recording import EventKind, PlacedOperator
from fuselight.shared.report import (
    Break,
    GapKind,
    LaunchKind,
    MeasuredLaunch,
    NotCompiled,
    NotCompiledKind,
    Phase,
    Profile,
)
from tests.support.profiles import ENGINE, Stream, broken, generated, graph_call, line, region


def _keys(profile: Profile) -> list[tuple[str, int | None, int | None, float]]:
    return [(row.name, row.graph, row.launch, row.us) for row in profile.launches]


def _row(profile: Profile, operator: str) -> MeasuredLaunch:
    (row,) = [row for row in profile.launches if row.operator == operator]
    return row


def _adds_up(profile: Profile) -> None:
    assert profile.kernel_us + sum(gap.us for gap in profile.gaps) == pytest.approx(profile.wall_us)


def test_kernels_of_a_compiled_call_are_joined_by_their_launches() -> None:
    stream = Stream()
    stream.call(0, 60)
    stream.host(region("0/0"), 2, 58)
    stream.host(graph_call("0/0 graph 0"), 5, 55)
    stream.host("aten::addmm", 10, 25)
    stream.launch(12, ("Memset (Device)", 20, 21))
    stream.launch(15, ("ampere_sgemm", 22, 40))
    stream.launch(19, ("cublasLt::splitKreduce_kernel", 41, 43))
    stream.host("triton_poi_fused_relu_0", 30, 34)
    stream.launch(31, ("triton_poi_fused_relu_0", 45, 50), name="cuLaunchKernel")
    stream.host("aten::copy_", 40, 50)
    stream.launch(42, ("Memcpy DtoD (Device -> Device)", 52, 54), name="cudaMemcpyAsync")
    profile = read_profile(
        stream.recording(), [generated("0/0 graph 0", "extern_kernels.addmm", "triton_poi_fused_relu_0")]
    )
    assert _keys(profile) == [
        ("ampere_sgemm", 0, 0, 21.0),
        ("triton_poi_fused_relu_0", 0, 1, 5.0),
        ("Memcpy DtoD (Device -> Device)", None, None, 2.0),
    ]
    assert [row.count for row in profile.launches] == [3, 1, 1]
    assert [row.kind for row in profile.launches] == [LaunchKind.KERNEL, LaunchKind.KERNEL, LaunchKind.COPY]
    assert profile.launches[0].operator == "aten::addmm"
    assert (profile.device_us, profile.joined_us) == (28.0, 26.0)
    _adds_up(profile)


def test_a_replay_is_aligned_by_order_and_names() -> None:
    stream = Stream()
    for start in (0, 1000):
        stream.call(start, start + 30)
        stream.host(graph_call("k"), start + 5, start + 25)
        stream.host("aten::copy_", start + 6, start + 9)
        stream.launch(
            start + 7, ("Memcpy DtoD (Device -> Device)", start + 8, start + 9), name="cudaMemcpyAsync"
        )
        stream.launch(
            start + 10,
            ("sm90_xmma_gemm", start + 20, start + 30),
            ("splitKreduce_kernel", start + 30, start + 31),
            ("triton_poi_fused_0", start + 32, start + 36),
            ("nvjet_first", start + 37, start + 47),
            ("nvjet_second", start + 47, start + 67),
            ("triton_poi_fused_0", start + 68, start + 71),
            name="cudaGraphLaunch",
        )
    names = (
        "extern_kernels.addmm",
        "triton_poi_fused_0",
        "extern_kernels.mm",
        "extern_kernels.mm",
        "triton_poi_fused_0",
    )
    profile = read_profile(stream.recording(), [generated("k", *names)])
    joined = [(row.name, row.launch, row.us, row.count) for row in profile.launches if row.graph == 0]
    assert joined == [
        ("Memcpy DtoD (Device -> Device)", None, 1.0, 1),
        ("sm90_xmma_gemm", 0, 11.0, 2),
        ("triton_poi_fused_0", 1, 4.0, 1),
        ("nvjet_first", 2, 10.0, 1),
        ("nvjet_second", 3, 20.0, 1),
        ("triton_poi_fused_0", 4, 3.0, 1),
    ]
    assert profile.calls == 2
    _adds_up(profile)


def test_indistinguishable_kernels_of_a_replay_are_not_joined() -> None:
    stream = Stream()
    stream.call(0, 30)
    stream.host(graph_call("k"), 5, 25)
    stream.launch(
        10, ("one", 20, 30), ("two", 30, 40), ("three", 40, 50), ("triton_a", 50, 60), name="cudaGraphLaunch"
    )
    graph = generated("k", "extern_kernels.mm", "extern_kernels.mm", "triton_a")
    profile = read_profile(stream.recording(), [graph])
    assert _keys(profile) == [
        ("triton_a", 0, 2, 10.0),
        ("one", None, None, 10.0),
        ("three", None, None, 10.0),
        ("two", None, None, 10.0),
    ]
    assert (profile.device_us, profile.joined_us) == (40.0, 10.0)


def test_overlapping_streams_count_once_in_kernel_time_and_each_in_device_time() -> None:
    stream = Stream()
    stream.call(0, 40)
    stream.host(graph_call("k"), 0, 40)
    stream.host("triton_a", 2, 6)
    stream.launch(3, ("triton_a", 10, 30), stream=7)
    stream.host("triton_b", 7, 11)
    stream.launch(8, ("triton_b", 20, 50), stream=8)
    profile = read_profile(stream.recording(), [generated("k", "triton_a", "triton_b")])
    assert (profile.kernel_us, profile.device_us, profile.wall_us) == (40.0, 50.0, 50.0)
    assert profile.joined_us == 50.0
    _adds_up(profile)


def test_a_backward_in_the_engines_thread_is_joined_and_its_time_is_the_wrappers() -> None:
    stream = Stream()
    stream.call(0, 100)
    stream.host(region("0/0"), 0, 20)
    stream.host("CompiledFunction", 2, 18, sequence=9)
    stream.host(graph_call("f"), 4, 16)
    stream.host("triton_f", 6, 10)
    stream.launch(7, ("triton_f", 12, 15))
    stream.host(
        "autograd::engine::evaluate_function: CompiledFunctionBackward", 40, 90, thread=ENGINE, sequence=9
    )
    stream.host(graph_call("b"), 50, 80, thread=ENGINE)
    stream.host("triton_b", 60, 64, thread=ENGINE)
    stream.launch(62, ("triton_b", 65, 85), thread=ENGINE)
    graphs = [
        generated("f", "triton_f", phase=Phase.FORWARD),
        generated("b", "triton_b", phase=Phase.BACKWARD),
    ]
    profile = read_profile(stream.recording(), graphs)
    assert _keys(profile) == [("triton_f", 0, 0, 3.0), ("triton_b", 1, 0, 20.0)]
    # The wrapper: 0 to 7 and 15 to 20 of the forward, 40 to 62 and 85 to 90 of the engine's thread.
    entries = {gap.kind: gap.us for gap in profile.gaps}
    assert entries == {GapKind.WRAPPER: 39.0, GapKind.LAUNCH: 8.0, GapKind.HOST: 30.0}
    _adds_up(profile)


def test_a_launch_of_an_unknown_graph_stays_in_the_list() -> None:
    stream = Stream()
    stream.call(0, 20)
    stream.host(graph_call("unknown"), 0, 20)
    stream.host("triton_a", 2, 6)
    stream.launch(3, ("triton_a", 5, 15))
    stream.device(("stray", 16, 18))
    profile = read_profile(stream.recording(), [generated("k", "triton_a")])
    assert _keys(profile) == [("triton_a", None, None, 10.0), ("stray", None, None, 2.0)]
    assert (profile.device_us, profile.joined_us) == (12.0, 0.0)


def test_a_graph_called_twice_has_its_launches_in_one_row() -> None:
    stream = Stream()
    stream.call(0, 40)
    for start in (0, 20):
        stream.host(graph_call("k"), start, start + 15)
        stream.host("graph_3_cpp_fused_0", start + 2, start + 10)
    profile = read_profile(stream.recording(on_device=False), [generated("k", "cpp_fused_0")])
    assert _keys(profile) == [("graph_3_cpp_fused_0", 0, 0, 16.0)]
    assert profile.launches[0].count == 2


def _with_break() -> Stream:
    """`0/0` ends at a break; `1/0` resumes after it, called from within the region."""
    stream = Stream()
    stream.call(0, 100)
    stream.host("TorchDynamo Cache Lookup", 1, 4)
    stream.host(region("0/0"), 5, 95)
    stream.host(graph_call("0/0 graph 0"), 10, 30)
    stream.host("graph_0_cpp_fused_0", 12, 28)
    stream.host("aten::nonzero", 35, 45)
    stream.host("TorchDynamo Cache Lookup", 50, 53)
    stream.host(region("1/0"), 55, 92)
    stream.host(graph_call("1/0 graph 1"), 60, 90)
    stream.host("graph_1_cpp_fused_0", 62, 88)
    return stream


GRAPHS = [generated("0/0 graph 0", "cpp_fused_0"), generated("1/0 graph 1", "cpp_fused_0")]


def test_eager_work_after_a_region_belongs_to_the_breaks_line() -> None:
    recording = _with_break().recording(on_device=False)
    profile = read_profile(recording, GRAPHS, breaks=[broken("0/0", 12)])
    assert _keys(profile) == [
        ("graph_0_cpp_fused_0", 0, 0, 16.0),
        ("graph_1_cpp_fused_0", 1, 0, 26.0),
        ("aten::nonzero", None, None, 10.0),
    ]
    eager = _row(profile, "aten::nonzero")
    assert (eager.kind, eager.stack) == (LaunchKind.EAGER, line(12))
    assert profile.joined_us == profile.device_us
    entries = {(gap.kind, gap.stack): gap.us for gap in profile.gaps}
    assert entries == {
        (GapKind.GUARDS, ()): 6.0,
        (GapKind.WRAPPER, ()): 20.0,  # the graphs' own, before 0/0's, and around 1/0's
        (GapKind.HOST, line(12)): 5.0 + 5.0 + 2.0 + 3.0,
        (GapKind.HOST, ()): 1.0 + 1.0 + 5.0,
    }
    _adds_up(profile)


@pytest.mark.parametrize(
    ("breaks", "left"),
    [
        pytest.param([broken("0/0", 12), broken("0/0", 14)], [], id="two-lines"),
        pytest.param([broken("0/0", 12), broken("1/0", 14, skipped=True)], [], id="skipped"),
        pytest.param(
            [broken("0/0", 12)],
            [NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, "M.forward", line(9)[0], "limit")],
            id="limit",
        ),
        pytest.param([], [], id="none"),
    ],
)
def test_an_uncertain_line_is_omitted(breaks: list[Break], left: list[NotCompiled]) -> None:
    recording = _with_break().recording(on_device=False)
    profile = read_profile(recording, GRAPHS, breaks=breaks, not_compiled=left)
    assert _row(profile, "aten::nonzero").stack == ()
    assert profile.joined_us == 42.0
    _adds_up(profile)


def test_a_kernel_that_no_operator_launches_is_at_the_break_too() -> None:
    stream = Stream()
    stream.call(0, 60)
    stream.host(region("0/0"), 2, 50)
    stream.host(graph_call("0/0 graph 0"), 5, 15)
    stream.launch(30, ("my_kernel", 32, 40), name="cuLaunchKernel")
    stream.launch(55, ("another_kernel", 56, 60), name="cuLaunchKernel")
    profile = read_profile(stream.recording(), GRAPHS, breaks=[broken("0/0", 12)])
    assert {row.name: (row.kind, row.stack) for row in profile.launches} == {
        "my_kernel": (LaunchKind.EAGER, line(12)),
        "another_kernel": (LaunchKind.EAGER, ()),
    }


def test_a_frame_without_tensors_after_a_break_leaves_the_line_certain() -> None:
    left = [NotCompiled(NotCompiledKind.NO_TENSORS, "M.forward", line(9)[0], "nothing to compile")]
    recording = _with_break().recording(on_device=False)
    profile = read_profile(recording, GRAPHS, breaks=[broken("0/0", 12)], not_compiled=left)
    assert _row(profile, "aten::nonzero").stack == line(12)


def test_eager_operators_take_the_lines_of_a_call_that_reported_them() -> None:
    stream = Stream()
    stream.call(0, 100)
    stream.host("aten::linear", 5, 20)
    stream.host("aten::t", 6, 8, sequence=3)
    stream.host("aten::addmm", 9, 19, sequence=4)
    stream.host("aten::item", 25, 28, sequence=5)
    stream.host("aten::relu", 30, 40, sequence=5)
    stream.host("autograd::engine::evaluate_function: ReluBackward0", 50, 70, sequence=5)
    stream.host("aten::threshold_backward", 55, 65)
    stream.host("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 75, 85)
    stream.host("aten::add_", 76, 84)
    operators = [
        PlacedOperator("aten::linear", line(3)),
        PlacedOperator("aten::item", line(4)),
        PlacedOperator("aten::relu", line(5)),
    ]
    profile = read_profile(stream.recording(on_device=False, operators=operators), ())
    assert {row.operator: row.stack for row in profile.launches} == {
        "aten::linear": line(3),
        "aten::relu": line(5),
        "aten::threshold_backward": line(5),
        "aten::add_": (),
    }
    assert {(gap.what, gap.stack) for gap in profile.gaps if gap.kind is GapKind.EAGER} == {
        ("aten::item", line(4)),
        ("ReluBackward0", line(5)),
        ("torch::autograd::AccumulateGrad", ()),
    }
    assert (profile.device_us, profile.joined_us) == (43.0, 35.0)


def test_operators_that_another_call_did_not_make_have_no_line() -> None:
    stream = Stream()
    stream.call(0, 50)
    for at, name in enumerate(("aten::relu", "aten::sin", "aten::mul")):
        stream.host(name, at * 10, at * 10 + 5)
    operators = [PlacedOperator("aten::relu", line(1)), PlacedOperator("aten::mul", line(2))]
    profile = read_profile(stream.recording(on_device=False, operators=operators), ())
    assert {row.operator: row.stack for row in profile.launches} == {
        "aten::relu": line(1),
        "aten::sin": (),
        "aten::mul": line(2),
    }


def test_a_call_with_recorded_lines_places_eager_work_around_compiled_regions() -> None:
    stream = Stream()
    stream.call(0, 100)
    stream.host(region("0/0"), 5, 50)
    stream.host("aten::clone", 6, 9)  # the wrapper's, before the graph: no line calls it
    stream.host(graph_call("0/0 graph 0"), 10, 30)
    stream.host("graph_0_cpp_fused_0", 12, 28)
    stream.host("aten::nonzero", 35, 45)
    stream.host("aten::exp", 60, 70)
    operators = [
        PlacedOperator("aten::clone", line(1)),
        PlacedOperator("aten::nonzero", line(2)),
        PlacedOperator("aten::exp", line(3)),
    ]
    recording = stream.recording(on_device=False, operators=operators)
    skipped = NotCompiled(NotCompiledKind.SKIPPED, "M.forward", line(9)[0], "it loops")
    for breaks, left, expected in (
        ([broken("0/0", 12)], [], line(12)),  # the break knows better
        ([broken("0/0", 12)], [skipped], line(2)),
        ([], [], line(2)),
    ):
        profile = read_profile(recording, GRAPHS, breaks=breaks, not_compiled=left)
        assert {row.operator: row.stack for row in profile.launches if row.operator} == {
            "aten::clone": (),
            "aten::nonzero": expected,
            "aten::exp": line(3),
        }


def test_times_of_a_launch_are_the_median_and_quartiles_of_all_calls() -> None:
    stream = Stream()
    for at, took in enumerate((10, 12, 14, 16, 90)):
        stream.call(at * 100, at * 100 + took + 2)
        stream.host("aten::relu", at * 100 + 1, at * 100 + 1 + took)
    profile = read_profile(stream.recording(on_device=False), ())
    (row,) = profile.launches
    assert (row.low_us, row.us, row.high_us) == (12.0, 14.0, 16.0)
    # The whole is the mean of the calls between the quartiles: those of 12, 14 and 16.
    assert (profile.kernel_us, profile.wall_us) == (14.0, 16.0)


def test_a_recording_without_a_call_is_refused() -> None:
    with pytest.raises(ValueError, match="no call"):
        read_profile(Stream().recording(), ())


def test_a_user_annotation_changes_nothing() -> None:
    plain, annotated = _with_break(), _with_break()
    annotated.host("my step", 4, 98, kind=EventKind.ANNOTATION)
    breaks = [broken("0/0", 12)]
    first = read_profile(plain.recording(on_device=False), GRAPHS, breaks=breaks)
    assert read_profile(annotated.recording(on_device=False), GRAPHS, breaks=breaks) == first
