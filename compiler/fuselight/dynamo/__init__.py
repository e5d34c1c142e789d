"""Records what TorchDynamo does to a target, as parts of a Report.

Enter a `Recorder` around the calls. Inside `capture_only`, no graph is compiled after Dynamo captured it.
"""

from __future__ import annotations

from fuselight.dynamo.backend import AotCapture as AotCapture
from fuselight.dynamo.backend import CompileCall as CompileCall
from fuselight.dynamo.backend import CompileCalls as CompileCalls
from fuselight.dynamo.backend import capture_backend as capture_backend
from fuselight.dynamo.backend import capture_only as capture_only
from fuselight.dynamo.failures import failure_of as failure_of
from fuselight.dynamo.recorder import Parts as Parts
from fuselight.dynamo.recorder import Recorder as Recorder
from fuselight.environment import environment as environment
from fuselight.environment import versions as versions
