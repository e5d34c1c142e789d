"""One call as eager mode makes it: as it is, in float64, and with other rounding; each from the same state.

Invariant: after each call the state is as it was before, and no graph of autograd of the program's is used up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.adapters.torch_api.backward_runs import keeps_forward_lines
from fuselight.adapters.torch_api.custom_operators import CustomOperatorCalls, declaration_fault
from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.tensor_layouts import SPARSE_LAYOUTS
from fuselight.capture.calls.tensors import tensors_in, with_tensors
from fuselight.capture.dynamo import stacks
from fuselight.measure.accuracy.results import CallResults, Value, held_tensors
from fuselight.shared.report import NonFiniteKind, NonFiniteOrigin, OperatorFault
from fuselight.shared.report.failure import first_line
from fuselight.worker.live.call_records import CallRecord, RecordingStream, record_call
from fuselight.worker.results.non_finite import NonFiniteWatch
from fuselight.worker.results.saved_state import SavedState
from fuselight.worker.verify.eager_mode import DoubleConversions, eager_mode

_WIDE = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}
_WORDS = 300
Streams = tuple[RecordingStream, RecordingStream]


@dataclass
class RepeatedCall:
    """Makes one call of the program again and again."""

    prepared: Prepared
    """The call with the program's own objects."""
    names: Mapping[str, Any]
    """Globals of the file of the function."""
    streams: Streams
    roots: tuple[str, ...]
    since: str
    """As for `record_call`."""
    state: SavedState
    error: Exception | None = field(default=None, init=False)
    """What the last call raised."""
    is_second: bool = field(default=False, init=False)
    """Whether each call is the second of two in a row, from the state before the first: what the first leaves in a
    cache decides what the second returns."""
    around_backward: contextlib.AbstractContextManager[Any] | None = field(default=None, init=False)
    """In force while gradients are computed."""
    changed_caches: tuple[str, ...] = field(default=(), init=False)
    """Functions whose caches of functools the last call changed."""

    def repeated(
        self,
        function: Callable[..., Any],
        mode: contextlib.AbstractContextManager[Any] | None = None,
        *,
        compiled: bool = False,
        wide: bool = False,
        begin: Callable[[], None] | None = None,
    ) -> CallRecord:
        """The effects of the call of `function`, with its gradients, in a mode; the state is restored after it.

        `begin` is called before the call, after one that goes before it.
        """
        try:
            copied = with_own_graph(self.prepared)
            given = tensors_in([copied.args, copied.kwargs])
            widened = in_float64([*self.state.tensors, *given]) if wide else contextlib.nullcontext()
            with widened, mode or contextlib.nullcontext():
                if self.is_second:
                    self._recorded(copied, function, compiled=compiled)
                if begin is not None:
                    begin()
                return self._recorded(copied, function, compiled=compiled)
        finally:
            self.changed_caches = tuple(cache.name for cache in self.state.caches if cache.has_changed)
            self.state.restore()

    def _recorded(self, call: Prepared, function: Callable[..., Any], *, compiled: bool) -> CallRecord:
        returned: list[Any] = []

        def make() -> Any:
            returned.append(function(*call.args, **call.kwargs))
            return returned[0]

        held = [(name, tensor) for name, tensor in held_tensors(call) if tensor.requires_grad]
        record, self.error = record_call(
            call, self.names, self.streams, make, roots=self.roots, since=self.since, compiled=compiled
        )
        record = replace(record, stderr="")  # what torch warns of once, or while it compiles
        with self.around_backward or contextlib.nullcontext():
            values, skipped = gradients_of(returned, held) if torch.is_grad_enabled() else ((), ())
        results = replace(
            record.results,
            values=(*record.results.values, *values),
            skipped=(*record.results.skipped, *skipped),
        )
        return replace(record, results=results)

    def eager(
        self,
        mode: contextlib.AbstractContextManager[Any] | None = None,
        begin: Callable[[], None] | None = None,
    ) -> CallRecord:
        """The call in eager mode."""
        with eager_mode():
            return self.repeated(self.prepared.function, mode, begin=begin)

    def operator_faults(self) -> Iterator[OperatorFault]:
        """The custom operators of the call that do not do what they are declared to do."""
        operators = CustomOperatorCalls(stacks.calling_frames)
        self.eager(operators)
        try:
            for operator, given in operators.calls.items():
                fault = declaration_fault(operator, *given)
                if fault is not None:
                    name, _, _ = operator.name().partition(".")
                    yield OperatorFault(name, *fault, operators.stacks[operator])
        finally:
            self.state.restore()

    def non_finite_origin(self, kind: NonFiniteKind) -> NonFiniteOrigin | None:
        """Where the first NaN or infinity of the results appears in eager mode; None if the program writes it."""
        try:
            copied = with_own_graph(self.prepared)
            held = list(held_tensors(copied))
            watch = NonFiniteWatch(kind, held)
            with eager_mode(), keeps_forward_lines(), watch.mode:
                returned = self.prepared.function(*copied.args, **copied.kwargs)
                if torch.is_grad_enabled():
                    gradients_of([returned], [pair for pair in held if pair[1].requires_grad])
            return watch.origin_of(tensors_in([returned]))
        except Exception:  # noqa: BLE001 - the user's code may refuse to be watched
            return None
        finally:
            self.state.restore()

    def float64(self, begin: Callable[[], None] | None = None) -> tuple[CallResults | None, str]:
        """The results in float64, or None and why there are none; `begin` as in `repeated`."""
        try:
            with eager_mode():
                record = self.repeated(self.prepared.function, DoubleConversions(), wide=True, begin=begin)
        except Exception as error:  # noqa: BLE001 - a tensor subclass may refuse another dtype
            return None, f"{type(error).__name__}: {first_line(error)}"[:_WORDS]
        if record.raised:
            return None, f"the call does not run in float64: {record.raised}: {record.message}"[:_WORDS]
        return record.results, ""


