"""The state of plain objects that a call can reach: globals, closures, attributes, collections.

Modules, inputs and numbers that are globals or attributes of modules are read elsewhere (call_traits, call_records).
Invariant: nothing is changed, no property and no method of the user's runs, and what is read is bounded.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import inspect
import itertools
import random
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo.installed_globals import globals_of_dynamo
from fuselight.adapters.torch_api.inductor.measurement import version_of
from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.tensor_layouts import SPARSE_LAYOUTS, parts_of
from fuselight.capture.calls.tensors import slots_of
from fuselight.capture.dynamo.stacks import is_users
from fuselight.measure.measured_call import arguments_of, modules_of

_MAX = 4000
"""Most values that are read."""
_DEPTH = 8
_COPIED = 4096
"""Most elements of a tensor that are compared; of a larger one torch's version counter is."""
_SHOWN = 80
_PLAIN = frozenset({str, bytes, int, float, complex, bool, type(None), torch.dtype, torch.device, torch.Size})
"""Types whose text is their own, so that to read it runs nothing of the user's."""
_NUMBERS = (int, float, str)
_HELD_ELSEWHERE = (*_NUMBERS, torch.Tensor, list, tuple, dict)
_INTERNAL = frozenset(vars(torch.nn.Module()))
_MARKS_OF_DYNAMO = "_torchdynamo"
"""How attributes of functions begin in which Dynamo notes that it compiled, or left out, a function."""


@dataclass(frozen=True)
class _Leaf:
    """One value, as something that can be compared with what it is later."""

    digest: object
    value: Any = None
    """A number, for the words of a change; a tensor."""


@dataclass
class _StateWalk:
    """One reading of all values."""

    is_users: Callable[[str], bool]
    lengths: Mapping[str, int]
    """Lengths of lists at the first reading: what is beyond was appended, and is named by its distance."""
    leaves: dict[str, _Leaf] = field(default_factory=dict)
    found_lengths: dict[str, int] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    _copies: list[Any] = field(default_factory=list)
    """Keeps their ids from being used again."""

    def skip(self, value: object) -> None:
        """Read nothing of an object."""
        self._seen.add(id(value))

    def read_copy(self, name: str, value: Any) -> None:
        """Read a value that nothing else refers to."""
        self._copies.append(value)
        self.read(name, value)

    def read(self, name: str, value: Any, depth: int = 0) -> None:
        """Read a value and what it holds."""
        leaf = _leaf(value)
        if leaf is not None:
            if len(self.leaves) < _MAX:
                self.leaves[name] = leaf
            return
        if depth > _DEPTH or id(value) in self._seen or len(self.leaves) >= _MAX:
            return
        self._seen.add(id(value))
        for suffix, item in self._held(name, value):
            if len(self.leaves) >= _MAX:
                return
            self.read(f"{name}{suffix}", item, depth + 1)

    def _held(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, Mapping) and isinstance(value, dict):
            keys = list(map(key_text, range(_MAX), dict.keys(value)))
            self.leaves[f"the keys of {name}"] = _Leaf((*keys[:_SHOWN], dict.__len__(value)))
            yield from zip((f"[{key:.40}]" for key in keys), list(dict.values(value)), strict=False)
        elif isinstance(value, (list, tuple, collections.deque)):
            self.found_lengths[name] = len(value)
            self.leaves[f"the length of {name}"] = _Leaf(len(value), len(value))
            before = self.lengths.get(name, len(value))
            for index, item in enumerate(list(itertools.islice(value, _MAX))):
                yield (f"[{index}]" if index < before else f"[+{index - before + 1}]"), item
        elif isinstance(value, torch.nn.Module):
            yield from ((f".{key}", item) for key, item in list(vars(value).items()) if key not in _INTERNAL)
            yield ".training", value.training
            for part in ("_parameters", "_buffers", "_modules"):
                yield from ((f".{key}", item) for key, item in list(vars(value)[part].items()))
        elif isinstance(value, types.FunctionType):
            marks = list(vars(value).items())
            yield from ((f".{key}", item) for key, item in marks if not key.startswith(_MARKS_OF_DYNAMO))
            yield from closure_of(value)
        if not isinstance(value, (torch.nn.Module, types.FunctionType)) and is_users_object(
            value, self.is_users
        ):
            yield from ((f".{key}", item) for key, item in stored_attributes(value))


