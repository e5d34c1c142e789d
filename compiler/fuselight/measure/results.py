"""What one call gave, as named tensors: outputs, gradients, and what it changed in place.

Invariant: values are copies on the CPU, taken before anything else runs, and of a bounded size: of a large tensor a
sample at positions that depend on its size alone, so that two processes keep the same elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch

from fuselight import torch_api
from fuselight.measure.reached import arguments_of, modules_of
from fuselight.measure.working import Unit, work_of
from fuselight.report import Work
from fuselight.target.calls import Prepared
from fuselight.target.tensors import SEED, set_seeds, tensors_in

_ELEMENTS = 1 << 22
"""Most elements that are kept of one tensor: to compare them takes some tenths of a second in float64."""
_COPIED = 1 << 24
"""Most elements of inputs and buffers together that are copied, to see whether a call changes them."""
_ALL_ELEMENTS = 1 << 27
"""And of all tensors together: half a GiB of float32."""
_DEPTH = 8
"""Outputs are shallow; a cycle must end."""
_SKIPPED = 20
"""Values that are named as left out."""
_PLAIN = (torch.Tensor, torch.nn.Parameter)

CHANGED = ", changed in place"
"""Behind the name of an input, a buffer or a parameter, as it was after the call."""


@dataclass(frozen=True)
class Value:
    """One tensor, or one Python number, that a call gave."""

    name: str
    """`output`, `output[0].logits`, `gradient of blocks.0.weight`, `input 0, changed in place`."""
    tensor: torch.Tensor
    """On the CPU; one dimension of sampled elements where there are fewer than `shape` says."""
    dtype: str
    """As torch names it, `torch.float32`; `float` or `int` for a number of Python's."""
    shape: tuple[int, ...]

    @property
    def sampled(self) -> bool:
        """Whether `tensor` has not all of its elements."""
        return tuple(self.tensor.shape) != self.shape


@dataclass(frozen=True)
class Results:
    """What one call gave."""

    values: tuple[Value, ...] = ()
    skipped: tuple[str, ...] = ()
    """What cannot be compared, in words: `output.cache: a DynamicCache`. Bounded."""
    device: str = "cpu"
    """Type of the device that most of it was on."""

    def save(self, path: str) -> None:
        """Write to a file. Raises OSError."""
        values = [(one.name, one.tensor, one.dtype, list(one.shape)) for one in self.values]
        torch.save({"values": values, "skipped": list(self.skipped), "device": self.device}, path)


def load(path: str) -> Results:
    """Read what `Results.save` wrote. Raises what torch.load raises for a file that is not whole."""
    read = torch.load(path, map_location="cpu", weights_only=True)
    values = tuple(Value(name, tensor, dtype, tuple(shape)) for name, tensor, dtype, shape in read["values"])
    return Results(values, tuple(read["skipped"]), read["device"])


def of_call(
    prepared: Prepared, function: Callable[..., Any], work: Work | None = None, *, seed: int = SEED
) -> Results:
    """Make one call as it is measured (working.Unit; no `work`: as the inputs say) and take what it gave.

    `prepared` must be fresh: what the call changes in place stays. Raises what the user's code raises.
    """
    for _, module in modules_of(prepared):  # one that the source keeps has those of an earlier call
        module.zero_grad(set_to_none=True)
    unit = Unit(prepared, function, work_of(work, prepared))
    taking = Taking(unit.prepared)
    set_seeds(seed)
    with unit.mode():
        return taking.outputs(unit.prepare()())


class _Before:
    """A tensor before the call."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._version = torch_api.version_of(tensor)
        self.copy: torch.Tensor | None = None
        """Not of parameters, nor of large tensors: torch's own count of changes has to do for them."""

    def changed(self, now: torch.Tensor) -> bool:
        """Whether its elements are others; native batch normalisation updates its buffers without counting it."""
        if self.copy is None:
            return now is not self._tensor or torch_api.version_of(now) != self._version
        if now.shape != self.copy.shape or now.dtype != self.copy.dtype:
            return True
        same = (now == self.copy) | (now != now) & (self.copy != self.copy)  # noqa: PLR0124 - NaN
        return not bool(same.all())


