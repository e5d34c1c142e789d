"""`module.to()`, `.half()` and `.cuda()` of modules with fake parameters: torch swaps these, and refuses to.

Invariant: tensors with data are swapped by torch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from fuselight.adapters.torch_api.patching import wrapped


def convertible_parameters() -> contextlib.AbstractContextManager[None]:
    """Inside, a fake parameter takes the storage of its converted form: torch refuses to swap the two."""
    return wrapped(torch.utils, "swap_tensors", _swapped)


def _swapped(real: Callable[..., Any], parameter: torch.Tensor, converted: torch.Tensor) -> None:
    if isinstance(parameter, FakeTensor) and isinstance(converted, FakeTensor):
        parameter.data = converted.data
    else:
        real(parameter, converted)