def is_users_object(value: Any, is_users: Callable[[str], bool]) -> bool:
    """Whether a class, or the class of an object, is in a file of the user's, or holds attributes alone."""
    kind = value if isinstance(value, type) else type(value)
    if kind is types.SimpleNamespace:
        return True
    module = sys.modules.get(str(getattr(kind, "__module__", "")))
    path = getattr(module, "__file__", None)
    return isinstance(path, str) and is_users(path)


class ReachableState:
    """What the plain objects held before a call."""

    def __init__(
        self, prepared: Prepared, names: Mapping[str, Any], roots: tuple[str, ...], *, since: str = ""
    ) -> None:
        """`names`: the globals of the user's file. `roots`: the folders of the user's files.

        `since`: name of a module; none that was loaded before it is the user's. Empty: any may be.
        """
        self._prepared, self._names, self._roots = prepared, names, roots
        self._modules = [
            module for module in _user_modules(roots, since, len(sys.modules)) if vars(module[1]) is not names
        ]
        self._before = self._read({})

    def _read(self, lengths: Mapping[str, int]) -> _StateWalk:
        walk = _StateWalk(lambda path: is_users(path, self._roots), lengths)
        for path, known in modules_of(self._prepared):
            for prefix, result in known.named_modules(prefix=path):
                walk.skip(result)
                for name, value in list(vars(result).items()):
                    if name not in _INTERNAL and not isinstance(value, _HELD_ELSEWHERE):
                        walk.read(f"{prefix}.{name}" if prefix else name, value)
        for name, value in arguments_of(self._prepared):
            if not isinstance(value, torch.Tensor):
                walk.read_copy(name, _without_tensors(value))
        function = inspect.unwrap(getattr(self._prepared.function, "__func__", self._prepared.function))
        walk.read(getattr(function, "__name__", "target"), function)
        walk.read("self", getattr(self._prepared.function, "__self__", None))
        _read_globals(walk, "global ", self._names, _NUMBERS)
        for module_name, module in self._modules:
            _read_globals(walk, f"{module_name}.", vars(module), ())
        return walk

    def changes(self) -> tuple[list[tuple[str, torch.Tensor]], dict[str, str]]:
        """The tensors that differ now, and in words the other values that do."""
        before, now = self._before.leaves, self._read(self._before.found_lengths).leaves
        tensors: list[tuple[str, torch.Tensor]] = []
        words: dict[str, str] = {}
        for name in {**before, **now}:
            was, leaf = before.get(name), now.get(name)
            if was is not None and leaf is not None and was.digest == leaf.digest:
                continue
            if leaf is not None and isinstance(leaf.value, torch.Tensor):
                tensors.append((name, leaf.value))
            else:
                words[name] = _change(was, leaf)
        return tensors, words


@functools.lru_cache(maxsize=1)
def _user_modules(
    roots: tuple[str, ...], since: str, _loaded: int
) -> tuple[tuple[str, types.ModuleType], ...]:
    """The loaded modules that are the user's files; `_loaded`: how many modules there are."""
    # From the end: to look at what a host has loaded is to copy it in a fork.
    new = list(itertools.takewhile(lambda name: name != since, reversed(sys.modules)))
    return tuple(
        (name, module)
        for name in reversed(new)
        if (module := sys.modules.get(name)) is not None
        and isinstance(path := getattr(module, "__file__", None), str)
        and is_users(path, roots)
    )


def _read_globals(
    walk: _StateWalk, prefix: str, names: Mapping[str, Any], held_elsewhere: tuple[type, ...]
) -> None:
    for_torch = globals_of_dynamo(names)
    for name, value in list(names.items()):
        if name.startswith("__") or name in for_torch:
            continue
        if not isinstance(value, (*held_elsewhere, types.ModuleType)):
            walk.read(f"{prefix}{name}", value)


