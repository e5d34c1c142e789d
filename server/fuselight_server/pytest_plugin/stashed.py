"""What the hooks of every session know of checks, without an import of what makes them."""

from __future__ import annotations

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


CHECKS: pytest.StashKey[list[Counted]] = pytest.StashKey()
"""The checks of a test item, in order, until its teardown ends."""


START_VARIABLE = "FUSELIGHT_PYTEST_START"
"""In a test that another one has started for its caches: what it is asked for, as JSON."""


class Explained:
    """A value of a check, whose comparison in an `assert` is explained."""

    def explanation(self) -> list[str]:
        """A few lines that say why it is what it is."""
        raise NotImplementedError