class Taking:
    """One call whose results are wanted: made before it, and given its outputs behind it.

    Gradients that are there before must be cleared by the call.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._named = dict(_held(prepared))
        self._before = {name: _Before(tensor) for name, tensor in self._named.items()}
        room = _COPIED
        for name, tensor in self._named.items():
            if not isinstance(tensor, torch.nn.Parameter) and type(tensor) in _PLAIN:
                room -= tensor.numel()
                if room >= 0:
                    self._before[name].copy = tensor.detach().clone()

    def outputs(self, outputs: Any) -> Results:
        """Take `outputs`, the gradients that are there, and what changed since this was made."""
        found = _Found()
        found.collect("output", outputs, 0)
        held = dict(_held(self._prepared))
        if self._prepared.options.train:
            for name, tensor in held.items():
                found.gradient(name, tensor)
        for name, tensor in held.items():
            before = self._before.get(name)
            if before is None or before.changed(tensor):
                found.add(f"{_kind(name, tensor)}{name}{CHANGED}", tensor)
        return found.results()


def _held(prepared: Prepared) -> Iterator[tuple[str, torch.Tensor]]:
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


def _kind(name: str, tensor: torch.Tensor) -> str:
    if name.startswith("input "):
        return ""
    return "parameter " if isinstance(tensor, torch.nn.Parameter) else "buffer "


class _Found:
    """Tensors by name, and what is left out."""

    def __init__(self) -> None:
        self.tensors: list[tuple[str, torch.Tensor, str]] = []
        self.skipped: list[str] = []

    def collect(self, name: str, value: Any, depth: int) -> None:
        """Take in whatever a function may return."""
        if isinstance(value, torch.Tensor):
            self.add(name, value)
        elif isinstance(value, (bool, int, float, complex)):
            self.number(name, value)
        elif value is None or isinstance(value, (str, bytes)):
            return
        elif depth > _DEPTH:
            self.skip(f"{name}: too deep")
        else:
            below = _below(value)
            if below is None:
                self.skip(f"{name}: a {type(value).__name__}")
            for suffix, item in below or ():
                self.collect(f"{name}{suffix}", item, depth + 1)

    def number(self, name: str, value: complex) -> None:
        """Take in one of Python's numbers."""
        kind = type(value).__name__
        wide = {"bool": torch.bool, "int": torch.int64, "complex": torch.complex128}
        try:
            self.tensors.append(
                (name, torch.tensor(value, dtype=wide.get(kind, torch.float64), device="cpu"), kind)
            )
        except (RuntimeError, OverflowError, ValueError) as error:  # an int of more than 64 bits
            self.skip(f"{name}: {error}")

    def gradient(self, name: str, tensor: torch.Tensor) -> None:
        """Take in the gradient of a leaf; none is the same as zero, as in torch's benchmark suite."""
        if not tensor.requires_grad or not tensor.is_leaf:
            return
        grad = tensor.grad
        self.add(f"gradient of {name}", torch.zeros_like(tensor) if grad is None else grad)

    def add(self, name: str, tensor: torch.Tensor) -> None:
        """Take in a tensor, unless it is of a kind that has no plain elements."""
        if type(tensor) not in _PLAIN:  # by type: torch calls a subclass an instance of Parameter as well
            self.skip(f"{name}: a {type(tensor).__name__}, a subclass of Tensor")
            return
        tensor = tensor.detach()
        if tensor.layout is not torch.strided:
            if tensor.is_sparse and tensor.numel() <= _ELEMENTS:
                tensor = tensor.to_dense()
            else:
                self.skip(f"{name}: a tensor of layout {tensor.layout}")
                return
        if tensor.is_meta or tensor.is_quantized or tensor.is_nested:
            self.skip(f"{name}: a {'meta' if tensor.is_meta else 'quantised or nested'} tensor")
            return
        self.tensors.append((name, tensor, str(tensor.dtype)))

    def skip(self, what: str) -> None:
        """Leave something out, with a word."""
        if len(self.skipped) < _SKIPPED:
            self.skipped.append(what)

    def results(self) -> Results:
        """Copies on the CPU."""
        most = _ELEMENTS
        while sum(min(tensor.numel(), most) for _, tensor, _ in self.tensors) > _ALL_ELEMENTS and most > 1:
            most //= 2
        values = tuple(
            Value(name, _copy(tensor, most), dtype, tuple(tensor.shape))
            for name, tensor, dtype in self.tensors
        )
        devices = [tensor.device.type for _, tensor, _ in self.tensors]
        return Results(values, tuple(self.skipped), max(devices, key=devices.count, default="cpu"))


def _below(value: Any) -> list[tuple[str, Any]] | None:
    """What a container holds, by the suffix of its name; None for what is no container."""
    if isinstance(value, dict):  # transformers' ModelOutput is one as well
        return [
            (f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]", item)
            for key, item in value.items()
        ]
    if isinstance(value, (tuple, list)):
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return [(f".{one.name}", getattr(value, one.name, None)) for one in fields(value)]
    return None


def _copy(tensor: torch.Tensor, most: int) -> torch.Tensor:
    """A copy on the CPU of all elements, or of `most` at positions that depend on their number alone."""
    if tensor.numel() > most:
        generator = torch.Generator("cpu").manual_seed(0)
        positions = torch.randint(tensor.numel(), (most,), generator=generator, device="cpu").sort().values
        tensor = tensor.reshape(-1)[positions.to(tensor.device)]
    return tensor.to("cpu", copy=True).resolve_conj().resolve_neg().contiguous()
