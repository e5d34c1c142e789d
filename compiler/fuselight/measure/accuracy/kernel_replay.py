"""Replays kernels of generated code on their own inputs: each buffer next to the operators that it stands for.

The operators run from buffers that earlier kernels wrote, in their own dtype and in float64, so that an error is the
kernel's own: not from what the same kernel wrote, which it has with more digits. Masks and random numbers that a kernel
wrote are taken as it wrote them; operators that draw others are compared by their distribution. What several kernels
write is judged after the last of them, and a part of a result, of which there is no operator, by what is made of it.
Invariant: a buffer is called wrong only if it holds the value of no other operator of its graph that was tried, and if
no later kernel writes it.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx.node import map_arg

from fuselight.adapters.torch_api.inductor.kernel_recording import LoweredGraph, RecordedBuffer
from fuselight.adapters.torch_api.rounding_noise import multiplies, rounds_to_tf32
from fuselight.capture.dynamo import stacks
from fuselight.measure.accuracy import drawn_values
from fuselight.measure.accuracy.wide_attention import wide_form
from fuselight.shared.report import KernelReplay, Stack
from fuselight.shared.report.failure import first_line

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_TIMES_EAGER, _STEPS = 4.0, 8.0
_MEAN_STEPS = 1.0
"""Rounding steps that a kernel may be off, besides a multiple of those of its operators: the largest, and the mean."""
_TF32_STEPS = 8.0 * 2**13
"""As in _Errors, where a library may round factors to TF32, whose steps are 2**13 of float32."""
_REDUCTIONS = ("aten.sum", "aten.mean", "aten.mm", "aten.bmm", "aten.addmm")
_SUMS = ("aten.sum", "aten.mean", "aten.var")
_WORDS = 200
_WRITTEN_AGAIN = "written again by a later kernel"
_NO_OPERATOR = "of no operator"
_NO_VALUE = "no value"
"""Of a buffer that there is nothing to judge of."""
_AS_STRIDED = "aten.as_strided"
_LIBRARY_CALLS = ("torch.ops.", "extern_kernels.", "aten.")
"""Starts of the names of kernels that are the operator itself."""
_SEEDS, _FUSED_ATTENTION = "prims.inductor_seed", "aten._scaled_dot_product"
_MAX_OFF = 0.1
"""Mean error next to the value's size, up to which a value shows that it is an operator's: a long chain of operators
may lose so many digits that any value is within its rounding."""
_MAX_TRIED = 24
"""Other operators whose value a buffer may have."""
Values = Mapping[torch.fx.Node, torch.Tensor]


@dataclass(frozen=True)
class ReplayedLine:
    """What a replay shows."""

    replay: KernelReplay
    stack: Stack = ()
    """Of the operator that the first wrong buffer stands for."""


def replay_kernels(graphs: Sequence[LoweredGraph]) -> ReplayedLine:
    """Judge the buffers of one call."""
    counts: dict[str, Any] = {"judged": 0, "unmapped": 0, "not_evaluated": 0}
    unjudged: Counter[str] = Counter()
    first: tuple[RecordedBuffer, _Judged] | None = None
    for graph in graphs:
        cut: dict[torch.fx.Node, torch.Tensor] = _inputs_of(graph)
        verdicts: dict[str, _Judged] = {}
        for of_kernel in _by_kernel(graph):
            written: dict[torch.fx.Node, torch.Tensor] = {}
            for buffer in of_kernel:
                masks = {node: value for node, value in written.items() if not value.is_floating_point()}
                judged = verdicts[buffer.name] = _judged(graph, buffer, {**cut, **masks})
                if judged.wrong is not None and first is None:
                    first = buffer, judged
                if judged.node is not None:
                    written[judged.node] = judged.value
            cut.update(written)
        for judged in _with_parts(graph, verdicts):
            if judged.kind != _NO_VALUE:
                counts[judged.kind] += 1
            if judged.why:
                unjudged[judged.why[:_WORDS]] += 1
    counts["unjudged"] = dict(unjudged)
    if first is None or first[1].wrong is None or first[1].node is None:
        return ReplayedLine(KernelReplay(**counts))
    buffer, judged = first
    ours, eager = first[1].wrong
    stack = tuple(place for place in stacks.of_node(first[1].node) if stacks.is_shown(place.path))
    replay = KernelReplay(buffer.kernel, buffer.name, ours, eager, distribution=judged.distribution, **counts)
    return ReplayedLine(replay, stack)


def _by_kernel(graph: LoweredGraph) -> Iterator[list[RecordedBuffer]]:
    """The buffers that each kernel wrote last, in the order of their operators: a mask before its reader."""
    order = {node: at for at, node in enumerate(graph.graph.nodes)}

    def place(buffer: RecordedBuffer) -> int:
        node = graph.nodes.get(buffer.name)
        return len(order) if node is None else order.get(node, len(order))

    def written(buffer: RecordedBuffer) -> int:
        return buffer.last_launch or buffer.launch

    for _, buffers in itertools.groupby(
        sorted(graph.buffers.values(), key=written), key=lambda buffer: (written(buffer), buffer.kernel)
    ):
        yield sorted(buffers, key=place)


def _with_parts(graph: LoweredGraph, verdicts: dict[str, _Judged]) -> Iterator[_Judged]:
    """The verdicts, with those on parts of results, as the sums of a reduction that two kernels make.

    A part is right if what the next kernel makes of it is, or its own kernel where no other one reads it: that is
    compared with operators that know of no part.
    """
    written: dict[int, list[str]] = {}
    for buffer in graph.buffers.values():
        for launch in {buffer.launch, buffer.last_launch} - {0}:
            written.setdefault(launch, []).append(buffer.name)

    def reads(name: str) -> Iterator[list[_Judged]]:
        first = graph.buffers[name].launch
        readers = [launch for launch, names in graph.launches.items() if launch >= first and name in names]
        for launch in [
            launch for launch in readers if launch > first
        ] or readers:  # else its own kernel alone
            yield [verdicts[other] for other in written.get(launch, ()) if other != name]

    for name, judged in reversed(verdicts.items()):
        if judged.why != _NO_OPERATOR:
            continue
        by_launch = [[each for each in results if each.why != _NO_OPERATOR] for results in reads(name)]
        if any(results and all(map(_is_right, results)) for results in by_launch):
            verdicts[name] = replace(judged, kind="judged", why="")
    yield from verdicts.values()


def _is_right(judged: _Judged) -> bool:
    return judged.kind == "judged" and judged.wrong is None


@dataclass(frozen=True)
class _Judged:
    """What is known of one buffer."""

    kind: str
    """`judged`, `unmapped`, `not_evaluated` or `_NO_VALUE`."""
    value: torch.Tensor
    """What its readers get."""
    node: torch.fx.Node | None = None
    """The operator whose value it is."""
    why: str = ""
    """Why it was not judged."""
    wrong: tuple[float, float] | None = None
    """The largest errors of the kernel and of its operators, if it is wrong."""
    distribution: str = ""
    """How its random numbers are apart from those of its operators, if they are."""


def _judged(graph: LoweredGraph, buffer: RecordedBuffer, cut: Values) -> _Judged:
    node = graph.nodes.get(buffer.name)
    values = [buffer.value] if buffer.last is None else [buffer.last, buffer.value]
    if node is not None and _is_seed(node):
        return _Judged(_NO_VALUE, values[0], node)
    if node is None or not _is_like(node, buffer.value):
        why = _why_unmapped(node, buffer.value)
        return _of_other_node(graph, buffer, cut) or _Judged("unmapped", values[0], why=why)
    wrong: tuple[float, float] | None = None
    try:
        for value in values:  # of a buffer that is written twice: one of the two is the operator's
            errors = _errors(value, node, cut)
            if not _is_wrong(errors):
                return _as_close(_Judged("judged", value, node), errors)
            wrong = wrong or errors[0]
    except drawn_values.DrawnError:
        return _of_drawn(graph, buffer, node, cut)
    except Exception as error:  # noqa: BLE001 - an operator may lack a form in float64
        words = f"{node.target}: {type(error).__name__}: {first_line(error)}"
        kind = "judged" if _is_same_call(buffer, node, cut) else "not_evaluated"
        unevaluated = _Judged(kind, values[0], node, words if kind == "not_evaluated" else "")
        return (_of_other_node(graph, buffer, cut) if unevaluated.why else None) or unevaluated
    return _of_difference(graph, buffer, node, cut, wrong)


def _of_difference(
    graph: LoweredGraph,
    buffer: RecordedBuffer,
    node: torch.fx.Node,
    cut: Values,
    wrong: tuple[float, float] | None,
) -> _Judged:
    """The verdict on a buffer that does not have the value of the operator that Inductor names."""
    other = _of_other_node(graph, buffer, cut)
    if other is not None:  # Inductor's origin of a buffer may be of its neighbor
        return replace(other, kind="unmapped", why="of another operator than Inductor says")
    value = buffer.value if buffer.last is None else buffer.last
    why = _why_not_accused(buffer) or _why_of_memory(node, cut)
    return _Judged("not_evaluated" if why else "judged", value, node, why, None if why else wrong)


def _of_drawn(graph: LoweredGraph, buffer: RecordedBuffer, node: torch.fx.Node, cut: Values) -> _Judged:
    """The verdict on a buffer of an operator that draws random numbers, or needs some that no kernel wrote."""
    value = buffer.value
    if value.numel() < drawn_values.MIN_ELEMENTS:
        return _Judged("not_evaluated", value, node, "a few random numbers")

    def difference(other: torch.fx.Node) -> str:
        try:
            return drawn_values.other_distribution(value, lambda: _evaluated(other, cut, is_wide=False))
        except Exception as error:  # noqa: BLE001 - an input may have no value
            return first_line(error)

    text = difference(node)
    if not text:
        return _Judged("judged", value, node)
    if buffer.last is not None:
        return _Judged("not_evaluated", value, node, _WRITTEN_AGAIN)
    alike = [other for other in graph.graph.nodes if other is not node and _is_like(other, value)]
    if any(other.op != "output" and not difference(other) for other in alike[:_MAX_TRIED]):
        return _Judged("unmapped", value, node, "of another operator than Inductor says")
    return _Judged("judged", value, node, wrong=(0.0, 0.0), distribution=text)


def _why_not_accused(buffer: RecordedBuffer) -> str:
    """Why a buffer that differs from its operator's value is not called wrong; empty if it is."""
    if buffer.last is not None:
        return _WRITTEN_AGAIN
    return "" if buffer.value.is_floating_point() else "integers that differ, as indices of equal values may"


