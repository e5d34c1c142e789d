"""The notation of torch.compile configurations that a benchmark compares. Standard library only.

`NAME[+FLAG]...[+OPTION=VALUE]...`, where NAME is `eager`, `written` (as the source compiles the target), a mode of
torch.compile, or `backend:` and a backend's name. A FLAG is `dynamic`, `static`, `fullgraph`, or a change that
torch.compile has no option for: `channels_last`, `tf32`, `bf16`, `attention=NAME`, `blocks`, `optimizer`, `fixes`,
`fixed_modules`, `longest=N`. An OPTION is one of Inductor's. A value with a comma or a `+` needs quotes or brackets, as
in Python.
Invariant: unreadable text raises a `ConfigurationError` that names the wrong part.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.shared.foreign_data import parse_literal
from fuselight.shared.report.tuned import ATTENTION, PRECISION, Preparation

EAGER = "eager"
WRITTEN = "written"
MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
AUTOTUNING_MODES = ("max-autotune", "max-autotune-no-cudagraphs")
"""The modes that time kernels while they compile."""
_BACKEND = "backend:"
_FLAGS = ("dynamic", "static", "fullgraph")
_AUTOTUNING = frozenset({"max_autotune", "max_autotune_gemm"})
"""Options by which Inductor times implementations of multiplications."""
_TUNING_LAUNCHES = frozenset({"max_autotune", "max_autotune_pointwise", "coordinate_descent_tuning"})
"""Options by which Inductor times more launch configurations of generated kernels."""
_CHANNELS_LAST, _ATTENTION, _LONGEST = "channels_last", "attention", "longest"
_TARGET_FLAGS = ("blocks", "optimizer", "fixes", "fixed_modules")


class ConfigurationError(ValueError):
    """A configuration that cannot be read."""


@dataclass(frozen=True)
class Configuration:
    """One way to run a target."""

    name: str
    """The text that the user wrote."""
    eager: bool = False
    written: bool = False
    """Compile as the source does, if it does."""
    mode: str | None = None
    backend: str | None = None
    dynamic: bool | None = None
    fullgraph: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    """Inductor options, as in `torch.compile(options=...)`."""
    preparation: Preparation = field(default_factory=Preparation)
    blocks: bool = False
    """Compile the repeated blocks of the model one by one instead of the whole."""
    optimizer: bool = False
    """Compile the optimizer's step too."""
    fixes: bool = False
    """Run the source with its verified fixes applied."""
    fixed_modules: bool = False
    """Check no guards on modules before a call, as if the modules never changed after the first one."""
    longest: int = 0
    """Where implementations of multiplications and convolutions are timed, those of a graph that are timed: the ones
    that are expected to take the longest. 0: all."""

    @property
    def times_multiplications(self) -> bool:
        """Whether Inductor times several implementations of each multiplication while it compiles."""
        return self._times(_AUTOTUNING)

    @property
    def tunes_launches(self) -> bool:
        """Whether Inductor times more launch configurations of each generated kernel than it does anyway."""
        return self._times(_TUNING_LAUNCHES)

    @property
    def times_kernels(self) -> bool:
        """Whether Inductor times more than it times in every compile."""
        return self.times_multiplications or self.tunes_launches

    def _times(self, by: frozenset[str]) -> bool:
        """Whether Inductor times kernels while it compiles, by one of these options or by its mode."""
        options = {name.replace("-", "_") for name, value in self.options.items() if value}
        return self.mode in AUTOTUNING_MODES or bool(self.mode and options & by)


def configuration_title(name: str) -> str:
    """`as in source` for the configuration `written`; others as they are named: what a reader sees."""
    return "as in source" if name == WRITTEN else name


def parse_configuration(text: str) -> Configuration:
    """Read one configuration. Raises ConfigurationError, also if a part of it would have no effect."""
    configuration = read_configuration(text)
    if not configuration.longest:
        return configuration
    what = f"{_LONGEST} in {text!r} has no effect"
    if configuration.backend:
        raise ConfigurationError(
            f"{what}: it is for Inductor, and {configuration.backend!r} is another backend"
        )
    if not configuration.times_multiplications:
        raise ConfigurationError(f"{what}, because no multiplication is timed: add max_autotune_gemm=True")
    return configuration


