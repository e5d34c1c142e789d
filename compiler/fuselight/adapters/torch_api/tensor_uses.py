"""Which Python uses of a tensor differ from those of the number that it holds: as a key, and as text."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo.targets import skip_frames
from fuselight.adapters.torch_api.patching import patched


@contextlib.contextmanager
def heard_uses(on_key: Callable[[str], None], on_text: Callable[[], None]) -> Iterator[None]:
    """Inside, hear of each hash and each text of a plain tensor without dimensions.

    `on_key` gets the file whose code asks for the hash: torch has sets of tensors of its own. Code between
    graphs asks, too: Dynamo leaves these functions to Python there, as it would count them as frames of the program.
    """
    real_hash: Callable[[Any], int] = torch.Tensor.__hash__
    real_repr: Callable[..., str] = torch.Tensor.__repr__

    @functools.wraps(real_hash)
    def hashed(tensor: Any) -> int:
        if _is_number(tensor):
            on_key(sys._getframe(1).f_code.co_filename)  # noqa: SLF001 - the caller
        return real_hash(tensor)

    @functools.wraps(real_repr)
    def shown(tensor: Any, **options: Any) -> str:
        if _is_number(tensor):
            on_text()
        return real_repr(tensor, **options)

    functions: tuple[Any, ...] = (hashed, shown, _is_number)
    for function in functions:
        skip_frames(function.__code__)
    with patched(torch.Tensor, "__hash__", hashed), patched(torch.Tensor, "__repr__", shown):
        yield


def _is_number(tensor: Any) -> bool:
    return type(tensor) is torch.Tensor and tensor.dim() == 0
