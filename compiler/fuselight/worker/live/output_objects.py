"""What a call returns beside tensors and numbers: the types of containers, text, and what objects hold.

Invariant: each value among the outputs is described, given as tensors, or named as one that cannot be compared; none is
left out. Nothing of the user's runs: attributes are read where they are stored.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import random
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fuselight.measure.accuracy.results import elements_of
from fuselight.worker.live.reachable import closure_of, digest_of, key_text, stored_attributes

_MAX = 20_000
"""Most values that are read."""
_DEPTH = 8
_SHOWN = 200
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_INTERNAL = frozenset(vars(torch.nn.Module()))
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
_NUMBERS = (bool, int, float, complex)
_TEXTS = (str, bytes, range, slice, torch.dtype, torch.device, torch.layout, torch.memory_format, type(...))
"""Types whose text says all of them."""
_TEXT_MODULES = frozenset({"datetime", "decimal", "fractions", "pathlib", "uuid"})
"""Modules of Python whose objects say all of them in their text."""
_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}
"""The tensors that a sparse one consists of, by its layout."""


class OutputObjects:
    """The outputs of one call, as far as they are no plain tensors and numbers."""

    def __init__(self, outputs: object) -> None:
        """Read them."""
        self.texts: dict[str, str] = {}
        """Types, lengths and texts, by the name of the value."""
        self.tensors: list[tuple[str, Any]] = []
        """Tensors and numbers that objects hold."""
        self.uncompared: list[str] = []
        """`output[1] is a generator`."""
        self._seen: dict[int, tuple[str, Any]] = {}
        self._left = _MAX
        self._read("output", outputs, 0, is_held=False)

    def _read(self, name: str, value: Any, depth: int, *, is_held: bool) -> None:
        """Read a value. `is_held`: within an object, so that nobody else compares its tensors and numbers."""
        self._left -= 1
        if depth > _DEPTH or self._left < 0:
            self.uncompared.append(f"{name} is too deep or too large")
        elif isinstance(value, torch.Tensor):
            self._tensor(name, value, is_held=is_held)
        elif isinstance(value, _NUMBERS):
            self._number(name, value, is_held=is_held)
        elif value is None or isinstance(value, _TEXTS) or _is_text(value):
            self.texts[name] = _short(_ADDRESS.sub("0x", repr(value)))
        elif id(value) in self._seen:
            self.texts[name] = f"the object that is {self._seen[id(value)][0]}"
        else:
            self._seen[id(value)] = name, value  # kept, so that its id stays its own
            self._container(name, value, depth, is_held=is_held)

    def _container(self, name: str, value: Any, depth: int, *, is_held: bool) -> None:
        if is_container(value):
            below = elements_of(value) or []
            self.texts[name] = _short(f"{_type(value)} of {len(below)}: {_keys(value)}".removesuffix(": "))
            for suffix, item in below:
                self._read(f"{name}{suffix}", item, depth + 1, is_held=is_held)
            if len({suffix for suffix, _ in below}) < len(below):
                self.uncompared.append(f"{name} has keys with the same text")
            known = {id(item) for _, item in below}
            held: Any = [attribute for attribute in stored_attributes(value) if id(attribute[1]) not in known]
        else:
            words, held = _held(value) or ("", None)
            if held is None:
                self.uncompared.append(f"{name} is a {_type(value)}")
                return
            self.texts[name] = _short(words)
        for key, item in held:
            suffix = key if key[:1] in ".[{" else f".{key}"
            self._read(f"{name}{suffix}", item, depth + 1, is_held=True)

    def _number(self, name: str, value: complex, *, is_held: bool) -> None:
        is_large = isinstance(value, int) and not -(1 << 63) <= value < 1 << 63
        if type(value) not in _NUMBERS or is_large:
            self.texts[name] = _short(f"{_type(value)} {value!r}") if is_large else _type(value)
        if is_held and not is_large:
            self.tensors.append((name, value))

    def _tensor(self, name: str, value: torch.Tensor, *, is_held: bool) -> None:
        kind = "" if type(value) is torch.Tensor else f"a {type(value).__name__} "
        layout = "" if value.layout is torch.strided else f", {value.layout}"
        self.texts[name] = f"{kind}on {value.device}{layout}"
        plain = type(value) in _PLAIN_TENSORS
        if plain and value.is_meta:
            self.texts[name] += f", {value.dtype}{list(value.shape)}"
        elif plain and value.layout in _PARTS:
            self.texts[name] += f", {value.dtype}{list(value.shape)}"
            for part in _PARTS[value.layout]:
                self.tensors.append((f"{name}.{part.strip('_')}", getattr(value.detach(), part)()))
        elif plain and value.is_quantized:
            self.tensors += [(f"{name}.int_repr", value.int_repr()), (f"{name}.values", value.dequantize())]
        elif plain and value.is_nested:
            self.tensors += [(f"{name}[{at}]", tensor) for at, tensor in enumerate(value.detach().unbind())]
        elif plain and value.layout is torch.strided:
            if is_held:
                self.texts[name] += ", requires a gradient" if value.requires_grad else ""
                self.tensors.append((name, value))
        else:
            self._subclass(name, value)

    def _subclass(self, name: str, value: torch.Tensor) -> None:
        """The elements of a subclass of Tensor: those that it wraps, or its own."""
        flatten = getattr(type(value), "__tensor_flatten__", None)
        if flatten is None and type(value).__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
            self.tensors.append((f"{name}.elements", torch.Tensor.as_subclass(value.detach(), torch.Tensor)))
            return
        self.uncompared.append(f"{name} is a {type(value).__name__}")


def _is_text(value: object) -> bool:
    if isinstance(value, type):  # a class
        return True
    return isinstance(value, enum.Enum) or type(value) is object or type(value).__module__ in _TEXT_MODULES


def is_container(value: object) -> bool:
    """Whether it is a container whose elements are compared as outputs (measure/accuracy/results.py)."""
    return isinstance(value, (dict, tuple, list)) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    )


def _type(value: object) -> str:
    return type(value).__name__


def _short(text: str) -> str:
    """A text of bounded length that differs wherever the whole one does."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({digest_of(text.encode())})"


