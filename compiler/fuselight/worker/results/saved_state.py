"""The state that a call can reach, kept so that the call can be made again from it.

Invariant: `restore` changes the objects themselves, runs no code of the user's, and leaves alone what has not changed:
guards of compiled code look at it. What cannot be put back is named.
"""

from __future__ import annotations

import collections
import functools
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo.installed_globals import globals_of_dynamo
from fuselight.adapters.torch_api.inductor.measurement import version_of
from fuselight.capture.calls.present_device import uses_gpu
from fuselight.capture.calls.tensor_layouts import UnreadableLayoutError, copy_of, put_back
from fuselight.capture.calls.tensors import slots_of
from fuselight.worker.live.reachable import is_users_object
from fuselight.worker.results.function_caches import CACHE_TYPE, SavedCache, can_be_restored
from fuselight.worker.results.reachable_names import ReachableNames

MAX_BYTES = 4 << 30
"""Most bytes of tensors that are copied."""
_MAX_OBJECTS = 50_000
_PLAIN = (
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    torch.dtype,
    torch.device,
    torch.Size,
    type,
    types.ModuleType,
)
_ITERATORS = (types.GeneratorType, types.AsyncGeneratorType, types.CoroutineType)
_OF_TORCH = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
_OF_GRAPH = "CUDAGraphs that has been overwritten"
_NOTHING = object()
Undo = Callable[[], None]


class UnsavedError(Exception):
    """The state cannot be put back; the message says why."""


