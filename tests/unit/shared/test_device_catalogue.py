"""The catalog of devices: consistent figures, lookup by name, user devices."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.shared.codec import decode, encode
from fuselight.shared.devices import (
    DEVICES,
    FALLBACK,
    UnfitDevice,
    UnknownDevice,
    find,
    from_settings,
    nearest,
)
from fuselight.shared.devices.choose import DTYPES, KEYS
from fuselight.shared.report import Device

GPUS = [device for device in DEVICES if device.backend != "cpu"]
OWN = from_settings("lab card", {"like": "h100", "multiprocessors": 66, "memoryGb": 94})


@pytest.mark.parametrize("device", GPUS, ids=lambda device: device.key)
def test_figures_agree_with_each_other(device: Device) -> None:
    """Detects a wrong digit, or a rate with sparsity among dense rates."""
    rates = device.tflops
    assert rates.keys() <= set(DTYPES)
    assert rates["f64"] <= rates["f32"] <= rates["f16"]
    assert rates["f16"] == rates.get("bf16", rates["f16"])
    if "tf32" in rates:
        assert rates["f16"] == pytest.approx(2 * rates["tf32"], rel=0.03)
    if "f8" in rates:
        assert rates["f8"] == pytest.approx(2 * rates["f16"], rel=0.03)
    assert rates["i8"] / rates["f16"] == pytest.approx(4 if "GeForce" in device.name else 2, rel=0.03)
    assert 10 < device.bandwidth_gbs / device.memory_gb < 60
    assert device.shared_kb <= device.shared_sm_kb
    assert device.threads % device.warp == 0
    assert re.search(r"\(20\d\d\)", device.source), "no year"


@pytest.mark.parametrize("device", [gpu for gpu in GPUS if gpu.clock_mhz and gpu.backend == "cuda"])
def test_fp32_is_what_the_cores_do_at_the_boost_clock(device: Device) -> None:
    cores = 64 if device.arch in {"7.5", "8.0"} else 128
    assert device.clock_mhz is not None
    rate = device.multiprocessors * cores * 2 * device.clock_mhz / 1e6
    assert device.tflops["f32"] == pytest.approx(rate, rel=0.02)


def test_keys_and_names_are_those_of_one_device_each() -> None:
    assert len({device.key for device in DEVICES}) == len(DEVICES) == 17
    assert len({device.name for device in DEVICES}) == len(DEVICES)
    assert find(FALLBACK).name == "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize("device", [*DEVICES, OWN], ids=lambda device: device.key)
def test_a_device_round_trips(device: Device) -> None:
    assert decode(Device, encode(device)) == device


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("h100", "h100-sxm"),
        ("H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        (" A100 ", "a100-80gb-sxm"),
        ("a100-40GB", "a100-40gb-sxm"),
        ("NVIDIA A100-PCIE-40GB", "a100-40gb-pcie"),
        ("GeForce RTX 4090", "rtx-4090"),
        ("4090", "rtx-4090"),
        ("Tesla T4", "t4"),
        ("L40S", "l40s"),
        ("AMD MI300X", "mi300x"),
        ("CPU", "cpu"),
        ("Lab Card", "lab card"),
    ],
)
def test_devices_are_found_by_name(name: str, key: str) -> None:
    assert find(name, [OWN]).key == key


@given(st.sampled_from(DEVICES), st.sampled_from([str.upper, str.lower, str.title]), st.sampled_from(" -_"))
def test_every_device_is_found_in_any_spelling(device: Device, case: Any, space: str) -> None:
    for name in (device.key, device.name):
        assert find(case(name).replace("-", space).replace(" ", space)) == device


def test_user_devices_precede_the_catalog() -> None:
    own = from_settings("h100-sxm", {"like": "h100", "bandwidthGbs": 3000})
    assert find("h100-sxm", [own]).bandwidth_gbs == 3000
    assert find("h100", [own]).bandwidth_gbs == 3000


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("h10", "h100-sxm"),
        ("rtx", "rtx-3090"),
        ("RTX 4080", "rtx-4090"),
        ("a101", "a100-80gb-sxm"),
        ("labcrad", "lab card"),
    ],
)
def test_a_wrong_name_lists_the_nearest_names(name: str, near: str) -> None:
    with pytest.raises(UnknownDevice, match="There is no device") as caught:
        find(name, [OWN])
    assert near in caught.value.near
    assert near in str(caught.value)


def test_an_unknown_name_lists_all_devices() -> None:
    with pytest.raises(UnknownDevice, match=r"Known: t4, a10, .*, cpu\."):
        find("quantum")


@given(st.text(max_size=20))
def test_any_text_is_a_device_or_an_error_with_names_that_exist(name: str) -> None:
    with contextlib.suppress(UnknownDevice):
        assert find(name) in DEVICES
        return
    near = nearest(name)
    assert [find(key).key for key in near] == list(near)
    assert len(near) <= 3


def test_a_device_in_settings_can_inherit_figures() -> None:
    base = find("h100")
    assert (OWN.multiprocessors, OWN.memory_gb, OWN.origin) == (66, 94.0, "settings")
    assert (OWN.tflops, OWN.arch, OWN.name) == (base.tflops, base.arch, "lab card")
    assert "h100-sxm" in OWN.source


def test_a_device_in_settings_needs_no_base() -> None:
    device = from_settings(
        "x1",
        {
            "backend": "cuda",
            "arch": "9.0",
            "multiprocessors": 10,
            "bandwidthGbs": 100,
            "clockMhz": 1500,
            "tflops": {"bf16": 12.5},
        },
    )
    assert (device.name, device.clock_mhz, device.tflops) == ("x1", 1500, {"bf16": 12.5})


@pytest.mark.parametrize(
    ("key", "data", "says"),
    [
        ("auto", {"like": "h100"}, "'auto' cannot be the name"),
        ("-", {"like": "h100"}, "'-' cannot be the name"),
        ("x", 3, "x should be an object"),
        ("x", {}, "x needs backend, arch, multiprocessors, bandwidthGbs, or like"),
        ("x", {"like": "h10"}, "x.like: There is no device `h10`. Nearest: h100-sxm"),
        ("x", {"like": 3}, "x.like should be the name"),
        ("x", {"like": "h100", "bandwith": 3}, "x.bandwith is not known; is it bandwidthGbs?"),
        ("x", {"like": "h100", "bandwidthGbs": "fast"}, "x.bandwidthGbs should be a number above 0"),
        ("x", {"like": "h100", "bandwidthGbs": -1}, "x.bandwidthGbs should be a number above 0"),
        ("x", {"like": "h100", "multiprocessors": True}, "x.multiprocessors should be a number above 0"),
        ("x", {"like": "h100", "multiprocessors": 1.5}, "x.multiprocessors should be a whole number"),
        ("x", {"like": "h100", "arch": "hopper"}, "x.arch should be a compute capability"),
        (
            "x",
            {"like": "h100", "arch": "gfx942"},
            'x.arch should be a compute capability as "9.0" for backend cuda',
        ),
        ("x", {"like": "h100", "backend": "hip"}, "x.arch should be \"gfx942\" for backend hip, not '9.0'"),
        ("x", {"like": "h100", "backend": "metal"}, "x.backend should be one of cuda, hip, cpu"),
        ("x", {"like": "h100", "tflops": 3}, "x.tflops should be an object"),
        ("x", {"like": "h100", "tflops": {"fp8": 3}}, "x.tflops.fp8 is no dtype"),
        ("x", {"like": "h100", "tflops": {"f8": 0}}, "x.tflops.f8 should be a number above 0"),
    ],
)
def test_an_error_in_a_device_of_the_settings_is_named(key: str, data: Any, says: str) -> None:
    with pytest.raises(UnfitDevice) as caught:
        from_settings(key, data)
    assert str(caught.value).startswith(says)


@given(
    st.text(max_size=4),
    st.dictionaries(
        st.sampled_from([*KEYS, "no such"]),
        st.none()
        | st.booleans()
        | st.floats()
        | st.sampled_from(["h100", "9.0", "cuda"])
        | st.just({"f16": 2}),
    ),
)
def test_settings_give_a_device_or_an_error_that_names_the_key(key: str, data: dict[str, Any]) -> None:
    text = ""
    try:
        device = from_settings(key, data)
    except UnfitDevice as unfit:
        text = str(unfit)
    else:
        assert decode(Device, encode(device)) == device
        assert device.multiprocessors > 0
    assert not text or text.startswith((key, repr(key)))
