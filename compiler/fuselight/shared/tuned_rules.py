"""Which values a tuned file may have: what a search can write, with its types and ranges. Standard library only.

A tuned file may come with a repository, and its options and launch configurations become part of compiled code.
Invariant: nothing is allowed that names a program, a path, a hook, a callable or code; what is not listed is refused.
`tuned_rules.json` lists the options that are on or off, and those that are a count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fuselight.shared.codec import read_table
from fuselight.shared.report.tuned import ATTENTION, PRECISION, TunedResult

_Rule = Callable[[Any], bool]
_MAX = 2**31
_LONGEST = 4096
"""Characters of a text, and names of submodules."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_HASH = re.compile(r"[A-Za-z0-9_-]{1,128}")
_WORD = re.compile(r"[a-z0-9_]{0,32}")
_ARTIFACTS = re.compile(r"[A-Za-z0-9_.-]{0,200}")


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(least: int, most: int, *, or_none: bool = False) -> _Rule:
    def holds(value: Any) -> bool:
        if value is None:
            return or_none
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return holds


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _LONGEST


def _names(*known: str) -> _Rule:
    def holds(value: Any) -> bool:
        return isinstance(value, str) and all(part.strip().upper() in known for part in value.split(","))

    return holds


_BACKENDS = _names("ATEN", "TRITON", "CPP", "CUTLASS", "CK", "CKTILE")
_SPACES = _names("DEFAULT", "EXHAUSTIVE")
_NAMES = read_table(dict[str, tuple[str, ...]], __file__)
_OTHERS: dict[str, _Rule] = {
    "cpp.simdlen": _is_number(0, 2048, or_none=True),
    "cpp.threads": _is_number(-1, 1024),
    "max_autotune_conv_backends": _BACKENDS,
    "max_autotune_gemm_backends": _BACKENDS,
    "max_autotune_gemm_search_space": _SPACES,
    "max_autotune_flex_search_space": _SPACES,
    "max_fusion_unique_io_buffers": _is_number(0, _MAX, or_none=True),
    "min_overlap_ratio": _is_share,
    "multi_kernel_hints": lambda value: (
        isinstance(value, list) and len(value) <= _LONGEST and all(map(_is_number(1, _MAX), value))
    ),
    "realize_acc_reads_threshold": _is_number(0, _MAX, or_none=True),
    "realize_opcount_threshold": _is_number(0, _MAX, or_none=True),
    "triton.max_tiles": _is_number(1, 3, or_none=True),
    "triton.multi_kernel": _is_number(0, 3),
}
OPTIONS: Mapping[str, _Rule] = {
    **dict.fromkeys(_NAMES["switches"], _is_switch),
    **dict.fromkeys(_NAMES["counts"], _is_number(0, _MAX)),
    **_OTHERS,
}
"""Inductor's options that a search may write: whether a value is allowed, by name."""


def refused_option(name: str, value: Any) -> str:
    """Why an option of Inductor cannot be in a tuned file; empty if it can."""
    rule = OPTIONS.get(name.replace("-", "_"))
    if rule is None:
        return f"the option `{name}`, which a search cannot set"
    return "" if rule(value) else f"the value `{_shown(value)}` of the option `{name}`"


def refused_values(result: TunedResult) -> Iterator[str]:
    """What a result has that no search writes, each in words that follow `it has`."""
    for name, value in result.options.items():
        if refused := refused_option(name, value):
            yield refused
    for what, text, known, pattern in (
        ("attention", result.preparation.attention, ATTENTION, _WORD),
        ("precision", result.preparation.precision, PRECISION, _WORD),
        ("artifacts", result.artifacts, (), _ARTIFACTS),
    ):
        if text not in known and not pattern.fullmatch(text):
            yield f"the {what} `{_shown(text)}`"
    for block in result.blocks:
        if not all(re.fullmatch(r"\w+", part) for part in block.split(".")):
            yield f"the submodule `{_shown(block)}`"
    for family, choices in result.kernels.items():
        for key, choice in choices.items():
            if not _is_choice(family, choice):
                yield f"the value `{_shown(choice)}` of the kernel choice `{_shown(family)}` `{_shown(key)}`"


def _is_choice(family: str, choice: Any) -> bool:
    """Whether a choice of kernel tuning is plain data; a family that this version does not know is not used."""
    if family == "triton":
        return isinstance(choice, dict) and all(_is_launch(name, value) for name, value in choice.items())
    if family == "algorithms":  # it is only compared
        return isinstance(choice, str) and len(choice) <= _LONGEST
    if family in {"padding", "fusion"}:
        return isinstance(choice, bool)
    return family != "multi_kernel" or _is_number(0, _LONGEST)(choice)


def _is_launch(name: str, value: Any) -> bool:
    """Whether a part of a launch configuration is a number: Inductor writes it into the code that launches a kernel."""
    if name in {"configs_hash", "triton_cache_hash"}:
        return value is None or (isinstance(value, str) and bool(_HASH.fullmatch(value)))
    if name == "extra_options":
        return not value
    if name == "time_taken_ms":  # nobody reads it
        return isinstance(value, (int, float))
    return bool(_NAME.fullmatch(name)) and isinstance(value, int) and -1 <= value <= _MAX


def _shown(value: Any) -> str:
    text = ascii(value) if not isinstance(value, str) else ascii(value)[1:-1]
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - for one line