def _keys(value: object) -> str:
    """The keys of a dict in their order."""
    if not isinstance(value, dict):
        return ""
    return ", ".join(key_text(at, key) for at, key in enumerate(dict.keys(value)))


def _held(value: Any) -> tuple[str, list[tuple[str, Any]]] | None:
    """What an object is, and what it holds; None where that cannot be read."""
    name = _type(value)
    for kind, read in _READERS:
        if isinstance(value, kind):
            return read(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return _array(value)
    attributes = list(stored_attributes(value))
    return (name, attributes) if attributes or type(getattr(value, "__dict__", None)) is dict else None


def _set(value: Any) -> tuple[str, list[tuple[str, Any]]] | None:
    """A set, which has no order: of several objects in it, none has a place."""
    texts = sorted(key_text(0, result) for result in value)
    objects = [result for result in value if not isinstance(result, (*_NUMBERS, *_TEXTS, tuple, type(None)))]
    if len(objects) > 1:
        return None
    return f"{_type(value)} of {len(value)}: {', '.join(texts)}", [("{object}", value) for value in objects]


def _builtin(value: Any) -> tuple[str, list[tuple[str, Any]]] | None:
    owner = value.__self__
    is_function = owner is None or isinstance(owner, (type, types.ModuleType))
    return (f"function {value.__module__}.{value.__qualname__}", []) if is_function else None


def _partial(value: Any) -> tuple[str, list[tuple[str, Any]]]:
    return "partial", [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]


def _method(value: Any) -> tuple[str, list[tuple[str, Any]]]:
    return "method", [(".self", value.__self__), (".function", value.__func__)]


def _array(value: Any) -> tuple[str, list[tuple[str, Any]]] | None:
    """An array or a number of NumPy, as a tensor."""
    words = f"{_type(value)} of {value.dtype}{list(value.shape)}"
    try:
        return words, [(".elements", torch.as_tensor(value.copy()))]
    except TypeError:  # text, objects, dates
        is_text = value.dtype.kind in "SUMm"
        return (f"{words}: {value.tolist()!r}", []) if is_text else None


def _module(value: torch.nn.Module) -> tuple[str, list[tuple[str, Any]]]:
    return _type(value), list(_parts(value))


def _parts(value: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    yield ".training", value.training
    for part in ("_parameters", "_buffers", "_modules"):
        yield from ((f".{key}", item) for key, item in list(vars(value)[part].items()))
    yield from ((f".{key}", item) for key, item in list(vars(value).items()) if key not in _INTERNAL)


def _function(value: types.FunctionType) -> tuple[str, list[tuple[str, Any]]]:
    """A function: its code without lines, its defaults and what it closes over."""
    held = list(closure_of(value))
    held += [(".defaults", value.__defaults__), (".keyword_defaults", value.__kwdefaults__)]
    return f"function {value.__qualname__}: {hash_of_code(value.__code__)}", held


def hash_of_code(code: types.CodeType) -> str:
    """What tells the code of two functions apart, wherever they stand in their files."""
    parts = [code.co_code.hex(), repr(code.co_names), repr(code.co_varnames), repr(code.co_freevars)]
    parts += [
        hash_of_code(constant) if isinstance(constant, types.CodeType) else repr(constant)
        for constant in code.co_consts
    ]
    return digest_of("\n".join(parts).encode())


_READERS: tuple[tuple[Any, Callable[[Any], tuple[str, list[tuple[str, Any]]] | None]], ...] = (
    ((set, frozenset), _set),
    (
        collections.deque,
        lambda value: (_type(value), [(f"[{at}]", result) for at, result in enumerate(value)]),
    ),
    (torch.nn.Module, _module),
    (torch.Generator, lambda value: (f"generator {digest_of(value.get_state().numpy().tobytes())}", [])),
    (random.SystemRandom, lambda _value: ("generator of the system", [])),
    (random.Random, lambda value: (f"generator {digest_of(repr(value.getstate()).encode())}", [])),
    (functools.partial, _partial),
    (types.MethodType, _method),
    (types.FunctionType, _function),
    (types.BuiltinFunctionType, _builtin),
    (BaseException, lambda value: (_type(value), [(".args", value.args)])),
    ((Iterator, types.ModuleType), lambda _value: None),
)
"""How objects are read, by their type; what may only be read once is not."""
