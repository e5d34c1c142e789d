"""The kinds of time outside kernels. All streams here are hand-made, none was recorded."""

from __future__ import annotations

import pytest

from fuselight.measure.profile.join import read_profile
from fuselight.measure.profile.recording import EventKind
from fuselight.shared.report import Gap, GapKind, LaunchKind, Profile
from tests.support.profiles import Stream, broken, generated, graph_call, line, region


def _gaps(profile: Profile) -> dict[tuple[GapKind, str], float]:
    assert profile.kernel_us + sum(gap.us for gap in profile.gaps) == pytest.approx(profile.wall_us)
    return {(gap.kind, gap.what): gap.us for gap in profile.gaps}


def test_the_time_between_a_launch_and_its_kernel_is_the_launchs_and_before_it_the_hosts() -> None:
    stream = Stream()
    stream.call(0, 40)
    stream.host("aten::relu", 10, 20)
    stream.launch(15, ("relu_kernel", 22, 30))
    assert _gaps(read_profile(stream.recording(), ())) == {
        (GapKind.HOST, ""): 10.0 + 10.0,
        (GapKind.EAGER, "aten::relu"): 5.0,
        (GapKind.LAUNCH, ""): 7.0,
    }


def test_kernels_launched_ahead_leave_launch_gaps_alone() -> None:
    stream = Stream()
    stream.call(0, 12)
    for at in range(4):
        stream.launch(at * 2, (f"kernel_{at}", 20 + 12 * at, 30 + 12 * at), took=1)
    gaps = read_profile(stream.recording(), ()).gaps
    # 0 to 20 before the first kernel: launched at once; then 2 between each two.
    assert gaps == (Gap(GapKind.LAUNCH, 26.0, 4.0),)


def test_a_kernel_that_starts_before_its_launch_by_the_clocks_leaves_no_negative_gap() -> None:
    stream = Stream()
    stream.call(0, 30)
    stream.launch(12, ("kernel", 10, 20))
    profile = read_profile(stream.recording(), ())
    assert _gaps(profile) == {(GapKind.HOST, ""): 20.0}
    assert profile.kernel_us == 10.0


def test_reading_a_value_is_a_copy_and_a_synchronisation_with_the_line_of_the_break() -> None:
    stream = Stream()
    stream.call(0, 100)
    stream.host(region("0/0"), 0, 90)
    stream.host(graph_call("k"), 5, 15)
    stream.host("triton_a", 6, 10)
    stream.launch(8, ("triton_a", 10, 30))
    stream.host("aten::item", 20, 60)
    stream.host("aten::_local_scalar_dense", 22, 58)
    stream.launch(25, ("Memcpy DtoH (Device -> Pageable)", 40, 44), name="cudaMemcpyAsync")
    stream.host("cudaStreamSynchronize", 30, 55, kind=EventKind.RUNTIME)
    profile = read_profile(stream.recording(), [generated("k", "triton_a")], breaks=[broken("0/0", 7)])
    assert _gaps(profile).keys() >= {(GapKind.SYNC, "aten::item")}
    assert {(gap.kind, gap.what, gap.stack): gap.us for gap in profile.gaps} == {
        (GapKind.WRAPPER, "", ()): 8.0,
        (GapKind.LAUNCH, "", ()): 2.0,
        (GapKind.COPY, "Memcpy DtoH (Device -> Pageable)", line(7)): 4.0,
        (GapKind.SYNC, "aten::item", line(7)): 26.0,
        (GapKind.HOST, "", line(7)): 30.0,
        (GapKind.HOST, "", ()): 10.0,
    }
    (copy,) = [row for row in profile.launches if row.kind is LaunchKind.COPY]
    assert (copy.operator, copy.stack, copy.us) == ("aten::item", line(7), 4.0)
    # A copy over the bus is no kernel: it is a gap, and no part of the device's time.
    assert (profile.device_us, profile.kernel_us) == (20.0, 20.0)


def test_an_explicit_synchronisation_is_named_after_the_call() -> None:
    stream = Stream()
    stream.call(0, 60)
    stream.launch(0, ("kernel", 5, 30))
    stream.host("cudaDeviceSynchronize", 10, 50, kind=EventKind.RUNTIME)
    assert _gaps(read_profile(stream.recording(), ())) == {
        (GapKind.LAUNCH, ""): 5.0,
        (GapKind.SYNC, "cudaDeviceSynchronize"): 20.0,
        (GapKind.HOST, ""): 10.0,
    }


def test_the_cpu_needs_no_synchronization() -> None:
    stream = Stream()
    stream.call(0, 20)
    stream.host("aten::item", 5, 15)
    stream.host("aten::_local_scalar_dense", 6, 14)
    assert _gaps(read_profile(stream.recording(on_device=False), ())) == {
        (GapKind.EAGER, "aten::item"): 10.0,
        (GapKind.HOST, ""): 10.0,
    }


def test_guards_and_wrapper_are_distinguished() -> None:
    stream = Stream()
    stream.call(0, 100)
    stream.host("TorchDynamo Cache Lookup", 10, 30)
    stream.host(region("0/0"), 30, 95)
    stream.host("Pregraph bytecode", 32, 35)
    stream.host("AOTDispatcher Runtime Wrapper Prologue", 36, 40)
    stream.host(graph_call("k"), 41, 90)
    stream.host("cpp_fused_0", 45, 85)
    profile = read_profile(stream.recording(on_device=False), [generated("k", "cpp_fused_0")])
    assert _gaps(profile) == {
        (GapKind.GUARDS, ""): 20.0,
        (GapKind.WRAPPER, ""): 25.0,
        (GapKind.HOST, ""): 15.0,
    }
    assert {gap.kind: gap.count for gap in profile.gaps} == {
        GapKind.GUARDS: 1,
        GapKind.WRAPPER: 2,
        GapKind.HOST: 2,
    }


def test_the_rest_of_very_many_gaps_is_one_of_each_kind() -> None:
    stream = Stream()
    stream.call(0, 1000)
    for at in range(400):
        stream.host(f"aten::view_{at}", at * 2, at * 2 + 1)
    stream.launch(900, ("kernel", 950, 960))
    gaps = read_profile(stream.recording(), ()).gaps
    assert len(gaps) == 201
    assert gaps[-1].what == "others"
    assert sum(gap.us for gap in gaps) == pytest.approx(990.0)
