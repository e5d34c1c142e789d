"""Records what TorchDynamo does to a target, as parts of a Report.

Enter a `Recorder` around the calls. Inside `capture_only`, no graph is compiled after Dynamo captured it.
"""

from __future__ import annotations

from fuselight.adapters.environment import environment as environment
from fuselight.adapters.environment import versions as versions
from fuselight.adapters.torch_api.dynamo.aot_graphs import enters_inference_mode as enters_inference_mode
from fuselight.capture.dynamo.backend import AotCapture as AotCapture
from fuselight.capture.dynamo.backend import CompileCall as CompileCall
from fuselight.capture.dynamo.backend import CompileCalls as CompileCalls
from fuselight.capture.dynamo.backend import capture_backend as capture_backend
from fuselight.capture.dynamo.backend import capture_only as capture_only
from fuselight.capture.dynamo.failures import failure_of as failure_of
from fuselight.capture.dynamo.recorder import Parts as Parts
from fuselight.capture.dynamo.recorder import Recorder as Recorder
