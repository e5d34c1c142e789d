"""Records the arguments of functions while the target runs in eager mode, so that each can be traced by itself.

Invariant: what the program does is unchanged. Containers and plain objects are copied when a call begins, because the
call may change them; tensors and modules are kept as they are. Bounds: `MAX_CALLS` calls of a function, `MAX_OBJECTS`
copied objects and, over all, `KEPT_BYTES` of tensors that are no parameters: larger ones are kept without their values.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

MAX_CALLS = 2
"""The first call of a function, and a later one with other shapes."""
MAX_OBJECTS = 2000
KEPT_BYTES = 512 * 1024 * 1024
_COMPARED_CALLS = 64
"""Calls of one function that are looked at."""
_DEVICES = ("cpu", "cuda")
_AS_THEY_ARE = (
    torch.nn.Module, torch.nn.Parameter, type, ModuleType, FunctionType, MethodType, BuiltinFunctionType,
    str, bytes, int, float, complex, bool, type(None), torch.dtype, torch.device, torch.Size,
)  # fmt: skip

FunctionKey = tuple[str, str, int]
"""File, name and first line of a code object."""


@dataclass(frozen=True)
class CallModes:
    """The modes of torch in which a call was made."""

    grad: bool
    inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]
    """Types of devices for which autocast is on, each with its dtype."""
    dtype: torch.dtype
    device: torch.device

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Inside, torch is in these modes."""
        before = torch.get_default_dtype()
        with contextlib.ExitStack() as stack:
            if self.inference:
                stack.enter_context(torch.inference_mode())
            stack.enter_context(torch.set_grad_enabled(self.grad))
            for device, dtype in self.autocast:
                stack.enter_context(torch.autocast(device, dtype=dtype))
            if self.device != torch.get_default_device():
                stack.enter_context(self.device)
            torch.set_default_dtype(self.dtype)
            try:
                yield
            finally:
                torch.set_default_dtype(before)


def current_modes() -> CallModes:
    """The modes that are in force."""
    return CallModes(
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        tuple(
            (device, torch.get_autocast_dtype(device))
            for device in _DEVICES
            if torch.is_autocast_enabled(device)
        ),
        torch.get_default_dtype(),
        torch.get_default_device(),
    )


@dataclass(frozen=True)
class RecordedCall:
    """One call of a function, with the variables that it began with."""

    code: CodeType
    names: dict[str, Any]
    """The globals of the function."""
    values: Mapping[str, Any]
    """Its arguments and the variables of its closure, by name."""
    modes: CallModes
    training: bool | None
    """`training` of its first argument, if that is a module."""
    index: int | None = None
    """Index of the call of the target during which it was made."""


def function_key(code: CodeType) -> FunctionKey:
    """Identify the function of a code object, also if its file was run twice."""
    return code.co_filename, code.co_name, code.co_firstlineno


@dataclass(frozen=True)
class _Unkept:
    """A tensor of which the values were not kept."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool

    def make(self) -> torch.Tensor:
        tensor = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device).zero_()
        return _as_intermediate(tensor.requires_grad_()) if self.requires_grad else tensor


class _Intermediate(torch.autograd.Function):
    """Gives a leaf tensor a history: what a function changes in place is rarely a leaf."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        del ctx
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        del ctx
        return grad_outputs[0]


