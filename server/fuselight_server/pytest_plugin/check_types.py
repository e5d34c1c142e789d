"""What the hooks of every session know of checks, without an import of what makes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import pytest


class Counted(Protocol):
    """What a check is to those that compare its numbers."""

    @property
    def graphs(self) -> int:
        """Graphs."""
        ...

    @property
    def breaks(self) -> int:
        """Graph breaks."""
        ...

    @property
    def recompiles(self) -> int:
        """Recompilations."""
        ...

    def condition_notes(self) -> list[str]:
        """What its numbers depend on besides the code."""
        ...


RECORD = "fuselight"
"""The attribute of a test report that has the record of its checks."""


@dataclass(frozen=True)
class StoppedCheck:
    """A check that something other than its code ended: a timeout, Ctrl-C. Nothing is known of its numbers."""

    label: str
    reason: str
    path: str
    line: int


CHECKS: pytest.StashKey[list[Counted | StoppedCheck]] = pytest.StashKey()
"""The checks of a test item, in order, until its teardown ends."""

INTERRUPTED: pytest.StashKey[dict[str, list[Counted | StoppedCheck]]] = pytest.StashKey()
"""In the configuration: the checks of tests by their names, of which pytest makes no report, as Ctrl-C ended them."""

START_VARIABLE = "FUSELIGHT_PYTEST_START"
"""In a test that another one has started for its caches: what it is asked for, as JSON."""


_GROUPED = re.compile(r"(?P<test>.+::[^@\[\]]+(?:\[.*\])?)@[^\]]*")


def test_name(node_id: str) -> str:
    """The name of a test, without the group that `--dist loadgroup` of pytest-xdist adds: `@gpu`."""
    match = _GROUPED.fullmatch(node_id)
    return node_id if match is None else match["test"]


class Explained:
    """A value of a check, whose comparison in an `assert` is explained."""

    def explanation(self) -> list[str]:
        """A few lines that say why it is what it is."""
        raise NotImplementedError
