"""The catalogue in `published.json`: what vendors publish of their devices.

Invariant: each figure is from the document that `source` names; what is not published is None or 0. What one
multiprocessor can hold is from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": of a
block's shared memory the driver keeps 1 KiB from Ampere on. AMD's registers are a vector register file of 512 KiB, and
its L2 is the sum of 8 dies. Rates are dense: a data sheet that gives them with sparsity only is halved. Of two rates
for one dtype it is the one with FP32 accumulation, which is how PyTorch multiplies matrices. FP64 of GeForce and
inference cards is 1/64 of FP32 (1/32 before Ampere), as their white papers say.
"""

from __future__ import annotations

from fuselight.shared.codec import read_table
from fuselight.shared.report import Device

DEVICES = read_table(tuple[Device, ...], __file__)
