"""Estimated times of the user's own Triton kernels, in the graphs that launch them.

Inductor's graph has the bytes of such a launch, and nothing of what the kernel does. Invariant: a launch has one
estimated time, wherever it is shown: that of its compiled kernel, or none for that kernel's reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fuselight.shared.report import GeneratedGraph, Kernel, KernelKind, OwnKernel

_NUMBER = re.compile(r"_\d+$")


def with_own_estimates(
    graphs: Sequence[GeneratedGraph], own: Sequence[OwnKernel]
) -> tuple[GeneratedGraph, ...]:
    """Give each launch of an own kernel in `graphs` the estimate of the compiled kernel of the same sizes."""
    compiled = [kernel for kernel in own if kernel.estimate_us is not None or kernel.not_estimated]
    return tuple(
        replace(graph, kernels=tuple(_estimated(kernel, compiled) for kernel in graph.kernels))
        for graph in graphs
    )


def _estimated(kernel: Kernel, own: Sequence[OwnKernel]) -> Kernel:
    if kernel.kind is not KernelKind.USER_TRITON:
        return kernel
    named = [other for other in own if other.name == _NUMBER.sub("", kernel.name)]
    # Of several specializations, the one of these sizes: atomic operations may count as reads, or not.
    differences = [abs(_moved(other) - _moved(kernel)) for other in named]
    meant = [
        other for other, difference in zip(named, differences, strict=True) if difference == min(differences)
    ]
    estimates = {(other.estimate_us, other.bound) for other in meant}
    if len(estimates) != 1:
        return kernel
    ((estimate_us, bound),) = estimates
    return replace(kernel, estimate_us=estimate_us, bound=bound)


def _moved(kernel: Kernel | OwnKernel) -> int:
    return (kernel.bytes_read or 0) + (kernel.bytes_written or 0)
