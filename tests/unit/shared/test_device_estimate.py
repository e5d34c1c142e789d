"""The estimated cost of a kernel on a device, and dtypes without a unit."""

from __future__ import annotations

from math import hypot

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.shared.devices import (
    BANDWIDTH_REACHED,
    DEVICES,
    LAUNCH_US,
    RATE_REACHED,
    estimate,
    find,
    lacks,
    rate,
)
from fuselight.shared.report import Device

H100, T4, A100 = find("h100"), find("t4"), find("a100")
GPUS = st.sampled_from([device for device in DEVICES if device.backend != "cpu"])
COUNTS = st.integers(0, 10**15)
DTYPE_NAMES = st.sampled_from(["f32", "tf32", "bf16", "torch.float16", "float8_e4m3fn", "int64", None])


# On an H100: 3,350 bytes are 1 ns at its published bandwidth, 989,400 FLOPs 1 ns at its rate of bfloat16.
@pytest.mark.parametrize(
    ("bytes_", "flops", "dtype", "microseconds", "bound"),
    [
        (3_350_000_000, None, None, LAUNCH_US + 1000 / BANDWIDTH_REACHED, "memory"),
        (None, 989_400_000_000, "bf16", LAUNCH_US + 1000 / RATE_REACHED, "compute"),
        # Three, four, five: the two overlap in part.
        (
            round(3000 * BANDWIDTH_REACHED * 3_350_000),
            round(4000 * RATE_REACHED * 989_400_000),
            "torch.bfloat16",
            LAUNCH_US + 5000,
            "compute",
        ),
        (3_350_000_000, 10, "bf16", LAUNCH_US + 1000 / BANDWIDTH_REACHED, "memory"),
        (
            1_675_000,
            98_940_000,
            "bf16",
            LAUNCH_US + hypot(0.5 / BANDWIDTH_REACHED, 0.1 / RATE_REACHED),
            "launch",
        ),
        (0, 0, "f32", LAUNCH_US, "launch"),
    ],
)
def test_the_roofline(
    bytes_: int | None, flops: int | None, dtype: str | None, microseconds: float, bound: str
) -> None:
    pair = estimate(H100, bytes_, flops, dtype)
    assert pair is not None
    assert pair[0] == pytest.approx(microseconds)
    assert pair[1] == bound


def test_kernels_reach_a_part_of_the_published_rates() -> None:
    assert 0 < BANDWIDTH_REACHED < 1
    assert 0 < RATE_REACHED < 1


@given(GPUS, COUNTS, COUNTS)
def test_together_they_take_longer_than_the_longer_one_and_less_than_one_after_the_other(
    device: Device, bytes_: int, flops: int
) -> None:
    memory, compute = estimate(device, bytes_, None, "f32"), estimate(device, None, flops, "f32")
    both = estimate(device, bytes_, flops, "f32")
    assert memory is not None
    assert compute is not None
    assert both is not None
    assert max(memory[0], compute[0]) <= both[0] * (1 + 1e-9)
    assert both[0] <= (memory[0] + compute[0] - LAUNCH_US) * (1 + 1e-9)


@given(GPUS, COUNTS, COUNTS, DTYPE_NAMES, COUNTS)
def test_it_grows_with_bytes_and_flops_and_is_never_zero(
    device: Device, bytes_: int, flops: int, dtype: str | None, more: int
) -> None:
    less = estimate(device, bytes_, flops, dtype)
    assert less is not None
    assert less[0] >= LAUNCH_US > 0
    for larger in (
        estimate(device, bytes_ + more, flops, dtype),
        estimate(device, bytes_, flops + more, dtype),
    ):
        assert larger is not None
        assert larger[0] >= less[0]


@given(GPUS, st.none() | COUNTS, st.none() | COUNTS, DTYPE_NAMES)
def test_unknown_values_do_not_increase_the_estimate(
    device: Device, bytes_: int | None, flops: int | None, dtype: str | None
) -> None:
    pair = estimate(device, bytes_, flops, dtype)
    if pair is None:
        assert bytes_ is None
        assert flops is None or rate(device, dtype) is None
    else:
        whole = estimate(device, bytes_ or 0, flops or 0, dtype)
        assert whole is not None
        assert pair[0] == whole[0]


@given(GPUS, COUNTS, DTYPE_NAMES)
def test_the_bound_is_the_dominant_cost(device: Device, bytes_: int, dtype: str | None) -> None:
    pair = estimate(device, bytes_, None, dtype)
    assert pair is not None
    assert pair[1] == (
        "memory" if bytes_ / (device.bandwidth_gbs * 1e3 * BANDWIDTH_REACHED) > LAUNCH_US else "launch"
    )


def test_a_cpu_has_no_estimate() -> None:
    assert estimate(find("cpu"), 10**9, 10**9, "f32") is None


def test_a_dtype_without_a_unit_runs_in_a_wider_one() -> None:
    assert rate(T4, "bf16") == T4.tflops["f32"]
    assert rate(A100, "torch.float8_e4m3fn") == A100.tflops["f16"]
    assert rate(H100, "int64") is None
    assert rate(H100, None) is None


@pytest.mark.parametrize(
    ("device", "dtype", "says"),
    [
        (
            "a100",
            "torch.float8_e4m3fn",
            "NVIDIA A100-SXM4-80GB (compute capability 8.0) has no float8_e4m3fn: ",
        ),
        ("a100", "float8_e5m2", "it can be stored and converted, but not multiplied"),
        ("t4", "bfloat16", "torch.compile leaves code with it to eager. Use float16"),
        ("t4", "tf32", "run at the rate of float32"),
        ("h200", "float4_e2m1fn_x2", "These have it: b200, rtx-5090."),
        ("mi300x", "float8_e4m3fn", "has no float8_e4m3fn, only float8_e4m3fnuz."),
        ("mi300x", "float8_e5m2", "has no float8_e5m2, only float8_e5m2fnuz."),
        ("h100", "float8_e4m3fnuz", "has no float8_e4m3fnuz, only float8_e4m3fn."),
        ("h100", "float8_e5m2fnuz", "has no float8_e5m2fnuz, only float8_e5m2."),
    ],
)
def test_a_missing_device_feature_is_reported_with_the_next_step(device: str, dtype: str, says: str) -> None:
    words = lacks(find(device), dtype)
    assert words is not None
    assert says in words
    assert words.endswith(".")


@pytest.mark.parametrize(
    ("device", "dtype"),
    [
        ("h100", "float8_e4m3fn"),
        ("h100", "torch.float8_e5m2"),
        ("mi300x", "float8_e4m3fnuz"),
        ("a100", "bf16"),
        ("t4", "float16"),
        ("t4", "float64"),
        ("t4", "int64"),
        ("cpu", "float8_e4m3fn"),
        ("b200", "float4_e2m1fn_x2"),
    ],
)
def test_supported_dtypes_and_unknown_devices_are_not_reported(device: str, dtype: str) -> None:
    assert lacks(find(device), dtype) is None


def test_the_devices_that_are_offered_have_it() -> None:
    words = lacks(A100, "float8_e4m3fn")
    assert words is not None
    offered = words.partition("These have it: ")[2].rstrip(".").split(", ")
    assert len(offered) == 8
    assert [lacks(find(key), "float8_e4m3fn") for key in offered] == [None] * 8
