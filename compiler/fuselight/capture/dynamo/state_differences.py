"""What of torch's global state differs from the compile: grad mode, autocast, the default dtype, threads."""

from __future__ import annotations

import json
from typing import Any

from fuselight.adapters.torch_api.inductor import artifacts
from fuselight.capture.dynamo.failure_words import changed, difference, joined
from fuselight.shared.report import GuardCause, GuardFailure

_STATE_WORDS = {
    "num_threads": "the number of threads",
    "deterministic_algorithms": "the setting for deterministic algorithms",
    "deterministic_algorithms_warn_only": "the setting to only warn of what is not deterministic",
}


def explain_global_state(part: str) -> GuardFailure:
    """Which part of torch's global state changed: grad mode, autocast, the default dtype, ..."""
    _, _, recorded = part.partition(" against ")
    now = artifacts.global_state()
    try:
        before = json.loads(recorded)
    except ValueError:
        before = None
    if not isinstance(before, dict) or now is None:
        text = "torch's global state changed (grad mode, autocast, default dtype, threads, ...)"
        return difference(text, cause=GuardCause.GLOBAL_STATE)
    differences = []
    for key in sorted(before.keys() & now.keys()):
        if before[key] == now[key]:
            continue
        if key == "autocast_state":
            differences.append(_explain_autocast(before[key], now[key]))
        elif key == "default_dtype":
            was, is_now = _dtype_name(before[key]), _dtype_name(now[key])
            differences.append(changed("the default dtype", was, is_now, GuardCause.GLOBAL_STATE))
        else:
            words = _STATE_WORDS.get(key) or key.replace("_", " ")
            was, is_now = _state_text(before[key]), _state_text(now[key])
            differences.append(changed(words, was, is_now, GuardCause.GLOBAL_STATE))
    if not differences:
        return difference("torch's global state changed", cause=GuardCause.GLOBAL_STATE)
    return joined(differences)


def _explain_autocast(before: Any, now: Any) -> GuardFailure:
    devices = [[bool(is_on) for is_on in state.get("enabled", ())] for state in (before, now)]
    was_on, is_on = map(any, devices)
    if was_on != is_on:
        return changed("autocast", _state_text(was_on), _state_text(is_on), GuardCause.GLOBAL_STATE)
    if devices[0] != devices[1]:
        return difference("autocast was on for another kind of device", cause=GuardCause.GLOBAL_STATE)
    dtypes = [
        [dtype for dtype, is_on in zip(state.get("dtype", ()), devices[0], strict=False) if is_on]
        for state in (before, now)
    ]
    if dtypes[0] != dtypes[1]:
        was, is_now = (", ".join(map(_dtype_name, numbers)) for numbers in dtypes)
        return changed("the dtype of autocast", was, is_now, GuardCause.GLOBAL_STATE)
    caches = [_state_text(bool(state.get("cached_enabled"))) for state in (before, now)]
    return changed("autocast's cache of converted weights", caches[0], caches[1], GuardCause.GLOBAL_STATE)


def _dtype_name(number: object) -> str:
    return {5: "float16", 6: "float32", 7: "float64", 15: "bfloat16"}.get(
        number if isinstance(number, int) else -1, f"dtype {number}"
    )  # numbers of c10::ScalarType


def _state_text(value: object) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)
