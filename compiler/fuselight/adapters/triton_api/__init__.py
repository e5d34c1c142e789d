"""Compiles the Triton kernels that Inductor generated, for any device, without a GPU and without launching them.

Invariant: nothing outside this package imports Triton or names the private parts of Inductor's Triton runtime, and
`assemble` never raises: `failure` and `problems` report what is missing. Written for Triton 3.6 to 3.9 with torch
2.11 to 2.15.
"""

from fuselight.adapters.triton_api.assembler import assemble as assemble
from fuselight.adapters.triton_api.names import ptxas as ptxas
from fuselight.shared.report import Assembled as Assembled
