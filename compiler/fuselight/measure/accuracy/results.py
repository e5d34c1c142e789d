"""The results of one call as named tensors: outputs, gradients, and in-place changes.

Invariant: values are copies on the CPU, taken before anything else runs, and of bounded size. A large tensor is sampled
at positions that depend on its size alone, so that two processes keep the same elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, BinaryIO

import torch

from fuselight.adapters.torch_api.inductor import measurement
from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.tensor_layouts import SPARSE_LAYOUTS, LayoutCopy, copy_of, has_changed
from fuselight.capture.calls.tensors import SEED, set_seeds, tensors_in
from fuselight.measure.measured_call import Unit, arguments_of, modules_of, work_of
from fuselight.shared.report import Work

_ELEMENTS = 1 << 22
"""Maximum elements kept of one tensor: comparing that many in float64 takes some tenths of a second."""
_COPIED = 1 << 24
"""Maximum elements of inputs and buffers together that are copied to detect in-place changes."""
_ALL_ELEMENTS = 1 << 27
"""Maximum elements of all tensors together: half a GiB of float32."""
_DEPTH = 8
"""Maximum nesting of outputs: they are shallow, and a cycle must end."""
_SKIPPED = 20
"""Maximum number of skipped values that are named."""
_PLAIN = (torch.Tensor, torch.nn.Parameter)

CHANGED = ", changed in place"
"""Suffix of the name of an input, buffer or parameter that the call changed."""


@dataclass(frozen=True)
class Value:
    """One tensor, or one Python number, that a call returned or changed."""

    name: str
    """`output`, `output[0].logits`, `gradient of blocks.0.weight`, `input 0, changed in place`."""
    tensor: torch.Tensor
    """On the CPU; a one-dimensional sample if it has fewer elements than `shape` says."""
    dtype: str
    """torch's name, such as `torch.float32`; `float` or `int` for a Python number."""
    shape: tuple[int, ...]

    @property
    def sampled(self) -> bool:
        """Whether `tensor` holds only a sample of the elements."""
        return tuple(self.tensor.shape) != self.shape


@dataclass(frozen=True)
class CallResults:
    """The results of one call."""

    values: tuple[Value, ...] = ()
    skipped: tuple[str, ...] = ()
    """Values that cannot be compared, such as `output.cache: a DynamicCache`. Bounded."""
    device: str = "cpu"
    """Type of the device that held most of the results."""

    def save(self, path: str | BinaryIO) -> None:
        """Write the results to a file, named or open. Raises OSError."""
        values = [(value.name, value.tensor, value.dtype, list(value.shape)) for value in self.values]
        torch.save({"values": values, "skipped": list(self.skipped), "device": self.device}, path)


def load(path: str) -> CallResults:
    """Read what `Results.save` wrote. Raises what torch.load raises for a damaged file."""
    read = torch.load(path, map_location="cpu", weights_only=True)
    values = tuple(Value(name, tensor, dtype, tuple(shape)) for name, tensor, dtype, shape in read["values"])
    return CallResults(values, tuple(read["skipped"]), read["device"])


def of_call(
    prepared: Prepared,
    function: Callable[..., Any],
    work: Work | None = None,
    *,
    seed: int = SEED,
    compiles_optimizer: bool = False,
) -> CallResults:
    """Make one call as it is measured (measured_call.Unit; without `work`, as the inputs say) and return its results.

    `prepared` must be fresh: in-place changes stay. Raises what the user's code raises.
    """
    for _, module in () if prepared.is_live else modules_of(prepared):
        module.zero_grad(set_to_none=True)  # a module that the source keeps may have old gradients
    unit = Unit(prepared, function, work_of(work, prepared), compiles_optimizer=compiles_optimizer)
    collector = ResultCollector(unit.prepared)
    set_seeds(seed)
    with unit.mode():
        return collector.outputs(unit.prepare()())


class _Before:
    """A tensor as it was before the call."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._version = measurement.version_of(tensor)
        self.copy: torch.Tensor | LayoutCopy | None = None
        """None for parameters and large tensors: torch's version counter must suffice for them."""

    def changed(self, now: torch.Tensor) -> bool:
        """Whether its elements changed; native batch normalization updates its buffers without counting a change."""
        if self.copy is None:
            return now is not self._tensor or measurement.version_of(now) != self._version
        if isinstance(self.copy, LayoutCopy):
            return now.layout is not self.copy.tensor.layout or has_changed(now, self.copy)
        if now.shape != self.copy.shape or now.dtype != self.copy.dtype:
            return True
        same = (now == self.copy) | (now != now) & (self.copy != self.copy)  # noqa: PLR0124 - NaN
        return not bool(same.all())


