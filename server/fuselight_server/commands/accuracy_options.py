"""What a comparison of results can be asked for: one list, of which each face makes its options.

Invariant: a value that does not fit is an AccuracyOptionError before anything runs, and names no face's option.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fuselight.shared.configurations import ConfigurationError, parse_configuration

TRIES: dict[str, int | None] = {"0": 0, "some": 6, "all": None}
"""By name, how many settings of a stage are tried, the most likely first; None: all."""
_DEVICE = re.compile(r"cpu|cuda(:\d+)?|")


class AccuracyOptionError(ValueError):
    """A value that an option does not take."""


@dataclass(frozen=True)
class AccuracyPlan:
    """How much is done to explain a wrong call."""

    locate_seconds: float = 60.0
    """For the search of the first line that differs, in each function that is wrong; 0 for no search."""
    tries: int | None = TRIES["some"]
    training: bool | None = None
    """Whether targets with inputs of their own are trained; None: as the directive says."""
    device: str = ""
    """Where targets with inputs of their own run; empty: where their source puts them."""
    against: str = ""
    """The configuration that calls are compared with; empty: eager mode."""
    kernels: bool = False
    """Whether the kernels of calls that are right are judged, too."""


@dataclass(frozen=True)
class AccuracyOption:
    """One option."""

    name: str
    """As agents and tests write it."""
    words: str
    """What it decides, with the default."""
    default: str | float | bool
    flag: str = ""
    """In a terminal, without dashes; empty: the name."""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    most: float | None = None
    is_of_programs: bool = True
    """Whether it holds for programs, too: a test runs as one."""

    @property
    def terminal_flag(self) -> str:
        """`locate`."""
        return self.flag or self.name


ACCURACY_OPTIONS = (
    AccuracyOption(
        "tries",
        "which settings of torch that may cure a wrong result are tried: none, the first 6 of its stage, or all, until "
        "one cures",
        "some",
        choices=tuple(TRIES),
    ),
    AccuracyOption(
        "locate_seconds",
        "seconds to search the first line that differs, in each function that is wrong, 0 for no search",
        AccuracyPlan.locate_seconds,
        flag="locate",
        metavar="SECONDS",
        most=600.0,
    ),
    AccuracyOption(
        "against",
        "what calls are compared with: eager, or a configuration as `fuselight bench --compare` takes it, as default "
        "or max-autotune-no-cudagraphs+tf32 (default: eager)",
        "",
        metavar="NAME",
    ),
    AccuracyOption(
        "device",
        "where targets with inputs of their own run: cpu, cuda or cuda:1 (default: as their source says)",
        "",
        metavar="DEVICE",
        is_of_programs=False,
    ),
    AccuracyOption(
        "kernels",
        "also replay each generated kernel of right calls on its own inputs, next to its operators",
        default=False,
    ),
)


def accuracy_plan(values: Mapping[str, Any], *, training: bool | None = None) -> AccuracyPlan:
    """The plan that values by the names of options ask for; others have defaults. Raises AccuracyOptionError."""
    given = {option.name: values.get(option.name, option.default) for option in ACCURACY_OPTIONS}
    tries = str(given["tries"])
    if tries not in TRIES:
        raise AccuracyOptionError(f"`tries` is `{tries}`: give {', '.join(TRIES)}")
    return AccuracyPlan(
        float(given["locate_seconds"]),
        TRIES[tries],
        training,
        read_device(str(given["device"])),
        compared_with(str(given["against"])),
        bool(given["kernels"]),
    )


def compared_with(text: str) -> str:
    """The name of a configuration that compiled calls can be compared with; empty for eager mode.

    Raises AccuracyOptionError for a configuration that does more than compile otherwise.
    """
    if not text.strip():
        return ""
    try:
        asked = parse_configuration(text.strip())
    except ConfigurationError as error:
        raise AccuracyOptionError(str(error)) from None
    if asked.eager:
        return ""
    if asked.written:
        raise AccuracyOptionError(f"{text!r} is what is compared: name another configuration, or eager")
    if asked.blocks or asked.optimizer or asked.fixes or asked.fixed_modules:
        raise AccuracyOptionError(
            f"{text!r} changes what is compiled, and results are compared call by call: leave out blocks, optimizer, "
            "fixes and fixed_modules"
        )
    return asked.name


def read_device(text: str) -> str:
    """The name of a device on which calls can be made; empty: none is named. Raises AccuracyOptionError."""
    name = text.strip().lower()
    if not _DEVICE.fullmatch(name):
        raise AccuracyOptionError(
            f"`{text}` is no device to run on: name cpu, cuda, or a GPU by its number, as cuda:1"
        )
    return name
