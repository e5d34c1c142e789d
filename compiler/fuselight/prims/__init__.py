"""Records what the operators of captured graphs decompose into, as parts of a Report."""

from __future__ import annotations

from fuselight.prims.paths import OperatorPaths as OperatorPaths
from fuselight.prims.paths import OperatorSet as OperatorSet