class SavedState:
    """What a call can reach, as it is now."""

    def __init__(
        self, reached: list[Any], namespaces: list[dict[str, Any]], is_users: Callable[[str], bool]
    ) -> None:
        """`reached`: what is called, and its arguments; `namespaces`: globals of the user's files. Raises UnsavedError.

        `is_users`: whether a file is the user's.
        """
        self._is_users = is_users
        self._undo: list[Undo] = []
        self._seen: set[int] = set()
        self._alive: list[Any] = []
        """Keeps ids from being used again."""
        self._room = MAX_BYTES
        self._storages: dict[int, torch.UntypedStorage] = {}
        self.tensors: list[torch.Tensor] = []
        """Every tensor that was found."""
        self.caches: list[SavedCache] = []
        """Every cache of functools that was found."""
        self._random = _generators()
        self._pending: collections.deque[Any] = collections.deque(reached)
        readable = ReachableNames(reached, namespaces)
        for names in namespaces:
            self._seen.add(id(names))
            self._undo.append(functools.partial(_put_globals, names, dict(names)))
            # An iterator of the program's own loop is not the call's, although it is a global.
            self._pending.extend(
                value
                for name, value in names.items()
                if not isinstance(value, _ITERATORS) or name in readable
            )
        while self._pending:
            self._visit(self._pending.popleft())

    def restore(self) -> None:
        """Give everything back what it held."""
        for undo in self._undo:
            undo()
        self._random()

    def _visit(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self._save_tensor(value)
            return
        if (isinstance(value, _PLAIN) and not self._is_users_class(value)) or id(value) in self._seen:
            return
        if isinstance(value, _ITERATORS):
            raise UnsavedError(f"the call reaches a {type(value).__name__}, which cannot be read twice")
        self._seen.add(id(value))
        self._alive.append(value)
        if len(self._seen) > _MAX_OBJECTS:
            raise UnsavedError(f"the call reaches more than {_MAX_OBJECTS} objects")
        self._pending.extend(self._save(value))

    def _save(self, value: Any) -> Iterator[Any]:
        """Keep what a value holds; yields what is held."""
        if isinstance(value, dict):
            self._undo.append(functools.partial(_put_mapping, value, list(_base_of(value).items(value))))
            yield from dict.values(value)
        elif isinstance(value, (list, collections.deque)):
            kept = list(value)
            self._undo.append(functools.partial(_put_sequence, value, kept))
            yield from kept
        elif isinstance(value, set):
            self._undo.append(functools.partial(_put_set, value, set(value)))
            yield from set.__iter__(value)
        elif isinstance(value, frozenset):
            yield from frozenset.__iter__(value)
        elif isinstance(value, tuple):
            yield from tuple.__iter__(value)
        elif isinstance(value, bytearray):
            self._undo.append(functools.partial(_put_sequence, value, bytes(value)))
        elif (undo := _undo_of_opaque(value)) is not None:
            self._undo.append(undo)
        yield from self._held_by_object(value)

    def _held_by_object(self, value: Any) -> Iterator[Any]:
        if isinstance(value, types.FunctionType):
            yield from self._save_function(value)
        elif isinstance(value, types.MethodType):
            yield from (value.__self__, value.__func__)
        elif isinstance(value, functools.partial):
            yield from (value.func, value.args, value.keywords)
        elif isinstance(value, CACHE_TYPE):
            yield from self._save_cache(value)
        elif isinstance(value, type):
            yield from self._save_class(value)
        elif isinstance(value, _OF_TORCH) or is_users_object(value, self._is_users):
            held = getattr(value, "__dict__", None)
            if type(held) is dict:
                yield held
            for member, item in slots_of(value):
                self._undo.append(functools.partial(_put_slot, member, value, item))
                yield item

    def _save_function(self, function: types.FunctionType) -> Iterator[Any]:
        if self._is_users(function.__code__.co_filename):
            for cell in function.__closure__ or ():
                yield from self._save_cell(cell)
            yield function.__dict__
            yield function.__defaults__

    def _save_cell(self, cell: types.CellType) -> Iterator[Any]:
        contents = _contents(cell)
        self._undo.append(functools.partial(_put_cell, cell, contents))
        if contents is not _NOTHING:
            yield contents

    def _save_cache(self, cache: Any) -> Iterator[Any]:
        """Keep what a cache of a function of the user's holds. Raises UnsavedError."""
        code = getattr(cache.__wrapped__, "__code__", None)
        if code is None or not self._is_users(code.co_filename):
            return
        saved = SavedCache(cache)
        if saved.results and not can_be_restored(cache):
            raise UnsavedError(
                f"the call reaches the cache of `{saved.name}`, whose entries cannot be put back"
            )
        self.caches.append(saved)
        self._undo.append(saved.restore)
        yield cache.__wrapped__
        yield from saved.results

    def _save_class(self, kind: type) -> Iterator[Any]:
        """Keep the data that the body of a class of the user's, or the program, has given it."""
        code = (types.FunctionType, staticmethod, classmethod, property)
        for name, item in list(vars(kind).items()):
            if not name.startswith("__") and not isinstance(item, (*code, types.MemberDescriptorType)):
                self._undo.append(functools.partial(_put_attribute, kind, name, item))
                yield item

    def _save_tensor(self, tensor: torch.Tensor) -> None:
        if id(tensor) in self._seen:
            return
        self._seen.add(id(tensor))
        self._alive.append(tensor)
        self.tensors.append(tensor)
        if tensor.is_meta:
            return
        if tensor.layout is torch.strided:
            self._save_storage(tensor)
        else:
            self._save_other_layout(tensor)
        held = getattr(tensor, "__dict__", None)
        if held:
            self._pending.append(held)
        if tensor.is_leaf:
            grad = tensor.grad
            self._undo.append(functools.partial(_put_grad, tensor, grad))
            if grad is not None:
                self._save_tensor(grad)

    def _save_storage(self, tensor: torch.Tensor) -> None:
        try:
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
        except (NotImplementedError, RuntimeError) as error:
            if _OF_GRAPH in str(error):
                return  # the program cannot read it either
            self._save_inner_tensors(tensor)
            return
        if not address or address in self._storages:
            return
        self._take_room(storage.nbytes())
        self._storages[address] = storage
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        version = version_of(tensor) if is_parameter else None
        self._undo.append(functools.partial(_put_storage, tensor, storage, storage.clone(), version))  # type: ignore[no-untyped-call]

    def _save_other_layout(self, tensor: torch.Tensor) -> None:
        """Keep a tensor without memory of one piece: sparse, or of another library. Raises UnsavedError."""
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            self._save_inner_tensors(tensor)
            return
        try:
            kept = copy_of(tensor)
        except UnreadableLayoutError as error:
            raise UnsavedError(f"the call reaches {error}, which cannot be put back") from error
        self._take_room(sum(part.untyped_storage().nbytes() for part in kept.parts))
        self._undo.append(functools.partial(put_back, tensor, kept))

    def _take_room(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise UnsavedError(f"the call reaches more than {MAX_BYTES >> 30} GiB of tensors")

    def _save_inner_tensors(self, tensor: torch.Tensor) -> None:
        """Keep what a subclass without memory of its own is made of. Raises UnsavedError."""
        flatten = getattr(tensor, "__tensor_flatten__", None)
        if flatten is None:
            raise UnsavedError(f"the call reaches a {type(tensor).__name__}, whose memory cannot be put back")
        for name in flatten()[0]:
            self._save_tensor(getattr(tensor, name))

    def _is_users_class(self, value: Any) -> bool:
        return isinstance(value, type) and is_users_object(value, self._is_users)


def _base_of(mapping: dict[Any, Any]) -> Any:
    """The class whose methods read and write a mapping: no method of the user's runs."""
    return collections.OrderedDict if isinstance(mapping, collections.OrderedDict) else dict


def _put_mapping(mapping: dict[Any, Any], kept: list[tuple[Any, Any]]) -> None:
    base = _base_of(mapping)
    now = list(base.items(mapping))
    if len(now) == len(kept) and all(
        (key is old or key == old) and item is was for (key, item), (old, was) in zip(now, kept, strict=True)
    ):
        return
    base.clear(mapping)
    for key, item in kept:
        base.__setitem__(mapping, key, item)


def _put_sequence(sequence: Any, kept: Any) -> None:
    if len(sequence) == len(kept) and all(item is was for item, was in zip(sequence, kept, strict=True)):
        return
    sequence.clear()
    sequence.extend(kept)


def _put_set(items: set[Any], kept: set[Any]) -> None:
    if items != kept:
        items.clear()
        items.update(kept)


def _put_slot(member: types.MemberDescriptorType, owner: Any, kept: Any) -> None:
    member.__set__(owner, kept)


def _contents(cell: types.CellType) -> Any:
    """What a variable of a closure has; _NOTHING before its first assignment, and after a `del`."""
    try:
        return cell.cell_contents
    except ValueError:
        return _NOTHING


def _put_cell(cell: types.CellType, kept: Any) -> None:
    if _contents(cell) is kept:
        return
    if kept is _NOTHING:
        del cell.cell_contents
    else:
        cell.cell_contents = kept


def _put_attribute(owner: type, name: str, kept: Any) -> None:
    if vars(owner).get(name) is not kept:
        setattr(owner, name, kept)


def _put_globals(names: dict[str, Any], kept: dict[str, Any]) -> None:
    """Give the globals of a file back their values; what Dynamo has stored there stays."""
    of_dynamo = globals_of_dynamo(names)
    for name in [name for name in names if name not in kept and name not in of_dynamo]:
        if not name.startswith("__"):  # else of Dynamo, or of Python
            del names[name]
    for name, value in kept.items():
        if names.get(name, names) is not value:
            names[name] = value


def _put_grad(tensor: torch.Tensor, grad: torch.Tensor | None) -> None:
    if tensor.grad is not grad:
        tensor.grad = grad


def _put_storage(
    tensor: torch.Tensor, storage: torch.UntypedStorage, kept: torch.UntypedStorage, version: Any
) -> None:
    if version is not None and version_of(tensor) == version:
        return
    try:
        if storage.nbytes() != kept.nbytes():
            storage.resize_(kept.nbytes())
        storage.copy_(kept)
    except RuntimeError as error:
        if _OF_GRAPH not in str(error):
            raise
        # A result of an earlier call: by now the program could not read it without us either.


def _undo_of_opaque(value: Any) -> Undo | None:
    """How to put back an object that holds no others."""
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):  # which has no state
        return functools.partial(value.setstate, value.getstate())
    if isinstance(value, torch.Generator):
        return functools.partial(_put_generator, value, value.get_state())
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes") and bool(value.ndim):
        return functools.partial(_put_array, value, value.copy())
    # Only an object of NumPy is asked: `ctypes.cdll` loads a library of any name that it is asked for.
    if type(value).__module__.startswith("numpy.random") and hasattr(value, "bit_generator"):
        return functools.partial(setattr, value.bit_generator, "state", value.bit_generator.state)
    return None


def _put_generator(generator: torch.Generator, kept: torch.Tensor) -> None:
    generator.set_state(kept)


def _put_array(array: Any, kept: Any) -> None:
    if array.flags.writeable:
        array[...] = kept


def _generators() -> Undo:
    """Keep the state of the generators of Python, NumPy and torch; returns what gives them back."""
    of_python, of_torch = random.getstate(), torch.get_rng_state()
    of_gpus = torch.cuda.get_rng_state_all() if uses_gpu() else None
    numpy = sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy is not None else None

    def put() -> None:
        random.setstate(of_python)
        torch.set_rng_state(of_torch)
        if of_gpus is not None:
            torch.cuda.set_rng_state_all(of_gpus)
        if numpy is not None:
            numpy.random.set_state(of_numpy)

    return put