def _change(was: _Leaf | None, now: _Leaf | None) -> str:
    if now is None:
        return "nothing"
    old, new = (was.value if was is not None else None), now.value
    if isinstance(old, (int, float)) and isinstance(new, (int, float)) and type(old) is type(new):
        return f"{new - old:+g}"
    return str(now.digest)[:_SHOWN]


def _leaf(value: Any) -> _Leaf | None:
    """A value that holds no others; None for one that may."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, range)):
        return _Leaf((type(value).__name__, repr(value)), value if isinstance(value, (int, float)) else None)
    if isinstance(value, torch.Tensor):
        return _tensor_leaf(value)
    digest = _opaque_digest(value)
    return _Leaf(digest) if digest is not None else None


def _opaque_digest(value: Any) -> object | None:
    """What tells the states of objects that hold no others apart."""
    if isinstance(value, (set, frozenset)):
        texts = (key_text(0, item) for item in itertools.islice(value, _MAX))
        return "set", len(value), tuple(sorted(texts))
    if isinstance(value, itertools.count):
        return repr(value)
    if isinstance(value, random.Random):
        is_of_system = isinstance(value, random.SystemRandom)  # which has no state
        return "system" if is_of_system else digest_of(repr(value.getstate()).encode())
    if isinstance(value, torch.Generator):
        return digest_of(value.get_state().numpy().tobytes())
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return _array_digest(value)
    return None


def _array_digest(array: Any) -> object:
    """What tells the states of an array of NumPy apart: of a large one, which may be a mapped file, a sample."""
    size = int(getattr(array, "size", 1))
    if size > _COPIED:
        array = array.flat[:: -(-size // _COPIED)]
    return (
        str(getattr(array, "dtype", "")),
        str(getattr(array, "shape", "")),
        size,
        digest_of(array.tobytes()),
    )


def key_text(index: int, key: Any) -> str:
    """A key or an element of a set as text, without the user's code; an object by its type and position."""
    if type(key) in _PLAIN:
        return repr(key)
    if type(key) is tuple:
        return f"({', '.join(key_text(index, item) for item in key)})"
    return f"{type(key).__name__} {index}"


def _tensor_leaf(tensor: torch.Tensor) -> _Leaf:
    kind = (str(tensor.dtype), tuple(tensor.shape), tensor.requires_grad)
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    if is_plain and tensor.layout in SPARSE_LAYOUTS and tensor.numel() <= _COPIED and not tensor.is_meta:
        # The version of a compressed one does not count changes of its values.
        return _Leaf((*kind, *(digest_of(_bytes_of(part)) for part in parts_of(tensor))), tensor)
    if not is_plain or tensor.layout is not torch.strided or tensor.is_meta or tensor.numel() > _COPIED:
        return _Leaf((*kind, version_of(tensor)), tensor)
    return _Leaf((*kind, digest_of(_bytes_of(tensor))), tensor)


def _bytes_of(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) if tensor.dim() else None
    return flat.numpy().tobytes() if flat is not None else repr(tensor.detach().cpu().tolist()).encode()


def digest_of(data: bytes) -> str:
    """What tells two byte strings apart."""
    return hashlib.sha256(data).hexdigest()[:16]


def _without_tensors(value: Any) -> Any:
    """A collection of inputs without its tensors, whose changes are seen as those of inputs."""
    if isinstance(value, (list, tuple)):
        return [None if isinstance(result, torch.Tensor) else result for result in value]
    if isinstance(value, dict):
        return {key: None if isinstance(result, torch.Tensor) else result for key, result in value.items()}
    return value


def stored_attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes that an object or a class stores itself."""
    if isinstance(value, type):
        for name, item in list(vars(value).items()):
            is_code = isinstance(item, (types.FunctionType, staticmethod, classmethod, property))
            if not name.startswith("__") and not is_code:
                yield name, item
        return
    yield from list(getattr(value, "__dict__", {}).items())
    yield from ((member.__name__, item) for member, item in slots_of(value))


def closure_of(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function closes over."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f".{name}", cell.cell_contents
        except ValueError:  # an empty cell
            continue
