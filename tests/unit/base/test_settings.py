"""Settings: every default, every invalid value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight_server.base.settings import Interpreter, Settings, parse_settings


def test_empty_settings_give_the_defaults() -> None:
    assert parse_settings(None) == (Settings(), ())
    assert parse_settings({}) == (Settings(), ())


def test_valid_settings_are_used() -> None:
    settings, warnings = parse_settings(
        {
            "run": "manual",
            "limits": {"seconds": 5, "memoryMb": 100.0},
            "inputs": {"defaultSizes": {"batch": 4}},
            "dynamo": {"config": {"recompile_limit": 2}},
            "environment": {"A": "b"},
            "resolvedInterpreter": {"executable": "/p", "args": ["-X", "utf8"], "why": "there"},
            "notOfThisVersion": 1,
        }
    )
    assert warnings == ()
    assert settings.run == "manual"
    assert (settings.limits.seconds, settings.limits.memory_mb) == (5.0, 100)
    assert settings.inputs.default_sizes == {"batch": 4}
    assert settings.resolved_interpreter == Interpreter("/p", ("-X", "utf8"), "there")


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ([], "fuselight "),
        ({"run": "often"}, "fuselight.run "),
        ({"limits": 3}, "fuselight.limits "),
        ({"limits": {"seconds": -1}}, "fuselight.limits.seconds "),
        ({"limits": {"memoryMb": 1.5}}, "fuselight.limits.memoryMb "),
        ({"limits": {"seconds": True}}, "fuselight.limits.seconds "),
        ({"limits": {"memoryMb": float("inf")}}, "fuselight.limits.memoryMb "),
        ({"hints": {"noInputs": "no"}}, "fuselight.hints.noInputs "),
        ({"inputs": {"defaultSizes": {"n": "x"}}}, "fuselight.inputs.defaultSizes "),
        ({"device": 3}, "fuselight.device "),
        ({"devices": 3}, "fuselight.devices "),
        (
            {"devices": {"mine": {"like": "h10"}}},
            "fuselight.devices.mine.like: There is no device `h10`. Nearest: ",
        ),
        (
            {"devices": {"mine": {"bandwidthGbs": 3}}},
            "fuselight.devices.mine needs backend, arch, multiprocessors",
        ),
        ({"resolvedInterpreter": "/p"}, "fuselight.resolvedInterpreter "),
    ],
)
def test_an_invalid_setting_warns_and_falls_back(data: Any, named: str) -> None:
    settings, warnings = parse_settings(data)
    assert settings == Settings()
    assert len(warnings) == 1
    assert warnings[0].startswith(named)


def test_one_device_that_does_not_fit_leaves_the_others() -> None:
    settings, warnings = parse_settings({"devices": {"bad": {}, "good": {"like": "t4"}}})
    assert list(settings.devices) == ["good"]
    assert len(warnings) == 1


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: st.dictionaries(
            st.sampled_from(
                [
                    "run",
                    "limits",
                    "seconds",
                    "guards",
                    "inputs",
                    "defaultSizes",
                    "environment",
                    "dynamo",
                    "devices",
                ]
            ),
            inner,
        ),
    )
)
def test_it_never_fails(data: Any) -> None:
    settings, _ = parse_settings(data)
    assert isinstance(settings, Settings)
