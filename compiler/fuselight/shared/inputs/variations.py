"""Other sizes and layouts of the tensors of a directive, as further directives.

Sizes that belong together change together: equal ones, multiples of each other at the same place of two tensors, and
numbers of the call that are equal to a size. Invariant: a varied directive differs from its original in sizes,
strides, numbers equal to a size and, with a reference, signs, and in nothing else; what may depend on a size in another
way is not varied.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fuselight.shared.inputs.grammar import OPTIONS, Directive, DirectiveError, dtype_of, parse_directive

VariationKind = Literal["remainder", "one", "zero", "slice", "transposed", "negative"]
"""`remainder`: a little smaller, and no multiple of a block. `one`: that size. `zero`: no rows. `slice`, `transposed`:
the same sizes with other strides. `negative`: the same sizes, and no value above zero."""
_SMALLEST_TIED = 8
"""A smaller number of the call may be a dimension or a flag as well as a size: then neither is varied."""
_BLOCK = 8
"""A remainder is not a multiple of it."""
_PADDING = 7
"""Elements after a row of a slice."""
_MAX_VIEWED = 3
"""Maximum tensors of a call whose strides are varied."""


@dataclass(frozen=True)
class _Number:
    start: int
    """In UTF-8 bytes of the directive."""
    end: int
    value: int


@dataclass
class _Tensor:
    node: ast.Subscript
    sizes: list[_Number | None]
    """None: not a literal."""
    is_plain: bool
    """Whether nothing is made of the tensor before it is passed."""


@dataclass(frozen=True)
class SizeGroup:
    """Sizes that change together."""

    base: int
    """Each of them is a multiple of it."""
    numbers: tuple[_Number, ...] = field(repr=False)
    is_common: bool = True
    """Whether each tensor has one of these sizes."""
    lowest: int = 0
    """Smallest base at which other numbers of the call still fit."""


@dataclass(frozen=True)
class Variation:
    """A directive that was made of another one."""

    text: str
    kind: VariationKind
    is_common: bool = True
    """Whether sizes of each tensor have changed, or none."""

    @property
    def is_of_strides(self) -> bool:
        """Whether strides of a tensor have changed, and no size."""
        return self.kind in {"slice", "transposed"}


class SizedCall:
    """A directive, and the sizes of it that can be varied."""

    def __init__(self, text: str) -> None:
        """Raises DirectiveError."""
        self._directive = parse_directive(text)
        self._text = text.encode("utf-8", "surrogatepass")
        self._tensors = list(_tensors(self._directive))
        self.groups = tuple(_groups(self._directive, self._tensors))

    def with_bases(self, bases: Mapping[int, int]) -> str:
        """The directive, where groups have other bases, by position in `groups`."""
        changes = [
            (number, number.value // self.groups[at].base * base)
            for at, base in bases.items()
            for number in self.groups[at].numbers
        ]
        text = self._text
        for number, value in sorted(changes, key=lambda change: -change[0].start):
            text = text[: number.start] + str(value).encode() + text[number.end :]
        return text.decode("utf-8", "surrogatepass")

    def variations(self) -> Iterator[Variation]:
        """Sizes near those of the call, layouts, then 1 and 0."""
        groups = list(enumerate(self.groups))
        for at, group in groups:
            base = _remainder(group.base)
            if base >= max(1, group.lowest):
                yield Variation(self.with_bases({at: base}), "remainder", group.is_common)
        yield from self._signs()
        yield from self._layouts()
        for at, group in groups:  # a grid of few large blocks does not change with the next smaller size
            base = _remainder(group.base // 2)
            if base >= max(_BLOCK, group.lowest):
                yield Variation(self.with_bases({at: base}), "remainder", group.is_common)
        for at, group in groups:
            if group.lowest <= 1 < _remainder(group.base):
                yield Variation(self.with_bases({at: 1}), "one", group.is_common)
        leading = {tensor.sizes[0] for tensor in self._tensors if len(tensor.sizes) > 1}
        for at, group in groups:
            if group.lowest == 0 and leading & set(group.numbers):
                yield Variation(self.with_bases({at: 0}), "zero", group.is_common)

    def _signs(self) -> Iterator[Variation]:
        """Where a reference says what is right: the 0 of a masked load is the maximum of a row of negative numbers."""
        if any(keyword.arg == "reference" for keyword in self._directive.call.keywords):
            plain = [tensor.node for tensor in self._tensors if tensor.is_plain]
            for node in [node for node in plain if "float" in str(dtype_of(node))][:_MAX_VIEWED]:
                start, end = self._directive.span(node)
                text = self._text[:start] + b"-" + self._text[start:end] + b".abs()" + self._text[end:]
                yield Variation(text.decode("utf-8", "surrogatepass"), "negative")

    def _layouts(self) -> Iterator[Variation]:
        viewed = [tensor for tensor in self._tensors if tensor.is_plain and len(tensor.sizes) > 1]
        for tensor in viewed[:_MAX_VIEWED]:
            *outer, rows, columns = tensor.sizes
            if rows is None or columns is None or min(rows.value, columns.value) <= 1:
                continue
            colons = ":, " * (len(tensor.sizes) - 1)
            wider = {columns: columns.value + _PADDING}
            yield Variation(self._with_view(tensor, wider, f"[{colons}:{columns.value}]"), "slice")
            swapped = {rows: columns.value, columns: rows.value}
            view = ".transpose(-2, -1)" if outer else ".t()"
            yield Variation(self._with_view(tensor, swapped, view), "transposed")

    def _with_view(self, tensor: _Tensor, sizes: Mapping[_Number, int], view: str) -> str:
        _, end = self._directive.span(tensor.node)
        text = self._text[:end] + view.encode() + self._text[end:]
        for number, value in sorted(sizes.items(), key=lambda item: -item[0].start):
            text = text[: number.start] + str(value).encode() + text[number.end :]
        return text.decode("utf-8", "surrogatepass")


def sized_call(text: str) -> SizedCall | None:
    """The sizes of a directive; None for one that cannot be read."""
    try:
        return SizedCall(text)
    except DirectiveError:
        return None


def smaller_bases(group: SizeGroup) -> list[int]:
    """Bases to try in place of a group's, the smallest first: around powers of two, where blocks end."""
    tried = {1, 2, 3}
    power = 4
    while power <= group.base:
        tried |= {power + 1} if power > _SMALLEST_TIED else {power, power + 1}
        power *= 2
    return sorted(base for base in tried if group.lowest <= base < group.base)


