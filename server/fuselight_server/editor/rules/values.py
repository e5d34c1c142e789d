"""What the value of an expression is known to be, and what follows for the expressions around it.

Invariant: an expression that could have a value of another kind has no value here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuselight.shared.report import FactKind, TracedValue


@dataclass(frozen=True)
class KnownValue:
    """What all values that an expression had have in common."""

    kind: FactKind
    dtype: str = ""
    """Tensors only, as `f32`; empty where it varies or is not known."""
    rank: int | None = None
    """Tensors only: the number of dimensions; None where it varies or is not known."""
    text: str = ""
    """Of a constant, as `12` or `'relu'`; empty where it varies."""

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return self.kind is FactKind.TENSOR

    @property
    def is_floating(self) -> bool:
        """Whether it is a tensor of floating-point numbers."""
        return self.is_tensor and self.dtype.startswith(("f", "bf"))

    @property
    def is_integral(self) -> bool:
        """Whether it is a tensor of integers."""
        return self.is_tensor and self.dtype[:1] in {"i", "u"}

    @property
    def is_mask(self) -> bool:
        """Whether it is a tensor of bools."""
        return self.is_tensor and self.dtype in {"b8", "bool"}


TENSOR = KnownValue(FactKind.TENSOR)
"""A tensor of which nothing more is known."""


def value_of(values: Sequence[TracedValue]) -> KnownValue | None:
    """What traced values have in common; None if they are of different kinds."""
    kinds = {value.kind for value in values}
    if len(kinds) != 1:
        return None
    kind = kinds.pop()
    texts = {value.text for value in values}
    if kind is not FactKind.TENSOR:
        return KnownValue(kind, text=texts.pop() if len(texts) == 1 else "")
    dtypes = {text.partition("[")[0] for text in texts}
    ranks = {value.rank for value in values}
    return KnownValue(
        kind, dtypes.pop() if len(dtypes) == 1 else "", ranks.pop() if len(ranks) == 1 else None
    )


def common(value: KnownValue | None, other: KnownValue | None) -> KnownValue | None:
    """What two values have in common."""
    if value is None or other is None or value.kind is not other.kind:
        return None
    return KnownValue(
        value.kind,
        value.dtype if value.dtype == other.dtype else "",
        value.rank if value.rank == other.rank else None,
        value.text if value.text == other.text else "",
    )
