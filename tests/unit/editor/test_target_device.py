"""Which device the settings select, and what a picker offers."""

from __future__ import annotations

from typing import Any

import pytest

from fuselight.shared.devices import DEVICES, find
from fuselight_server.base.settings import Settings, parse_settings
from fuselight_server.editor.session.target_device import choose, figures, offered

OWN = {"lab": {"like": "h100", "multiprocessors": 66}, "t4": {"like": "t4", "bandwidthGbs": 300}}


def settings(**data: Any) -> Settings:
    parsed, warnings = parse_settings(data)
    assert warnings == ()
    return parsed


@pytest.mark.parametrize("name", ["auto", "AUTO ", ""])
def test_auto_is_no_device_yet(name: str) -> None:
    assert choose(settings(device=name)).status() == {
        "key": "auto",
        "words": "Kernels are for the GPU that is there, else h100-sxm.",
        "problem": None,
    }


def test_a_name_is_its_device() -> None:
    chosen = choose(settings(device="RTX 4090"))
    assert chosen.device == find("rtx-4090")
    assert chosen.status() == {
        "key": "rtx-4090",
        "words": "Kernels are for NVIDIA GeForce RTX 4090: "
        "capability 8.9, 128 SMs, 24 GB, 1,008 GB/s, 165 TFLOP/s in bf16.",
        "problem": None,
    }


def test_user_devices_are_found_before_the_catalog() -> None:
    lab, t4 = (choose(settings(device=name, devices=OWN)).device for name in ("Lab", "t4"))
    assert lab is not None
    assert t4 is not None
    assert (lab.multiprocessors, t4.bandwidth_gbs) == (66, 300.0)


def test_a_wrong_name_falls_back_to_auto_and_lists_the_nearest_names() -> None:
    chosen = choose(settings(device="h1000", devices=OWN))
    assert chosen.device is None
    assert chosen.status()["key"] == "auto"
    assert chosen.problem is not None
    assert chosen.problem.startswith("There is no device `h1000`. Nearest: h100-sxm, ")
    assert chosen.problem.endswith(
        "Until fuselight.device is changed, kernels are for the GPU that is there, else h100-sxm."
    )


def test_the_picker_lists_auto_then_user_devices_then_the_catalog() -> None:
    entries = offered(settings(device="lab", devices=OWN))
    keys = [entry["key"] for entry in entries]
    assert keys[:3] == ["auto", "lab", "t4"]
    assert sorted(keys) == sorted({"auto", "lab", *(device.key for device in DEVICES)})
    assert [entry["key"] for entry in entries if entry["current"]] == ["lab"]
    assert [entry["key"] for entry in entries if entry["own"]] == ["lab", "t4"]


@pytest.mark.parametrize(("setting", "marked"), [("auto", "auto"), ("no such", "auto"), ("H200", "h200")])
def test_one_entry_is_the_current_one(setting: str, marked: str) -> None:
    entries = offered(settings(device=setting))
    assert [entry["key"] for entry in entries if entry["current"]] == [marked]


def test_only_known_figures_are_listed() -> None:
    assert figures(find("mi300x")).startswith(
        "gfx942, 304 compute units, 192 GB, 5,300 GB/s, 1,307 TFLOP/s in bf16"
    )
    assert figures(find("t4")).endswith("65 TFLOP/s in f16")
    assert figures(find("cpu")) == ""