def _remainder(base: int) -> int:
    """The next smaller size that is not a multiple of a block."""
    smaller = base - 1
    return smaller - 1 if smaller > _BLOCK and smaller % _BLOCK == 0 else smaller


def _tensors(directive: Directive) -> Iterator[_Tensor]:
    inside = {
        child
        for node in ast.walk(directive.call)
        if isinstance(node, (ast.Attribute, ast.BinOp, ast.UnaryOp))
        or (isinstance(node, ast.Subscript) and dtype_of(node) is None)
        for child in ast.iter_child_nodes(node)
    }
    for node in ast.walk(directive.call):
        if isinstance(node, ast.Subscript) and dtype_of(node) is not None:
            sizes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            yield _Tensor(node, [_number(directive, size) for size in sizes], node not in inside)


def _number(directive: Directive, node: ast.AST) -> _Number | None:
    if not isinstance(node, ast.Constant) or type(node.value) is not int:
        return None
    return _Number(*directive.span(node), node.value)


def _groups(directive: Directive, tensors: Sequence[_Tensor]) -> Iterator[SizeGroup]:
    sizes = [[number for number in tensor.sizes if number is not None] for tensor in tensors]
    values = {number.value for numbers in sizes for number in numbers if number.value > 1}
    inside = {number for numbers in sizes for number in numbers}
    others = [number for number in _other_numbers(directive) if number not in inside]
    bounds = _bounds(directive)
    fixed = {number.value for number in others if number.value < _SMALLEST_TIED and number not in bounds}
    fixed |= _next_to_another([tensor.sizes for tensor in tensors])
    least = [number.value for number in bounds if number.value not in values]
    for component in _components([tensor.sizes for tensor in tensors], values):
        base = math.gcd(*component)
        if base == 1 or component & fixed:
            continue
        numbers = {n for n in (*inside, *others) if n.value in component}
        lowest = 1 if numbers & bounds else 0
        for bound in least:
            reaching = [value for value in component if value >= bound]
            lowest = max([lowest, *(-(-bound * base // value) for value in reaching)])
        is_common = all(
            any(number.value in component for number in each)
            for each in sizes
            if any(number.value > 1 for number in each)
        )
        yield SizeGroup(base, tuple(sorted(numbers, key=lambda n: n.start)), is_common, lowest)


def _other_numbers(directive: Directive) -> Iterator[_Number]:
    """The whole numbers of a directive, without those of options."""
    options = {id(keyword.value) for keyword in directive.call.keywords if keyword.arg in OPTIONS}
    for node in ast.walk(directive.call):
        number = _number(directive, node) if id(node) not in options else None
        if number is not None:
            yield number


def _bounds(directive: Directive) -> set[_Number]:
    """Numbers that a size must reach: of `i64[8] % 100`, which may be indices, and of slices."""
    nodes = [
        bound
        for node in ast.walk(directive.call)
        for bound in (
            (node.lower, node.upper, node.step)
            if isinstance(node, ast.Slice)
            else (node.right,)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
            else ()
        )
        if bound is not None
    ]
    return {number for node in nodes if (number := _number(directive, node)) is not None}


def _next_to_another(shapes: Sequence[Sequence[_Number | None]]) -> set[int]:
    """Sizes that are one more than a size of another tensor, or one less: such as those of offsets and lengths."""
    near: set[int] = set()
    for at, shape in enumerate(shapes):
        for other in shapes[at + 1 :]:
            for left in shape:
                for right in other:
                    if left is not None and right is not None and abs(left.value - right.value) == 1:
                        near |= {left.value, right.value} - {1}
    return near


def _components(shapes: Sequence[Sequence[_Number | None]], values: set[int]) -> list[set[int]]:
    """Sizes that are multiples of each other at the same place of two tensors, from the last one, belong together."""
    of = {value: {value} for value in values}
    for at, shape in enumerate(shapes):
        for other in shapes[at + 1 :]:
            for left, right in zip(shape[::-1], other[::-1], strict=False):
                if left is None or right is None or min(left.value, right.value) <= 1:
                    continue
                if max(left.value, right.value) % min(left.value, right.value) == 0:
                    joined = of[left.value] | of[right.value]
                    for value in joined:
                        of[value] = joined
    return list({id(component): component for component in of.values()}.values())
