"""Records what TorchDynamo does to a target, as parts of a Report.

Enter a `Recorder` around the calls. Inside `capture_only`, no graph is compiled after Dynamo captured it.
"""

from __future__ import annotations

from fuselight.dynamo.backend import CompileCall, CompileCalls, capture_backend, capture_only
from fuselight.dynamo.failures import failure_of
from fuselight.dynamo.recorder import Parts, Recorder
from fuselight.environment import environment, versions

__all__ = [
    "CompileCall",
    "CompileCalls",
    "Parts",
    "Recorder",
    "capture_backend",
    "capture_only",
    "environment",
    "failure_of",
    "versions",
]
