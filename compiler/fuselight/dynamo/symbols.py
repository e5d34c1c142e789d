"""The symbolic sizes of one compile: which stayed dynamic, and which torch specialized.

Invariant: `stack` is the traced stack at the moment when torch specialized the symbol to a number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fuselight.dynamo import stacks
from fuselight.report import Stack, Symbol
from fuselight.torch_api import artifacts, frames
from fuselight.trace import torch_texts


@dataclass
class _Born:
    symbol: Any
    source: str
    value: str
    marked: bool


@dataclass
class SymbolLog:
    """Symbols of the newest attempt at one compile: a restart begins with a new ShapeEnv, and so does the log."""

    shape_env: Any = None
    born: dict[str, _Born] = field(default_factory=dict)
    fixed: dict[str, tuple[str, str, Stack]] = field(default_factory=dict)

    def _enter(self, shape_env: Any) -> None:
        if shape_env is not self.shape_env:
            self.shape_env = shape_env
            self.born.clear()
            self.fixed.clear()

    def created(self, shape_env: Any, symbol: object, value: object, source: Any, *, marked: bool) -> None:
        """A size was given to the ShapeEnv: it became a symbol, or a number at once."""
        self._enter(shape_env)
        name = artifacts.source_name(source)
        if "storage_offset" in name and not artifacts.is_symbol(symbol):
            return  # nearly every tensor starts at 0 of its storage
        self.born.setdefault(name, _Born(symbol, torch_texts.in_user_words(name), str(value), marked))

    def specialized(self, shape_env: Any, symbol: object, value: object, reason: str) -> None:
        """A symbol was specialized to a number. Only the first time is kept: it is the one that the user can act on."""
        self._enter(shape_env)
        self.fixed.setdefault(str(symbol), (str(value), reason, stacks.from_summaries(frames.user_stack())))

    def read(self) -> tuple[Symbol, ...]:
        """Each size that could have been dynamic, as a Symbol."""
        return tuple(self._read(born) for born in self.born.values())

    def _read(self, born: _Born) -> Symbol:
        if not artifacts.is_symbol(born.symbol):
            return Symbol(
                name=str(born.symbol),
                source=born.source,
                hint=born.value,
                specialized_to=str(born.symbol),
                marked=born.marked,
                reason="sizes 0 and 1 are always specialized" if born.value in {"0", "1"} else None,
            )
        hint, bounds = artifacts.symbol_facts(self.shape_env, born.symbol)
        value, reason, stack = self.fixed.get(str(born.symbol), (None, None, ()))
        return Symbol(
            name=str(born.symbol),
            source=born.source,
            hint=hint,
            range=bounds,
            specialized_to=value,
            marked=born.marked,
            reason=reason,
            stack=stack,
        )