def _as_intermediate(tensor: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        new_tensor: torch.Tensor = _Intermediate.apply(tensor)  # type: ignore[no-untyped-call]
    return new_tensor


@dataclass
class _Copier:
    """Copies what a call may change: containers and plain objects; one object becomes one copy."""

    change: Callable[[torch.Tensor], Any]
    known: dict[int, Any] = field(default_factory=dict)
    alive: list[Any] = field(default_factory=list)
    """What `known` has the addresses of."""

    def copy(self, value: Any) -> Any:
        """Return the copy of `value`, or `value` if nothing may change in it."""
        if isinstance(value, _AS_THEY_ARE):
            return value
        if id(value) in self.known:
            return self.known[id(value)]
        if len(self.known) >= MAX_OBJECTS:
            return value
        self.alive.append(value)
        self.known[id(value)] = value  # for a circle
        copy = self.known[id(value)] = self._copy(value)
        return copy

    def _copy(self, value: Any) -> Any:
        kind: Any = type(value)
        if isinstance(value, (torch.Tensor, _Unkept)):
            return self.change(value)  # type: ignore[arg-type]
        if kind is tuple:
            return tuple(self.copy(item) for item in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*(self.copy(item) for item in value))
        if kind in (list, dict, set):
            copy = self.known[id(value)] = kind()  # before its items, which may lead back to it
            if kind is list:
                copy.extend(self.copy(item) for item in value)
            elif kind is set:
                copy.update(value)
            else:
                copy.update((key, self.copy(item)) for key, item in value.items())
            return copy
        return self._copy_object(value) if _is_plain(value) else value

    def _copy_object(self, value: Any) -> Any:
        """Copy an object without its own code: what that does is not known."""
        kind: Any = type(value)
        result = self.known[id(value)] = kind.__new__(kind)
        if isinstance(value, dict):  # an ordered dict, as models of `transformers` return
            for key, item in dict.items(value):
                dict.__setitem__(result, key, self.copy(item))
        for name, item in vars(value).items():
            vars(result)[name] = self.copy(item)
        return result


def _is_plain(value: Any) -> bool:
    """Whether an object consists of its attributes, some of which it has, and of its items if it is a dict."""
    kind = type(value)
    if not getattr(value, "__dict__", None) or not kind.__flags__ & _HEAP_TYPE:
        return False
    base = next((base for base in kind.__mro__ if not base.__flags__ & _HEAP_TYPE), object)
    if base not in _PLAIN_BASES or kind.__module__.partition(".")[0] == "torch":
        return False
    return kind.__new__ in (object.__new__, dict.__new__) and not _has_slots(kind)


def _has_slots(kind: type) -> bool:
    return any(vars(base).get("__slots__") for base in kind.__mro__)


_HEAP_TYPE = 1 << 9
"""CPython's Py_TPFLAGS_HEAPTYPE: a class statement made it."""
_PLAIN_BASES = (object, dict)


@dataclass
class ArgumentCopier:
    """Keeps the arguments of calls as they are when the calls begin, within `KEPT_BYTES` over all of them."""

    _bytes: int = 0
    _storages: set[int] = field(default_factory=set)

    def keep_values(self, values: Any) -> Any:
        """Copy containers and plain objects; tensors lose the graph that computed them."""
        return _Copier(self._kept).copy(values)

    @staticmethod
    def fresh(values: Any) -> Any:
        """Return what was kept, with containers of its own, and zeros where values were not kept."""
        return _Copier(lambda tensor: tensor.make() if isinstance(tensor, _Unkept) else tensor).copy(values)

    def _kept(self, tensor: torch.Tensor) -> Any:
        """Return the tensor without the graph that computed it, or without its values if there are too many bytes."""
        if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
            return tensor
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if address not in self._storages:
            if self._bytes + size > KEPT_BYTES:
                return _Unkept(
                    tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad
                )
            self._bytes += size
            self._storages.add(address)
        if tensor.grad_fn is None:
            return tensor
        return _as_intermediate(tensor.detach().requires_grad_())


@dataclass
class ArgumentRecorder:
    """Records calls of the functions in `wanted` while `listening`."""

    wanted: set[FunctionKey]
    calls: dict[FunctionKey, list[RecordedCall]] = field(default_factory=dict)
    unkept: dict[FunctionKey, str] = field(default_factory=dict)
    """Why the arguments of a function could not be kept."""
    index: int | None = None
    """Index of the call of the target that is being made."""
    done: Callable[[], BaseException] | None = None
    """Makes what ends the program once each function was called; None: it goes on."""
    _copier: ArgumentCopier = field(default_factory=ArgumentCopier)
    _seen: dict[FunctionKey, set[Any]] = field(default_factory=dict)
    _looked: dict[FunctionKey, int] = field(default_factory=dict)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Record the calls that this thread makes inside the block."""
        files = {path for path, _, _ in self.wanted}

        def on_event(frame: FrameType, event: str, _: object) -> None:
            code = frame.f_code
            if event != "call" or code.co_filename not in files:
                return  # cheap, before the thorough test
            key = function_key(code)
            if key in self.wanted and self._looked.get(key, 0) < _COMPARED_CALLS:
                self._looked[key] = self._looked.get(key, 0) + 1
                self._called(key, frame)
                if self.done is not None and len(self.calls) + len(self.unkept) >= len(self.wanted):
                    sys.setprofile(None)
                    raise self.done()

        before = sys.getprofile()
        sys.setprofile(on_event)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _called(self, key: FunctionKey, frame: FrameType) -> None:
        try:
            self._record(key, frame)
        except Exception as error:  # noqa: BLE001 - reading the user's objects may run the user's code
            if key not in self.calls:
                self.unkept.setdefault(
                    key, f"its arguments cannot be copied ({type(error).__name__}: {error})"[:200]
                )

    def _record(self, key: FunctionKey, frame: FrameType) -> None:
        code, f_locals = frame.f_code, dict(frame.f_locals)
        calls = self.calls.get(key, [])
        if calls and code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
            return  # it goes on: its variables are no arguments
        seen = self._seen.setdefault(key, set())
        shapes = tuple(
            (name, tuple(value.shape)) for name, value in f_locals.items() if isinstance(value, torch.Tensor)
        )
        if shapes in seen or len(calls) >= MAX_CALLS:
            return
        first = f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        values = self._copier.keep_values(f_locals)
        training = first.training if isinstance(first, torch.nn.Module) else None
        seen.add(shapes)
        call = RecordedCall(code, frame.f_globals, values, current_modes(), training, self.index)
        self.calls.setdefault(key, []).append(call)
        self.unkept.pop(key, None)


def fresh_values(call: RecordedCall) -> dict[str, Any]:
    """The variables of a call, with containers of their own, and zeros where values were not kept."""
    values: dict[str, Any] = ArgumentCopier.fresh(dict(call.values))
    return values
