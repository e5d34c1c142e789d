"""Where NaN or infinity first comes from in a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fuselight.adapters.torch_api.dynamo import names
from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.tensors import tensors_in
from fuselight.capture.dynamo import stacks
from fuselight.measure.accuracy.results import held_tensors
from fuselight.shared.report import Stack

Test = Callable[[torch.Tensor], torch.Tensor]
_MAX_NAMES = 3


def non_finite_test(value: Any) -> Test | None:
    """What finds again what the tensors of a value hold: NaN, else infinity; None if all are finite."""
    tests: tuple[Test, ...] = (torch.isnan, torch.isinf)
    return next((test for test in tests if any(has_any(tensor, test) for tensor in tensors_in(value))), None)


def has_any(tensor: torch.Tensor, test: Test) -> bool:
    """Whether a test holds for an element of a tensor with plain floating-point elements."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return False
    if tensor.is_meta or not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    with torch.no_grad():
        return bool(test(tensor.detach()).any())


def tested_inputs(prepared: Prepared, test: Test) -> tuple[str, ...]:
    """The arguments, parameters and buffers of a call for which a test holds, up to a few."""
    held = (name for name, tensor in held_tensors(prepared) if has_any(tensor, test))
    return tuple(name for name, _ in zip(held, range(_MAX_NAMES), strict=False))


class FirstTestedLine(TorchFunctionMode):
    """Inside, the first function is noted whose result a test holds for, and none of whose arguments."""

    def __init__(self, test: Test) -> None:
        super().__init__()
        self._test = test
        self.stack: Stack = ()
        self.operator = ""

    def __torch_function__(
        self, func: Callable[..., Any], _types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call a function, and look at what it returns."""
        result = func(*args, **(kwargs or {}))
        if not self.operator and isinstance(result, torch.Tensor) and has_any(result, self._test):
            given = tensors_in([list(args), kwargs or {}])
            if given and not any(has_any(tensor, self._test) for tensor in given if tensor is not result):
                self.stack, self.operator = stacks.calling_frames(), names.target_name(func)
        return result
