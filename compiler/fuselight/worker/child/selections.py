"""The torch.where calls that replace a branch: whether their sides are alike, and whether both were taken.

A branch returns the side that it takes, torch.where a tensor of the shape and dtype that both sides have together.
Where they differ, the new text is wrong as soon as the other side is taken, which the compared calls need not do.
Invariant: no call does anything else because it is watched.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fuselight.shared.report.verification import ONE_SIDE

_SHOWN = 80
_SIDES = 3
"""Arguments of torch.where that selects values: the condition and two sides."""


class SelectionWatch(TorchFunctionMode):
    """Sees the torch.where calls of changed files whose condition is one element."""

    def __init__(self, path: str, texts: Mapping[str, str]) -> None:
        """`path`: the file of the target. `texts`: the changed files."""
        super().__init__()
        self.known: set[str] = set()
        """Lines that the old text has as well: nothing is said of them."""
        self.mixed = ""
        """What differs between the sides of a new one, in words; empty if nothing does."""
        self._lines: dict[str, list[str]] = {
            **({} if path in texts else {path: linecache.getlines(path)}),
            **{name: text.splitlines() for name, text in texts.items()},
        }
        self._taken: dict[str, set[bool]] = {}

    @property
    def lines(self) -> set[str]:
        """The source lines with such a call."""
        return set(self._taken)

    def notes(self) -> Iterator[str]:
        """The new ones whose condition had one value in all calls."""
        for line, values in self._taken.items():
            if line not in self.known and len(values) == 1:
                (value,) = values
                yield f"the condition of `{line[:_SHOWN]}` was always {value}: {ONE_SIDE}"

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the function, and look at it if it selects by one element."""
        del types
        result = func(*args, **(kwargs or {}))
        if func is torch.where and len(args) == _SIDES and isinstance(args[0], torch.Tensor):
            condition, *sides = args
            line = self._line() if condition.numel() == 1 and not condition.is_meta else ""
            if line:
                self._taken.setdefault(line, set()).add(bool(condition))
                words = _mixture(condition, sides, result) if line not in self.known else ""
                if words and not self.mixed:
                    self.mixed = f"`{line[:_SHOWN]}`: {words}"
        return result

    def _line(self) -> str:
        """The source line of the call, if it is in a changed file."""
        frame = sys._getframe(2)  # noqa: SLF001 - the line that calls torch.where
        lines = self._lines.get(frame.f_code.co_filename, [])
        return lines[frame.f_lineno - 1].strip() if frame.f_lineno <= len(lines) else ""


def _mixture(condition: torch.Tensor, sides: Sequence[Any], result: torch.Tensor) -> str:
    """What of the sides torch.where makes alike; empty if they are."""
    for side in sides:
        if isinstance(side, torch.Tensor):
            if (side.shape, side.dtype) != (result.shape, result.dtype):
                return f"one side is {_words(side)}, but torch.where always gives {_words(result)}"
        elif condition.dim() == 0 and result.dim() > 0:
            return f"one side is the number {side}, but torch.where always gives {_words(result)}"
    return ""


def _words(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]"