def _why_of_memory(node: torch.fx.Node, cut: Values) -> str:
    """Why a value that differs may be right: what it is computed from reads memory as a kernel laid it out."""
    if any(str(each.target).startswith(_AS_STRIDED) for each in _operators(node, cut)):
        return f"{node.target}: it reads memory as a kernel laid it out"
    return ""


def _operators(node: torch.fx.Node, cut: Values) -> Iterator[torch.fx.Node]:
    """The node, and those from which it is computed, up to buffers that are known."""
    seen, waiting = {node}, [node]
    while waiting:
        each = waiting.pop()
        yield each
        more = [other for other in each.all_input_nodes if other not in seen and other not in cut]
        seen.update(more)
        waiting += more


def _summed(node: torch.fx.Node, cut: Values) -> int:
    """How many numbers the largest of its sums adds up; 1 if it has none."""
    count = 1
    for each in _operators(node, cut):
        if str(each.target).startswith(_SUMS) and each.all_input_nodes:
            given, result = each.all_input_nodes[0].meta.get("val"), each.meta.get("val")
            result = result[0] if isinstance(result, tuple) else result
            sizes = [value.numel() if isinstance(value, torch.Tensor) else None for value in (given, result)]
            if isinstance(sizes[0], int) and isinstance(sizes[1], int) and sizes[1]:
                count = max(count, sizes[0] // sizes[1])
    return count


def _is_seed(node: torch.fx.Node) -> bool:
    """Whether a value is the state of a generator, which is the input of what draws."""
    source = node.args[0] if node.target is operator.getitem else None
    expected = node.meta.get("val")
    return str(node.target).startswith(_SEEDS) or (
        isinstance(source, torch.fx.Node)
        and str(source.target).startswith(_FUSED_ATTENTION)
        and isinstance(expected, torch.Tensor)
        and not expected.is_floating_point()
    )


def _is_same_call(buffer: RecordedBuffer, node: torch.fx.Node, cut: Values) -> bool:
    """Whether a library call has returned what the operator itself does, of which there is no form in float64."""
    if not buffer.kernel.startswith(_LIBRARY_CALLS):
        return False
    try:
        own = drawn_values.once(lambda: _evaluated(node, cut, is_wide=False))
        return not _is_wrong(_errors_between(buffer.value, own, own.double()))
    except Exception:  # noqa: BLE001 - an input may have no value
        return False


def _of_other_node(graph: LoweredGraph, buffer: RecordedBuffer, cut: Values) -> _Judged | None:
    """The verdict on a buffer that has the value of another operator than Inductor says; None if there is none."""
    of_buffer = graph.origins.get(buffer.name, ())
    nodes = dict.fromkeys((*of_buffer, *reversed(list(graph.graph.nodes))))
    values = [buffer.value] if buffer.last is None else [buffer.last, buffer.value]
    tried = 0
    for node in nodes:
        shape = _shape_of(node, buffer.value)
        if (
            node.op == "output"
            or shape is None
            or tried >= _MAX_TRIED
            or node is graph.nodes.get(buffer.name)
        ):
            continue
        tried += 1
        for value in values:
            try:
                errors = _errors(value.reshape(shape), node, cut)
            except Exception:  # noqa: BLE001, S112 - an operator may lack a form in float64
                continue
            if not _is_wrong(errors) and _is_close(value, errors) and not _is_trivial(value):
                return _Judged("judged", value.reshape(shape), node)
    return None


def _is_trivial(value: torch.Tensor) -> bool:
    """Whether all elements are equal: such a value fits many operators."""
    return bool((value == value.reshape(-1)[0]).all())


def _why_unmapped(node: torch.fx.Node | None, value: torch.Tensor) -> str:
    if node is None:
        return _NO_OPERATOR
    expected = node.meta.get("val")
    if not isinstance(expected, torch.Tensor):
        return f"{node.target}: of an operator with several results"
    return f"{node.target}: of another shape or dtype" if value.numel() else "empty"


def _inputs_of(graph: LoweredGraph) -> dict[torch.fx.Node, torch.Tensor]:
    return {
        node: graph.inputs[node.name]
        for node in graph.graph.nodes
        if node.op == "placeholder" and node.name in graph.inputs
    }


def _is_like(node: torch.fx.Node, value: torch.Tensor) -> bool:
    return _shape_of(node, value) == tuple(value.shape)


def _shape_of(node: torch.fx.Node, value: torch.Tensor) -> tuple[int, ...] | None:
    """The shape of a node's value, if a buffer may have it but for dimensions of size 1."""
    expected = node.meta.get("val")
    if not isinstance(expected, torch.Tensor) or expected.dtype is not value.dtype or not value.numel():
        return None
    shape = tuple(expected.shape)
    if not all(isinstance(size, int) for size in shape):
        return tuple(value.shape) if len(shape) == value.dim() else None
    return shape if _without_ones(shape) == _without_ones(tuple(value.shape)) else None


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


_Errors = tuple[tuple[float, float], tuple[float, float], bool, float]
"""The largest error of the kernel and of its operators in rounding steps, the mean ones, whether NaN are elsewhere, and
by how many steps another order of its sums, or TF32, may move the result: the root of the numbers in one of them."""


def _errors(value: torch.Tensor, node: torch.fx.Node, cut: Values) -> _Errors:
    """Raises DrawnError if the operators draw random numbers."""
    own = drawn_values.once(lambda: _evaluated(node, cut, is_wide=False))
    if own.shape != value.shape or own.dtype is not value.dtype:
        raise ValueError("its operators give another shape or dtype")
    if not value.is_floating_point():
        is_equal = torch.equal(value, own)
        return (0.0, 0.0), (0.0, 0.0), not is_equal, 0.0
    known: dict[torch.fx.Node, Any] = {}
    wide = _evaluated(node, cut, is_wide=True, known=known)
    errors = _errors_between(value, own, wide, _magnitude(node, {**cut, **known}))
    order = math.sqrt(_summed(node, cut) - 1)
    if rounds_to_tf32(value) and any(multiplies(each.target) for each in _operators(node, cut)):
        order += _TF32_STEPS
    return (*errors[:3], order)


def _errors_between(
    value: torch.Tensor, own: torch.Tensor, wide: torch.Tensor, magnitude: torch.Tensor | None = None
) -> _Errors:
    """The same of values that are known; `magnitude`: the scale of rounding, if it is more than the result's."""
    finite = value.isfinite() & own.isfinite() & wide.isfinite()
    places = (_kinds(value) != _kinds(own)) & (_kinds(value) != _kinds(wide.to(value.dtype)))
    if not bool(finite.any()):
        return (0.0, 0.0), (0.0, 0.0), bool(places.any()), 0.0
    exact = wide[finite]
    size = torch.maximum(exact.abs(), exact.square().mean().sqrt())
    if magnitude is not None:
        size = torch.maximum(size, magnitude[finite])
    step = torch.finfo(value.dtype).eps * size.clamp_min(torch.finfo(value.dtype).tiny)
    ours, eager = ((tensor.double()[finite] - exact).abs() / step for tensor in (value, own))
    return (
        (float(ours.max()), float(eager.max())),
        (float(ours.mean()), float(eager.mean())),
        bool(places.any()),
        0.0,
    )


def _is_wrong(errors: _Errors) -> bool:
    (ours, eager), (mean, eager_mean), is_elsewhere, order = errors
    return (
        is_elsewhere
        or ours > _TIMES_EAGER * eager + _STEPS + order / 2
        or mean > _TIMES_EAGER * eager_mean + _MEAN_STEPS + order / 8
    )


def _is_close(value: torch.Tensor, errors: _Errors) -> bool:
    return not value.is_floating_point() or errors[1][0] * torch.finfo(value.dtype).eps <= _MAX_OFF


def _as_close(judged: _Judged, errors: _Errors) -> _Judged:
    """The verdict on a right value; not evaluated where one of another operator would pass, too."""
    if _is_close(judged.value, errors):
        return judged
    return replace(judged, kind="not_evaluated", why="its operators lose too many digits")


def _kinds(tensor: torch.Tensor) -> torch.Tensor:
    """0 for a number, others for NaN and each infinity."""
    return tensor.isnan() * 1 + tensor.isposinf() * 2 + tensor.isneginf() * 3


def _evaluated(
    node: torch.fx.Node, cut: Values, *, is_wide: bool, known: dict[torch.fx.Node, Any] | None = None
) -> Any:
    """The value of a node from the buffers in `cut`; `known` gets those of the nodes between."""
    values: dict[torch.fx.Node, Any] = {} if known is None else known

    def value_of(other: torch.fx.Node) -> Any:
        if other in cut:
            return _widened(cut[other], is_wide=is_wide)
        if other not in values:
            values[other] = run(other)
        return values[other]

    def run(other: torch.fx.Node) -> Any:
        if other.op == "get_attr":
            return _widened(getattr(other.graph.owning_module, str(other.target)), is_wide=is_wide)
        if other.op != "call_function":
            raise ValueError(f"{other.name} is an input without a value")
        args, kwargs = map_arg((other.args, other.kwargs), value_of)
        if str(other.target).startswith(_AS_STRIDED):
            args = (_as_traced(other.all_input_nodes[0], args[0]), *args[1:])
        target: Any = other.target
        if is_wide:
            args = tuple(_wide_dtype(part) for part in args)
            kwargs = {name: _wide_dtype(part) for name, part in kwargs.items()}
            target = wide_form(target)
        return _widened(target(*args, **kwargs), is_wide=is_wide)

    with torch.no_grad():
        return value_of(node) if node.op == "placeholder" else run(node)


def _as_traced(node: torch.fx.Node, value: Any) -> torch.Tensor:
    """The value with the strides that its operator had when it was traced. Raises ValueError if gaps are between."""
    traced: torch.Tensor = node.meta["val"]
    same = torch.empty_strided(traced.shape, traced.stride(), dtype=value.dtype, device=value.device)
    if same.untyped_storage().nbytes() != same.numel() * same.element_size():
        raise ValueError("it reads memory as a kernel laid it out")
    return same.copy_(value)


def _widened(value: Any, *, is_wide: bool) -> Any:
    return value.double() if is_wide and isinstance(value, torch.Tensor) and value.dtype in _FLOATS else value


def _wide_dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _FLOATS else value


def _magnitude(node: torch.fx.Node, values: Mapping[torch.fx.Node, Any]) -> torch.Tensor | None:
    """The scale of a reduction: the same over absolute values, as its error grows with them and not with its result."""
    if not str(node.target).startswith(_REDUCTIONS):
        return None
    try:
        args = map_arg(
            node.args,
            lambda other: (
                values[other].double().abs() if values[other].is_floating_point() else values[other]
            ),
        )
        target: Any = node.target
        scale: torch.Tensor = target(*args, **{name: _wide_dtype(part) for name, part in node.kwargs.items()})
    except (KeyError, RuntimeError, TypeError):
        return None
    return scale
