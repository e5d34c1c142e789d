"""Records what the operators of captured graphs decompose into, as parts of a Report."""

from __future__ import annotations

from fuselight.prims.paths import OperatorPaths, OperatorSet

__all__ = ["OperatorPaths", "OperatorSet"]