class ResultCollector:
    """Collects the results of one call: created before the call, and given the outputs after it.

    The call must clear gradients that already exist.
    """

    def __init__(
        self, prepared: Prepared, *, elements: int | None = None, all_elements: int | None = None
    ) -> None:
        """`elements`, `all_elements`: the most elements to keep of one tensor, and of all tensors."""
        self._prepared = prepared
        self._elements, self._all_elements = elements or _ELEMENTS, all_elements or _ALL_ELEMENTS
        named = dict(held_tensors(prepared))
        self._before = {name: _Before(tensor) for name, tensor in named.items()}
        self._tensors: list[tuple[str, torch.Tensor, str]] = []
        self._skipped: list[str] = []
        """Bounded, and each with the reason."""
        room = _COPIED
        for name, tensor in named.items():
            if not isinstance(tensor, torch.nn.Parameter) and type(tensor) in _PLAIN:
                room -= tensor.numel()
                if room >= 0:
                    self._before[name].copy = _copy_of(tensor)

    def add_value(self, name: str, value: Any) -> None:
        """Add a further value, before `outputs` is called."""
        self._collect(name, value, 0)

    def outputs(self, outputs: Any) -> CallResults:
        """Return `outputs`, the gradients, and everything that changed since this object was created, on the CPU."""
        self._collect("output", outputs, 0)
        held = dict(held_tensors(self._prepared))
        for name, tensor in held.items() if self._prepared.options.train else ():
            if tensor.requires_grad and tensor.is_leaf:
                # No gradient counts as zero, as in torch's benchmark suite.
                grad = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
                self._add(f"gradient of {name}", grad)
        for name, tensor in held.items():
            before = self._before.get(name)
            if before is None or before.changed(tensor):
                self._add(f"{_kind(name, tensor)}{name}{CHANGED}", tensor)
        most = self._elements
        while (
            sum(min(tensor.numel(), most) for _, tensor, _ in self._tensors) > self._all_elements and most > 1
        ):
            most //= 2
        values = tuple(
            Value(name, _copy(tensor, most), dtype, tuple(tensor.shape))
            for name, tensor, dtype in self._tensors
        )
        devices = [tensor.device.type for _, tensor, _ in self._tensors]
        return CallResults(values, tuple(self._skipped), max(devices, key=devices.count, default="cpu"))

    def _collect(self, name: str, value: Any, depth: int) -> None:
        """Add any value that a function may return."""
        if isinstance(value, torch.Tensor):
            self._add(name, value)
        elif isinstance(value, (bool, int, float, complex)):
            self._number(name, value)
        elif value is None or isinstance(value, (str, bytes)):
            return
        elif depth > _DEPTH:
            self._skip(f"{name}: too deep")
        else:
            below = elements_of(value)
            if below is None:
                self._skip(f"{name}: a {type(value).__name__}")
            for suffix, item in below or ():
                self._collect(f"{name}{suffix}", item, depth + 1)

    def _number(self, name: str, value: complex) -> None:
        """Add a Python number."""
        kind = type(value).__name__
        wide = {"bool": torch.bool, "int": torch.int64, "complex": torch.complex128}
        try:
            self._tensors.append(
                (name, torch.tensor(value, dtype=wide.get(kind, torch.float64), device="cpu"), kind)
            )
        except (RuntimeError, OverflowError, ValueError) as error:  # an int of more than 64 bits
            self._skip(f"{name}: {error}")

    def _add(self, name: str, tensor: torch.Tensor) -> None:
        """Add a tensor, unless its type has no plain elements."""
        if type(tensor) not in _PLAIN:  # by type: torch calls a subclass an instance of Parameter as well
            self._skip(f"{name}: a {type(tensor).__name__}, a subclass of Tensor")
            return
        tensor = tensor.detach()
        if tensor.layout is not torch.strided:
            if tensor.layout in SPARSE_LAYOUTS and tensor.numel() <= _ELEMENTS:
                tensor = tensor.to_dense()
            else:
                self._skip(f"{name}: a tensor of layout {tensor.layout}")
                return
        if tensor.is_meta or tensor.is_quantized or tensor.is_nested:
            self._skip(f"{name}: a {'meta' if tensor.is_meta else 'quantised or nested'} tensor")
            return
        self._tensors.append((name, tensor, str(tensor.dtype)))

    def _skip(self, what: str) -> None:
        """Skip a value and record why."""
        if len(self._skipped) < _SKIPPED:
            self._skipped.append(what)


def held_tensors(prepared: Prepared) -> Iterator[tuple[str, torch.Tensor]]:
    """Input tensors, parameters and buffers by name, each once."""
    seen: set[int] = set()
    for name, value in arguments_of(prepared):
        tensors = tensors_in(value)
        for index, tensor in enumerate(tensors):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield name if len(tensors) == 1 else f"{name}[{index}]", tensor
    for prefix, module in modules_of(prepared):
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{prefix}.{name}" if prefix else name, tensor


def _copy_of(tensor: torch.Tensor) -> torch.Tensor | LayoutCopy | None:
    if tensor.layout is torch.strided:
        return tensor.detach().clone()
    return copy_of(tensor) if tensor.layout in SPARSE_LAYOUTS else None


def _kind(name: str, tensor: torch.Tensor) -> str:
    if name.startswith("input "):
        return ""
    return "parameter " if isinstance(tensor, torch.nn.Parameter) else "buffer "


def elements_of(value: Any, most: int | None = None) -> list[tuple[str, Any]] | None:
    """The elements of a container, at most the first `most`, by the suffix of their name; None for anything else."""
    if isinstance(value, dict):  # transformers' ModelOutput is one as well
        return [
            (f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]", item)
            for key, item in itertools.islice(value.items(), most)
        ]
    if isinstance(value, (tuple, list)):
        return [(f"[{index}]", item) for index, item in enumerate(itertools.islice(value, most))]
    if is_dataclass(value) and not isinstance(value, type):
        return [(f".{field.name}", getattr(value, field.name, None)) for field in fields(value)]
    return None


def _copy(tensor: torch.Tensor, most: int) -> torch.Tensor:
    """A copy on the CPU of all elements, or of `most` elements at positions that depend on the element count alone."""
    if tensor.numel() > most:
        generator = torch.Generator("cpu").manual_seed(0)
        positions = torch.randint(tensor.numel(), (most,), generator=generator, device="cpu").sort().values
        tensor = tensor.reshape(-1)[positions.to(tensor.device)]
    return tensor.to("cpu", copy=True).resolve_conj().resolve_neg().contiguous()
