"""Which Python uses of a tensor differ from those of the number that it holds: as a key, and as text."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fuselight.adapters.torch_api.patching import wrapped


@contextlib.contextmanager
def heard_uses(on_key: Callable[[str], None], on_text: Callable[[], None]) -> Iterator[None]:
    """Inside, hear of each hash and each text of a plain tensor without dimensions.

    `on_key` gets the file whose code asks for the hash: torch has sets of tensors of its own.
    """

    def hashed(real: Callable[..., int], tensor: Any) -> int:
        if _is_number(tensor):
            on_key(sys._getframe(2).f_code.co_filename)  # noqa: SLF001 - the caller of the wrapper
        return real(tensor)

    def shown(real: Callable[..., str], tensor: Any, **options: Any) -> str:
        if _is_number(tensor):
            on_text()
        return real(tensor, **options)

    with wrapped(torch.Tensor, "__hash__", hashed), wrapped(torch.Tensor, "__repr__", shown):
        yield


def _is_number(tensor: Any) -> bool:
    return type(tensor) is torch.Tensor and tensor.dim() == 0
