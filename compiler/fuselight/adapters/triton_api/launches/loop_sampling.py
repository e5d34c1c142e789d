"""Loops of an address check: of many iterations, the first two and the last two run.

A variable that each iteration changes by the same amount (`pointer += stride`) has a known value in the iterations
after those that are left out: it is computed. Any other variable that the loop changes is unknown there. Invariant:
what is computed is what the GPU has, overflow of 32 bits included.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fuselight.adapters.triton_api.launches.provenance import exact_of, is_unknown, mark_unknown

SAMPLED = "__fuselight_sampled__"
_MIN_ITERATIONS = 8
"""Loops of fewer iterations run as they are."""
_FIRST, _LAST = 2, 2


def sample_loop(node: ast.For, number: int) -> list[ast.stmt]:
    """Return the statements that run a loop over a range in samples; `number` tells it from others of the function."""
    call = node.iter
    if not isinstance(call, ast.Call) or not isinstance(node.target, ast.Name) or not _is_range(call.func):
        return [node]
    names = sorted(_assigned(node.body) - {node.target.id})
    linear = [name for name in names if _is_linear(name, node.body, {*names, node.target.id})]
    loop = f"__fuselight_loop_{number}__"
    source = (
        f"{loop} = {SAMPLED}({node.target.id!r}, {names!r}, {linear!r})\n"
        f"if {loop}.jumps(locals()):\n"
        f"    ({', '.join([node.target.id, *names])},) = {loop}.values\n"
    )
    make, jump = ast.parse(source).body
    for statement in (make, jump):
        for each in ast.walk(statement):
            ast.copy_location(each, node)
    node.iter = ast.copy_location(
        ast.Call(ast.copy_location(ast.Name(loop, ast.Load()), call), [call], []), call
    )
    node.body.insert(0, jump)
    return [make, node]


def _is_range(function: ast.expr) -> bool:
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return name == "range"


def _assigned(body: Sequence[ast.stmt]) -> set[str]:
    return {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and not node.id.startswith("__fuselight_")
    }


def _is_linear(name: str, body: Sequence[ast.stmt], changed: set[str]) -> bool:
    """Whether an iteration changes a variable once, by something that the loop does not change."""
    stores = [
        node
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    steps = [step for statement in body if (step := _step(name, statement)) is not None]
    return len(stores) == 1 and len(steps) == 1 and _is_invariant(steps[0], changed)


def _is_invariant(step: ast.expr, changed: set[str]) -> bool:
    for node in ast.walk(step):
        if isinstance(node, ast.Call) or (isinstance(node, ast.Name) and node.id in changed):
            return False
    return True


def _step(name: str, statement: ast.stmt) -> ast.expr | None:
    """What a statement adds to a variable, or subtracts from it."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, (ast.Add, ast.Sub)):
        return statement.value if _is_name(statement.target, name) else None
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        return None
    return _added(name, statement.value) if _is_name(statement.targets[0], name) else None


def _added(name: str, value: ast.expr) -> ast.expr | None:
    """What `value` is more than a variable."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        if _is_name(value.left, name):
            return value.right
        return value.left if _is_name(value.right, name) and isinstance(value.op, ast.Add) else None
    is_advance = isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "advance"
    if is_advance and isinstance(value, ast.Call) and len(value.args) == 2:  # noqa: PLR2004 - pointer and offsets
        return value.args[1] if _is_name(value.args[0], name) else None
    return None


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


class LoopSampler:
    """Makes the loops of an address check."""

    def __init__(self, interpreter: Any) -> None:
        self._interpreter = interpreter
        self.has_jumped = False
        """Whether iterations were left out."""

    def loop(self, target: str, names: list[str], linear: list[str]) -> SampledLoop:
        """The loop over `target` that assigns `names`, of which `linear` change by equal steps."""
        return SampledLoop(self, target, names, frozenset(linear))

    def moved(self, now: Any, before: Any, steps: int) -> Any:
        """The value of a linear variable `steps` iterations later, None where that is not known."""
        if isinstance(now, int) and isinstance(before, int):
            return now + (now - before) * steps
        handle, earlier = getattr(now, "handle", None), getattr(before, "handle", None)
        if handle is None or earlier is None:
            return None
        if hasattr(handle, "offsets"):
            offsets = [
                self._handle(offset, preceding, steps)
                for offset, preceding in zip(handle.offsets, earlier.offsets, strict=True)
            ]
            if any(offset is None for offset in offsets):
                return None
            pointer = self._interpreter.BlockPointerHandle(
                handle.base, handle.shape, handle.strides, offsets, handle.block_shape, handle.order
            )
            return type(now)(pointer, now.type)
        result = self._handle(handle, earlier, steps)
        return None if result is None else type(now)(result, now.type)

    def _handle(self, now: Any, before: Any, steps: int) -> Any:
        numpy = self._interpreter.np
        if is_unknown([now, before]):
            return None
        if now.data.dtype.kind not in "iu" or now.data.dtype != before.data.dtype:
            return None
        if now.data.shape != before.data.shape:
            return None
        # Sums modulo 2**32 or 2**64, as those of the iterations on the way.
        data = now.data + (now.data - before.data) * now.data.dtype.type(steps)
        meant, earlier = (
            exact if exact is not None else handle.data.astype(numpy.int64)
            for handle in (now, before)
            for exact in (exact_of(handle),)
        )
        exact = meant + (meant - earlier) * steps
        handle = self._interpreter.TensorHandle(data, now.dtype)
        if not numpy.array_equal(data.astype(numpy.int64), exact):
            handle.exact = exact
        return handle

    def unknown(self, value: Any) -> Any:
        """The same variable with an unknown value, None where it has none that can be unknown."""
        handle = getattr(value, "handle", None)
        if handle is None or not hasattr(handle, "get_element_ty"):
            return None
        copy = self._interpreter.TensorHandle(handle.data, handle.dtype)
        mark_unknown(copy)
        return type(value)(copy, value.type)


class SampledLoop:
    """A loop over a range."""

    def __init__(self, sampler: LoopSampler, target: str, names: list[str], linear: frozenset[str]) -> None:
        self._sampler, self._target, self._names, self._linear = sampler, target, names, linear
        self._numbers: Sequence[Any] = ()
        self._at = 0
        self._before: dict[str, Any] = {}
        self.values: list[Any] = []
        """Of the loop variable and of `names`, after a jump."""

    def __call__(self, numbers: Sequence[Any]) -> Iterator[Any]:
        """Run the loop over `numbers`."""
        self._numbers = numbers
        self._at = 0
        while self._at < len(numbers):
            yield numbers[self._at]
            self._at += 1

    def jumps(self, variables: Mapping[str, Any]) -> bool:
        """Whether this iteration becomes one of the last: its variables are `values` then."""
        last = len(self._numbers) - _LAST
        if self._at == _FIRST and len(self._numbers) >= _MIN_ITERATIONS:
            values = self._later(variables, last - self._at)
            if values is not None:
                self._at = last
                self.values = [self._numbers[last], *values]
                self._sampler.has_jumped = True
                return True
        self._before = {name: variables.get(name) for name in self._names}
        return False

    def _later(self, variables: Mapping[str, Any], steps: int) -> list[Any] | None:
        values = []
        for name in self._names:
            now, before = variables.get(name), self._before.get(name)
            value = self._sampler.moved(now, before, steps) if name in self._linear else None
            if value is None:
                value = self._sampler.unknown(now)
            if value is None and isinstance(now, (int, float, str)) and now == before:
                value = now
            if value is None:
                return None
            values.append(value)
        return values
