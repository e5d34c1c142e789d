"""Guards in words, and the lines that they quote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from fuselight.shared.foreign_data import parse_json
from fuselight.shared.report import Location
from fuselight.shared.torch_texts import in_user_words
from fuselight_server.base.formatting import format_list
from fuselight_server.jobs.ranks.cures import cure_of_mode, cure_of_tensor
from fuselight_server.jobs.ranks.sides import short
from fuselight_server.jobs.trace_log.libraries import is_library

_QUOTED = re.compile(
    r"  # (?P<text>[^\n]*)  # (?P<path>[^#\n:]+?):(?P<line>\d{1,9}) in (?P<function>[\w<>]+)"
)
_DEVICES = ("CPU", "CUDA", "MTIA", "MAIA", "XPU", "IPU", "HPU", "XLA", "a device of a plugin", "MPS")
"""In the order in which torch lists the state of autocast."""
_DTYPES = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    9: "complex64",
    10: "complex128",
    11: "bool",
    15: "bfloat16",
}
"""torch's numbers of dtypes."""
_STATE_WORDS = {
    "grad_mode": "grad mode",
    "torch_function": "torch functions",
    "deterministic_algorithms": "deterministic algorithms",
    "allow_tf32": "TF32",
    "default_dtype": "the default dtype",
    "autocast_state": "autocast",
}


def guard_line(guards: str, source: str, paths: Iterable[str]) -> Location | None:
    """The line that the guards of a source quote."""
    for line in guards.split("\n"):
        if "+- TENSOR_MATCH" not in line and "_MATCH:" not in line:
            continue
        words = in_user_words(line.partition("  #")[0])
        if re.search(rf"(?<![\w.]){re.escape(source)}(?![\w.\[])", words):
            place = quoted_line(line, paths)
            if place is not None:
                return place
    return None


def quoted_line(line: str, paths: Iterable[str]) -> Location | None:
    """The user's line that a guard quotes: torch leaves out the start of its path."""
    match = _QUOTED.search(line)
    if match is None:
        return None
    known = [path for path in set(paths) if path.endswith(match["path"].strip()) and not is_library(path)]
    if len(known) != 1:
        return None
    return Location(known[0], int(match["line"]), function=match["function"])


def guard_words(odd: Sequence[str], reference: Sequence[str]) -> tuple[str, str, str]:
    """The first guard in which two sets differ, for each, and what makes them equal."""
    left, right = _global_state(odd), _global_state(reference)
    if left is not None and right is not None:
        for key, value in left.items():
            if value != right.get(key):
                return (*_state_words(key, value, right.get(key)), cure_of_mode(key))
    pairs = ((mine, theirs) for mine in odd for theirs in reference if _tensor(mine) == _tensor(theirs))
    for mine, theirs in pairs:
        properties = _tensor_properties(mine), _tensor_properties(theirs)
        for key, value in properties[0].items():
            if value != properties[1].get(key):
                tensor = in_user_words(_tensor(mine))
                name = f"`{tensor}` has {key}"
                return (
                    f"{name} {value}",
                    f"{name} {properties[1].get(key, 'unknown')}",
                    cure_of_tensor(tensor, key),
                )
    return (
        f"`{_guard_code(odd[0])}`" if odd else "no such guard",
        f"`{_guard_code(reference[0])}`" if reference else "no such guard",
        "Use the same modes and values on all ranks, if a later call depends on them",
    )


def _tensor(line: str) -> str:
    """The tensor that a guard checks."""
    return line.partition("check_tensor(")[2].partition(", ")[0]


def _tensor_properties(line: str) -> dict[str, str]:
    code = line.partition("check_tensor(")[2].partition("  #")[0]
    dtype = re.search(r"\btorch\.\w+", code)
    named = dict(re.findall(r"(\w+)=(\[[^\]]*\]|[^,)]+)", code))
    keys = re.search(r"DispatchKeySet\(([^)]*)\)", code)
    return {
        "requires_grad": named.get("requires_grad", ""),
        "dtype": dtype[0] if dtype is not None else "",
        **{key: value for key, value in named.items() if key != "requires_grad"},
        "dispatch keys": keys[1] if keys is not None else "",
    }


def _on_off(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else short(json.dumps(value))


def _state_words(key: str, odd: object, reference: object) -> tuple[str, str]:
    """A part of the global state on both sides, as users set it."""
    name = _STATE_WORDS.get(key, f"`{key}`")
    if key == "autocast_state" and isinstance(odd, dict) and isinstance(reference, dict):
        return _autocast_words(odd), _autocast_words(reference)
    if key == "default_dtype":
        return f"{name} {_dtype(odd)}", f"{name} {_dtype(reference)}"
    return f"{name} {_on_off(odd)}", f"{name} {_on_off(reference)}"


def _autocast_words(state: Mapping[str, object]) -> str:
    """`autocast off`, `autocast on for the CPU (bfloat16)`."""
    enabled, dtypes = state.get("enabled"), state.get("dtype")
    if not isinstance(enabled, list) or not isinstance(dtypes, list):
        return "autocast in another state"
    on = [
        f"{_DEVICES[index] if index < len(_DEVICES) else 'another device'} ({_dtype(dtype)})"
        for index, (is_on, dtype) in enumerate(zip(enabled, dtypes, strict=False))
        if is_on
    ]
    words = f"autocast on for {format_list(on)}" if on else "autocast off"
    return words if state.get("cached_enabled") is not False else f"{words}, without its cache of weights"


def _dtype(number: object) -> str:
    return _DTYPES.get(number, "another dtype") if isinstance(number, int) else short(str(number))


def _global_state(lines: Sequence[str]) -> dict[str, object] | None:
    for line in lines:
        _, mark, text = line.partition("___check_global_state() against ")
        if mark:
            try:
                state = parse_json(text)
            except ValueError:
                return None
            return state if isinstance(state, dict) else None
    return None


def _guard_code(line: str) -> str:
    code = line.partition("+- ")[2].partition(": ")[2].partition("  #")[0]
    return short(in_user_words(code))