def read_configuration(text: str) -> Configuration:
    """Read one configuration, or the parts that make one with others. Raises ConfigurationError."""
    parts = _parts(text, "+")[0]
    head, *rest = (part.strip() for part in parts)
    if head in {EAGER, WRITTEN}:
        if rest:
            raise ConfigurationError(f"nothing can be added to {head!r}, as in {text!r}")
        return Configuration(head, eager=head == EAGER, written=head == WRITTEN)
    added = _added(text, rest)
    name = "+".join([head, *rest])
    if head == "dynamic":  # short for the default mode with that option
        return Configuration(name, mode="default", **{**added, "dynamic": True})
    if head.startswith(_BACKEND) and len(head) > len(_BACKEND):
        return Configuration(name, backend=head[len(_BACKEND) :], **added)
    if head not in MODES:
        names = [EAGER, WRITTEN, "dynamic", *MODES]
        near = difflib.get_close_matches(head, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)} and {_BACKEND}NAME"
        raise ConfigurationError(f"no configuration {head!r}: {hint}")
    return Configuration(name, mode=head, **added)


def _added(text: str, parts: list[str]) -> dict[str, Any]:
    """The parts after the name, as fields of a Configuration."""
    options: dict[str, Any] = {}
    preparation = Preparation()
    entries: dict[str, Any] = {"options": options}
    for part in parts:
        key, _, value = (name.strip() for name in part.partition("="))
        if key == _ATTENTION and "=" in part:
            preparation = replace(preparation, attention=_attention(value, text))
        elif key == _LONGEST and "=" in part:
            entries["longest"] = _count(value, text)
        elif "=" in part and key:
            options[key] = _value(value)
        elif part in PRECISION:
            preparation = replace(preparation, precision=part)
        elif part == _CHANNELS_LAST:
            preparation = replace(preparation, channels_last=True)
        elif part in _TARGET_FLAGS:
            entries[part] = True
        elif part not in _FLAGS:
            known = (*_FLAGS, _CHANNELS_LAST, *PRECISION, *_TARGET_FLAGS)
            raise ConfigurationError(
                f"{part!r} in {text!r} is unknown: write {', '.join(known)}, {_ATTENTION}=NAME, {_LONGEST}=N or "
                "OPTION=VALUE"
            )
        elif part == "fullgraph":
            entries["fullgraph"] = True
        else:
            entries["dynamic"] = part == "dynamic"
    entries["preparation"] = preparation
    return entries


def _attention(value: str, text: str) -> str:
    if value not in ATTENTION:
        raise ConfigurationError(f"no attention {value!r} in {text!r}: there are {', '.join(ATTENTION)}")
    return value


def _count(value: str, text: str) -> int:
    if not value.isdecimal() or not int(value):
        raise ConfigurationError(
            f"no number {value!r} of multiplications in {text!r}: write {_LONGEST}=8, for example"
        )
    return int(value)


def names_in(text: str) -> tuple[str, ...]:
    """Split a list at commas outside of quotes and brackets. Raises ConfigurationError."""
    parts, left_open = _parts(text, ",")
    if left_open:
        raise ConfigurationError(f"{left_open!r} is not closed in {text!r}")
    return tuple(part.strip() for part in parts if part.strip())


_CLOSES = {"(": ")", "[": "]", "{": "}"}


def _parts(text: str, separator: str) -> tuple[list[str], str]:
    """Split a text at separators outside of quotes and brackets; also returns an unclosed quote or bracket.

    A text with an unclosed quote or bracket is split at every separator, because it is not a Python value.
    """
    parts, waits = [""], ""
    for character in text:
        if character == separator and not waits:
            parts.append("")
            continue
        parts[-1] += character
        if waits and character == waits[-1]:
            waits = waits[:-1]
        elif waits[-1:] in {"'", '"'}:
            continue
        elif character in "\"'":
            waits += character
        elif character in _CLOSES:
            waits += _CLOSES[character]
    if not waits:
        return parts, ""
    opening = next((opening for opening, closing in _CLOSES.items() if closing == waits[-1]), waits[-1])
    return text.split(separator), opening


def _value(text: str) -> Any:
    try:
        return parse_literal({"true": "True", "false": "False", "none": "None"}.get(text.lower(), text))
    except ValueError:
        return text