def with_own_graph(call: Prepared) -> Prepared:
    """The call with inputs of which a backward does not reach the program's own graphs."""

    def own(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.grad_fn is None:
            return tensor
        leaf = tensor.detach().requires_grad_()
        return leaf.clone(memory_format=torch.preserve_format)  # a leaf could not be changed in place

    tensors = tensors_in([call.args, call.kwargs])
    if all(tensor.grad_fn is None for tensor in tensors):
        return call
    with torch.enable_grad():
        args, kwargs = with_tensors((call.args, call.kwargs), own)
    return replace(call, args=args, kwargs=kwargs)


def gradients_of(
    returned: Sequence[Any], held: Sequence[tuple[str, torch.Tensor]]
) -> tuple[tuple[Value, ...], tuple[str, ...]]:
    """Gradients of a sum of the outputs, with a weight for each element; none where nothing needs them.

    Returns them, and in words those that cannot be compared.
    """
    outputs = [
        tensor for tensor in tensors_in(list(returned)) if tensor.requires_grad and tensor.grad_fn is not None
    ]
    if not outputs or not held:
        return (), ()
    try:
        weights = list(map(weights_of, outputs))
        gradients = torch.autograd.grad(outputs, [tensor for _, tensor in held], weights, allow_unused=True)
    except RuntimeError:  # an output that cannot be differentiated, as of a function that is used once
        return (), ()
    return kept_gradients([name for name, _ in held], gradients)


def weights_of(output: torch.Tensor) -> torch.Tensor:
    """Another weight for each element of an output."""
    weights = torch.linspace(0.5, 1.5, output.numel(), dtype=torch.float64, device=output.device)
    return weights.reshape(output.shape).to(output.dtype)


def kept_gradients(
    names: Sequence[str], gradients: Sequence[torch.Tensor | None]
) -> tuple[tuple[Value, ...], tuple[str, ...]]:
    """Gradients as values, and in words those that cannot be compared."""
    values: list[Value] = []
    skipped: list[str] = []
    for name, gradient in zip(names, gradients, strict=True):
        if gradient is None:
            continue
        what, kind = f"gradient of {name}", str(gradient.dtype)
        if type(gradient) is not torch.Tensor:
            skipped.append(f"{what}: a {type(gradient).__name__}, a subclass of Tensor")
        elif gradient.layout is torch.strided:
            values.append(Value(what, _kept(gradient), kind, tuple(gradient.shape)))
        elif gradient.layout in SPARSE_LAYOUTS:
            values.append(Value(what, _kept(gradient.to_dense()), kind, tuple(gradient.shape)))
        else:
            skipped.append(f"{what}: a tensor of layout {gradient.layout}")
    return tuple(values), tuple(skipped)


def _kept(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", copy=True).resolve_conj().resolve_neg().contiguous()


@contextlib.contextmanager
def in_float64(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Inside, floating-point tensors are float64; those that share memory still do."""
    narrow = [tensor for tensor in dict.fromkeys(tensors) if _is_narrow(tensor)]
    kept = [(tensor, tensor.data) for tensor in narrow]
    gradients = [(tensor, tensor.grad) for tensor in narrow if tensor.is_leaf and tensor.grad is not None]
    whole: dict[tuple[int, torch.dtype], torch.Tensor] = {}
    try:
        with _reassigned(gradients):
            for tensor in narrow:
                key = tensor.untyped_storage().data_ptr(), tensor.dtype
                if key not in whole:
                    whole[key] = _whole_in_float64(tensor)
            for tensor in narrow:
                wide = whole[tensor.untyped_storage().data_ptr(), tensor.dtype]
                tensor.data = wide.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        yield
    finally:
        for tensor in narrow:
            if tensor.is_leaf:
                tensor.grad = None
        with _reassigned(gradients):
            for tensor, data in kept:
                tensor.data = data


@contextlib.contextmanager
def _reassigned(gradients: Sequence[tuple[torch.Tensor, torch.Tensor | None]]) -> Iterator[None]:
    """Inside, the tensors have no gradients, because the dtype of both changes."""
    for tensor, _ in gradients:
        tensor.grad = None
    yield
    for tensor, gradient in gradients:
        tensor.grad = gradient


def _whole_in_float64(tensor: torch.Tensor) -> torch.Tensor:
    """All that the memory of a tensor holds, in float64 or complex128."""
    whole: torch.Tensor = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    whole.set_(tensor.untyped_storage())
    return whole.to(_WIDE.get(tensor.dtype, torch.float64))


def _is_narrow(tensor: torch.Tensor) -> bool:
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    is_number = tensor.is_floating_point() or tensor.is_complex()
    return (
        is_plain
        and is_number
        and not tensor.is_meta
        and not tensor.is_inference()
        and tensor.element_size() >= 2  # noqa: PLR2004 - 8-bit types are formats of storage
        and tensor.dtype not in (torch.float64, torch.complex128)
    )
