"""Ceilings of knobs: on recordings of real profiles, and their order and bounds on made ones."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gpu.kept_profiles import FOLDER, read
from fuselight.measure.profile.join import read_profile
from fuselight.shared.report import (
    Clock,
    FusedOperator,
    Gap,
    GapKind,
    GeneratedGraph,
    Kernel,
    KernelKind,
    LaunchKind,
    Location,
    MeasuredConfiguration,
    MeasuredLaunch,
    Phase,
    Profile,
    Timing,
)
from fuselight.shared.report.tuned import Knob, KnobBound, Skip
from fuselight.tune.ceilings import call_parts, ceilings, promise, traits
from fuselight.tune.knobs import BY_NAME, KNOBS, Trait, Unsuitable

NOISE = 0.02


def _timing(us: float, clock: Clock) -> Timing:
    return Timing(clock, us, us, us, 10)


@functools.lru_cache(maxsize=16)
def _recorded(name: str) -> MeasuredConfiguration:
    """A recorded profile as a measured configuration; on the GPU, a call takes 2 times its kernels."""
    kept = read(FOLDER / f"{name}.json.gz")
    profile = read_profile(kept.recording, kept.generated, breaks=kept.breaks, not_compiled=kept.not_compiled)
    gpu = name.startswith("h200")
    return MeasuredConfiguration(
        "default",
        wall=_timing(profile.wall_us, Clock.WALL),
        device=_timing(2 * profile.kernel_us, Clock.DEVICE) if gpu else None,
        profile=profile,
        generated=kept.generated,
        graph_breaks=len(kept.breaks),
        recompiles=0,
    )


def _by_name(knobs: tuple[Knob, ...]) -> dict[str, Knob]:
    return {knob.name: knob for knob in knobs}


def _measured(**parts: float) -> MeasuredConfiguration:
    """A configuration with kernels of these kinds, microseconds each, and `idle`."""
    idle = parts.pop("idle", 0.0)
    kinds = {
        "matmul": Kernel("extern_kernels.addmm", KernelKind.EXTERN, 0),
        "convolution": Kernel("extern_kernels.convolution", KernelKind.EXTERN, 0),
        "generated": Kernel("triton_poi_fused_convert_element_type_0", KernelKind.TRITON, 0),
        "copies": Kernel("triton_poi_fused_clone_0", KernelKind.TRITON, 0, copies=True),
        "attention": Kernel("torch.ops.aten._scaled_dot_product_cudnn_attention.default", KernelKind.FALLBACK, 0),
        "template": Kernel("triton_tem_fused_addmm_3", KernelKind.TEMPLATE, 0),
        "sort": Kernel("torch.ops.aten.sort.default", KernelKind.FALLBACK, 0),
    }  # fmt: skip
    kernels = tuple(replace(kinds[name], launch=place) for place, name in enumerate(parts) if name in kinds)
    launches = [
        MeasuredLaunch(kernel.name, LaunchKind.KERNEL, us, us, us, 1.0, graph=0, launch=kernel.launch)
        for kernel, us in zip(kernels, [us for name, us in parts.items() if name in kinds], strict=True)
    ]
    launches += [
        MeasuredLaunch("at::kernel", LaunchKind.EAGER, us, us, us, 1.0, operator=name)
        for name, us in parts.items()
        if name not in kinds
    ]
    busy = sum(parts.values())
    profile = Profile(
        "CUPTI", 10, 3 * (busy + idle) + 1, busy, busy, busy, tuple(launches), (Gap(GapKind.WRAPPER, idle),)
    )
    return MeasuredConfiguration(
        "default",
        device=_timing(busy + idle, Clock.DEVICE),
        wall=_timing(2 * (busy + idle), Clock.WALL),
        profile=profile,
        generated=(GeneratedGraph("0/0", Phase.INFERENCE, kernels=kernels),),
        graph_breaks=0,
        recompiles=0,
    )


def test_gpt2_on_a_gpu() -> None:
    """Kernels of a recorded call: 25 us of addmm, 3 of mm, 13 generated, 12 of attention, and as much idle time."""
    knobs = _by_name(ceilings(_recorded("h200-torch-2.11.0-gpt2-default-inference"), noise=NOISE))
    assert knobs["cuda_graphs"].ceiling == pytest.approx(2, rel=0.01)
    assert knobs["gemm_autotune"].bound_us == pytest.approx(28, abs=2)
    assert knobs["coordinate_descent"].bound_us == pytest.approx(13, abs=2)
    assert knobs["attention_flash"].bound_us == pytest.approx(12, abs=1)
    assert knobs["attention_flash"].detail == "attention kernels: 2"
    for absent in ("conv_as_matmul", "fixes", "optimizer"):
        assert knobs[absent].skipped is Skip.ABSENT


def test_resnet_on_a_gpu() -> None:
    knobs = _by_name(ceilings(_recorded("h200-torch-2.11.0-resnet50-default-inference"), noise=NOISE))
    assert knobs["channels_last"].bound_us == pytest.approx(265, abs=3)
    assert knobs["attention_cudnn"].skipped is Skip.ABSENT
    assert knobs["attention_cudnn"].detail == "no attention kernel"
    assert knobs["conv_as_matmul"].detail == "convolutions: 53"


@pytest.mark.parametrize(
    "name", ["cpu-torch-2.13.0-broken-default-inference", "h200-torch-2.11.0-broken-default-train"]
)
def test_breaks_bound_fixes(name: str) -> None:
    knobs = _by_name(ceilings(_recorded(name), noise=NOISE))
    assert knobs["fixes"].skipped is None
    assert (knobs["fixes"].bound_us or 0) > 0


def test_parts_of_a_made_call_have_their_bounds() -> None:
    configuration = _measured(
        matmul=30.0,
        convolution=20.0,
        generated=10.0,
        copies=5.0,
        attention=15.0,
        template=4.0,
        sort=6.0,
        idle=10.0,
    )
    divided = call_parts(configuration)
    assert divided is not None
    assert divided.us == 100
    assert {bound.value: us for bound, us in divided.parts.items()} == pytest.approx(
        {
            "idle": 10,
            "matmul": 34,
            "convolution": 20,
            "dense": 54,
            "generated": 15,
            "layout": 25,
            "attention": 15,
            "kernels": 90,
            "call": 100,
        }
    )


def test_attention_that_torch_composed_of_other_operators_is_attention() -> None:
    """Its kernels come from one line: two multiplications, and a softmax that other code is fused into."""
    line = (Location("attention.py", 158),)
    configuration = _measured(matmul=30.0, generated=20.0, convolution=40.0, idle=10.0)
    softmax = FusedOperator("prims.exp.default", "aten._safe_softmax.default", line)
    other = FusedOperator("aten.add.Tensor", "", (Location("model.py", 3),))
    operators = {"matmul": (FusedOperator("aten.bmm.default", "", line),), "generated": (other, softmax)}
    kinds = list(operators)
    (graph,) = configuration.generated
    kernels = [
        replace(kernel, operators=operators.get(kinds[place], ()) if place < len(kinds) else (other,))
        for place, kernel in enumerate(graph.kernels)
    ]
    knobs = _by_name(
        ceilings(replace(configuration, generated=(replace(graph, kernels=tuple(kernels)),)), noise=NOISE)
    )
    assert knobs["attention_flash"].bound_us == 50
    assert knobs["attention_flash"].detail == "attention kernels: 2"
    assert knobs["gemm_autotune"].bound_us == 70, "they are what they are as well"


def test_the_optimizers_kernels_bound_its_compile_and_nothing_else() -> None:
    configuration = _measured(matmul=50.0, idle=20.0, **{"aten::_foreach_add_": 30.0})
    knobs = _by_name(ceilings(configuration, noise=NOISE))
    assert knobs["optimizer"].bound_us == 50
    assert knobs["optimizer"].ceiling == 2
    assert knobs["gemm_autotune"].bound_us == 50
    assert knobs["freezing"].bound_us == 50


def test_a_faster_base_raises_the_ceilings_of_kernels() -> None:
    """A call of 100 us that waits for 80: with CUDA graphs it takes 25, of which 10 are generated kernels."""
    configuration = _measured(matmul=10.0, generated=10.0, idle=80.0)
    first = _by_name(ceilings(configuration, noise=0.2))
    assert first["cuda_graphs"].ceiling == pytest.approx(5)
    assert first["coordinate_descent"].skipped is Skip.NOISE
    then = _by_name(ceilings(configuration, noise=0.2, us=25.0))
    assert then["coordinate_descent"].ceiling == pytest.approx(25 / 15)
    assert then["coordinate_descent"].skipped is None
    assert then["dependent_launch"].bound_us == 10
    assert then["cpp_wrapper"].bound_us == 5, "what still waits"


def test_without_a_profile_nothing_is_skipped_for_its_ceiling() -> None:
    knobs = ceilings(MeasuredConfiguration("default"), noise=NOISE)
    assert len(knobs) == len(KNOBS)
    assert all(knob.skipped is None and knob.ceiling is None and knob.bound_us is None for knob in knobs)


def test_what_cannot_apply_is_listed_with_its_reason() -> None:
    reason = Unsuitable(Skip.NUMERICS, "it changes the arithmetic")
    knobs = ceilings(
        _measured(matmul=10.0), noise=NOISE, unsuitable=lambda knob: reason if knob.name == "tf32" else None
    )
    last = _by_name(knobs)["tf32"]
    assert (last.skipped, last.detail) == (Skip.NUMERICS, "it changes the arithmetic")
    assert last.ceiling is None, "it is the whole call: no bound"


def test_traits_come_from_the_kernels() -> None:
    configuration = _measured(matmul=10.0)
    (graph,) = configuration.generated
    assert Trait.FLOAT32 in traits(configuration), "unknown: it may"
    assert traits(replace(configuration, generated=())) >= {Trait.CONVOLUTIONS, Trait.ATTENTION}, (
        "unknown: it may"
    )
    assert Trait.CONVOLUTIONS in traits(replace(configuration, graph_breaks=1)), "in eager mode it may"
    assert traits(_measured(convolution=10.0)) & {Trait.CONVOLUTIONS, Trait.ATTENTION} == {Trait.CONVOLUTIONS}
    assert traits(_measured(attention=10.0)) & {Trait.CONVOLUTIONS, Trait.ATTENTION} == {Trait.ATTENTION}
    half = replace(graph, kernels=tuple(replace(kernel, dtype="bf16") for kernel in graph.kernels))
    assert traits(replace(configuration, generated=(half,))) == frozenset()
    assert traits(replace(configuration, generated=(half,), recompiles=2)) == {Trait.RECOMPILATIONS}


PARTS = st.dictionaries(
    st.sampled_from(
        ["matmul", "convolution", "generated", "copies", "attention", "sort", "idle", "aten::add_"]
    ),
    st.floats(0.1, 1e5),
    min_size=1,
)


@given(PARTS, st.floats(0.01, 0.5), st.none() | st.floats(0.5, 1e5))
def test_ceilings_are_ordered_and_never_beyond_the_call(
    parts: dict[str, Any], noise: float, us: float | None
) -> None:
    knobs = ceilings(_measured(**parts), noise=noise, us=us)
    assert sorted(knob.name for knob in knobs) == sorted(BY_NAME)
    tried = [knob for knob in knobs if knob.skipped is None]
    assert list(knobs[: len(tried)]) == tried
    known = [knob.ceiling for knob in tried if knob.ceiling is not None]
    assert known == sorted(known, reverse=True)
    assert all(ceiling >= 1 + noise for ceiling in known)
    for knob in knobs:
        assert knob.bound_us is not None
        assert 0 <= knob.bound_us <= (us or sum(parts.values())) * (1 + 1e-9)
        assert knob.skipped is not Skip.NOISE or (knob.ceiling or 0) < 1 + noise
        assert 1 <= promise(BY_NAME[knob.name], knob) <= (knob.ceiling or 10) * (1 + 1e-9)


def test_every_bound_has_a_knob() -> None:
    assert {knob.bound for knob in KNOBS} == set(KnobBound)
