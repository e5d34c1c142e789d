"""What calls of an object that exists allocate: the object becomes one of fake tensors, in a process of its own.

Invariant: the object cannot be used afterwards: its parameters have no data any more.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.fake_numbers import assumed_numbers
from fuselight.adapters.virtual_gpu.replayed import ReplayBackend
from fuselight.capture.calls.calls import Prepared, module_of
from fuselight.capture.calls.observed_calls import ObservedCall, without_compile
from fuselight.capture.calls.tensors import tensors_in, with_tensors
from fuselight.shared.report import Device, MemoryEstimate
from fuselight.worker.memory.forms import FormEstimator, eager_form
from fuselight.worker.memory.steps import Step, parameters_of

_COMPILE_SETTINGS = frozenset({"dynamic", "fullgraph"})
"""Arguments of torch.compile that an estimate keeps: the backend is replaced."""


def estimate_calls(
    function: Callable[..., Any],
    calls: Sequence[ObservedCall],
    device: Device,
    roots: tuple[str, ...],
    compile_settings: Mapping[str, Any],
) -> Iterator[MemoryEstimate]:
    """Estimate each call, with its backward if gradients are enabled and something requires one: no optimizer runs."""
    plain, mode = without_compile(function), settings.fake_tensors()
    with mode, assumed_numbers(lambda: None):
        module = module_of(plain)
        if module is not None:
            _make_fake(module, mode)
        named = {name: value for name, value in compile_settings.items() if name in _COMPILE_SETTINGS}
        for call in calls:
            args, kwargs = with_tensors((call.args, dict(call.kwargs)), mode.from_tensor)  # type: ignore[attr-defined]
            prepared = Prepared(plain, args, kwargs)
            given = tensors_in([args, kwargs])
            training = torch.is_grad_enabled() and any(
                tensor.requires_grad for tensor in (*parameters_of(prepared), *given)
            )
            backend = ReplayBackend(device)
            estimator, step = (
                FormEstimator(device, roots, backend),
                Step.of(prepared, "none", training=training),
            )
            with warnings.catch_warnings():  # a test may make errors of those about the device that is absent
                warnings.simplefilter("ignore")
                with eager_form(device):
                    eager = estimator.peak(step, plain, module)
                compiled = estimator.peak(step, torch.compile(plain, backend=backend, **named))
            yield MemoryEstimate(
                "",
                training,
                eager=eager.peak,
                compiled=compiled.peak,
                why_not_eager=eager.why_not,
                why_not_compiled=compiled.why_not,
            )


def _make_fake(module: torch.nn.Module, mode: Any) -> None:
    """Replace parameters and buffers by fake ones: one that is there twice stays one."""
    for part in module.modules():
        for tensors in (part._parameters, part._buffers):  # noqa: SLF001 - to assign them would be checked by hooks
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = mode.from_tensor(tensor)
