"""Which names of the user's code keep tensors alive: variables of running functions, globals, attributes, closures.

Invariant: no code of the user's runs for it: no property, no `__iter__`, and no hook of a saved tensor. The search is
bounded; a tensor that no name leads to within the bound is in no holder.
"""

from __future__ import annotations

import ast
import collections
import functools
import linecache
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.adapters.torch_api.saved_tensors import saved_by
from fuselight.adapters.torch_api.storages import keyed, parts_of, storage_key
from fuselight.capture.dynamo import stacks
from fuselight.shared.own_attributes import own_attributes
from fuselight.shared.report import Failure, Location, TensorHolder

_MAX_VALUES = 20_000
"""Values that are looked at."""
_MAX_NODES = 20_000
"""Of autograd's graphs."""
_MAX_DEPTH = 6
_MAX_HOLDERS = 6
_LEAST_BYTES = 2**20
_LEAST_SHARE = 0.01
"""Of all that names hold: a holder of less than this, or than _LEAST_BYTES, is left out."""
_CONTAINERS = (list, tuple, set, frozenset, dict, collections.deque)
_GROWING = frozenset({"append", "appendleft", "extend", "add", "insert", "update", "setdefault"})
_RESERVE = 2**24
"""Bytes that have to be free for a search once memory has run out: one that ends half way would take what is left."""
_IS_LOCAL = 0x1  # inspect.CO_OPTIMIZED
_LARGEST_SOURCE = 2**20

_OF_MODULES = frozenset(torch.nn.Module().__dict__)
"""Attributes of each module, which are visited by themselves or are hooks."""

StorageKey = int


@dataclass
class HeldStorages:
    """A name, and the storages that it leads to."""

    name: str
    """As the user's code writes it: `kept`, `self.last`."""
    kind: str
    """`variable`, `list`, `parameters`, ...: as in TensorHolder."""
    scope: str
    """As in TensorHolder."""
    storages: dict[StorageKey, torch.Tensor] = field(default_factory=dict)
    """One tensor of each."""
    graphs: dict[StorageKey, torch.Tensor] = field(default_factory=dict)
    """Of what the backward of its tensors needs."""
    path: str = ""
    within: str = ""
    """The class or function of `path` in which the name stands; empty for the whole file."""

    @property
    def is_variable(self) -> bool:
        """Whether it is one tensor of a running function."""
        return self.kind == "variable" and bool(self.scope)

    def line(self) -> Location | None:
        """The one line that fills the container or binds the name; None if there are several, or none is found."""
        lines = _lines_of(self.path, self.within, self.name)
        return Location(self.path, lines[0], function=self.scope) if len(lines) == 1 else None


def tensor_holders(
    frames: Iterable[types.FrameType], roots: Sequence[str], *, is_gpu: bool = False
) -> tuple[TensorHolder, ...]:
    """The names that hold most bytes of tensors, each tensor once: `frames` are those of the code that runs.

    Only what is in the memory that ran out: of the CPU, or with `is_gpu` of a GPU. Fake tensors have none.
    """
    claimed: set[StorageKey] = set()
    holders = []
    for held in held_storages(frames, roots):
        own, graphs = (
            {
                key: tensor
                for key, tensor in tensors.items()
                if key not in claimed and _is_in(tensor, is_gpu=is_gpu)
            }
            for tensors in (held.storages, held.graphs)
        )
        graphs = {key: tensor for key, tensor in graphs.items() if key not in own}
        claimed |= own.keys() | graphs.keys()
        holders.append((held, len(own), bytes_of(own), bytes_of(graphs)))
    least = max(_LEAST_BYTES, _LEAST_SHARE * sum(size + graph for _, _, size, graph in holders))
    holders.sort(key=lambda row: -(row[2] + row[3]))
    return tuple(
        TensorHolder(held.name, held.kind, size + graph, count, held.scope, held.line(), graph)
        for held, count, size, graph in holders[:_MAX_HOLDERS]
        if size + graph >= least
    )


def _is_in(tensor: torch.Tensor, *, is_gpu: bool) -> bool:
    kind = tensor.untyped_storage().device.type
    return kind not in {"cpu", "meta"} if is_gpu else kind == "cpu"


def bytes_of(storages: Mapping[StorageKey, torch.Tensor]) -> int:
    """The bytes of all of them."""
    return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())


def held_storages(
    frames: Iterable[types.FrameType], roots: Sequence[str], target: Any = None
) -> list[HeldStorages]:
    """Each name that leads to tensors: what outlives a function before the variables of those that run.

    `target`: a module or function that is called, whose attributes and closure are names, too.
    """
    search = _TensorSearch(tuple(roots))
    running = [frame for frame in frames if search.is_users(frame.f_code.co_filename)]
    search.visit(target, _HolderName("the target", ""), 0)
    for path, names in _globals_of(running, search):
        for name, value in list(names.items()):
            if not name.startswith("__"):
                search.visit(value, _HolderName(name, "", path), 0)
    for frame in running:
        code = frame.f_code
        if code.co_flags & _IS_LOCAL:
            variables = frame.f_locals
            # Containers and objects first: a variable for a tensor that they keep does not matter.
            for name, value in sorted(variables.items(), key=lambda item: isinstance(item[1], torch.Tensor)):
                search.visit(value, _HolderName(name, code.co_name, code.co_filename, code.co_name), 0)
            if sys.version_info < (3, 13):
                variables.clear()  # the frame keeps this copy, and with it every value, to its end
    matches = [held for held in search.holders.values() if held.storages]
    return sorted(matches, key=lambda held: (held.is_variable, held.kind == "variable"))


def with_holders(failure: Failure, error: BaseException, roots: Sequence[str]) -> Failure:
    """A failure for a lack of memory, with the names that still hold tensors."""
    try:
        bytearray(_RESERVE)
        is_gpu = any(type(cause).__name__ == "OutOfMemoryError" for cause in (error, error.__cause__))
        holders = tensor_holders(_frames_of(error.__traceback__), roots, is_gpu=is_gpu)
        return replace(failure, holders=holders)
    except Exception:  # noqa: BLE001 - what failed is known without them, and memory may still be short
        return failure


def _frames_of(trace: types.TracebackType | None) -> Iterator[types.FrameType]:
    """The frames of a traceback, outermost first."""
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _globals_of(
    running: Iterable[types.FrameType], search: _TensorSearch
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The globals of each module of the user's, with its file."""
    known: set[int] = set()
    spaces = [(frame.f_code.co_filename, frame.f_globals) for frame in running]
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None) if type(module) is types.ModuleType else None
        path = names.get("__file__") if names is not None else None
        if names is not None and isinstance(path, str) and search.is_users(path):
            spaces.append((path, names))
    for path, names in spaces:
        if id(names) not in known:
            known.add(id(names))
            yield path, names


@dataclass(frozen=True)
class _HolderName:
    """Where a value was found."""

    text: str
    scope: str
    path: str = ""
    within: str = ""


class _TensorSearch:
    """Follows values from names to tensors."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self._values = 0
        self._nodes = 0
        self._seen: set[int] = set()
        self.holders: dict[tuple[str, str, str], HeldStorages] = {}

    def is_users(self, path: str) -> bool:
        return stacks.is_user_code(path, self._roots) and not stacks.is_ours(path)

    def visit(self, value: Any, name: _HolderName, depth: int, kind: str = "variable") -> None:
        """Note the tensors that `value` leads to, under `name`."""
        what: type = type(value)
        if what in (int, str, float, bool, bytes, types.NoneType, types.ModuleType) or depth > _MAX_DEPTH:
            return
        self._values += 1
        if self._values > _MAX_VALUES:
            return
        if issubclass(what, torch.Tensor):
            self._add(value, name, kind)
        elif id(value) not in self._seen:
            self._seen.add(id(value))
            self._visit_inside(value, what, name, depth, kind)

    def _visit_inside(self, value: Any, what: type, name: _HolderName, depth: int, kind: str) -> None:
        if issubclass(what, _CONTAINERS):
            inner = kind if kind != "variable" else what.__name__
            for item in _items(value, what):
                self.visit(item, name, depth + 1, inner)
        elif issubclass(what, torch.nn.Module):
            self._visit_module(value, name, depth)
        elif issubclass(what, torch.optim.Optimizer):
            self.visit(vars(value).get("state"), name, depth + 1, "optimizer")
        elif what is types.MethodType:
            self.visit(value.__self__, name, depth + 1)
        elif what is types.FunctionType:
            self._visit_cells(value, depth)
        else:
            is_class = issubclass(what, type)
            owner = value if is_class else what
            if self.is_users(_file_of(owner)):
                self._visit_attributes(
                    type.__getattribute__(value, "__dict__") if is_class else own_attributes(value),
                    owner,
                    depth,
                )

    def _visit_module(self, module: torch.nn.Module, name: _HolderName, depth: int) -> None:
        for part in module.modules():
            self._seen.add(id(part))
            attributes = own_attributes(part)
            parameters = [
                tensor for tensor in (attributes.get("_parameters") or {}).values() if tensor is not None
            ]
            buffers = [tensor for tensor in (attributes.get("_buffers") or {}).values() if tensor is not None]
            for tensor in (*parameters, *buffers):
                self._add(tensor, name, "parameters")
            for gradient in (tensor.grad for tensor in parameters):
                if gradient is not None:
                    self._add(gradient, name, "gradients")
            if self.is_users(_file_of(type(part))):
                own = {key: value for key, value in attributes.items() if key not in _OF_MODULES}
                self._visit_attributes(own, type(part), depth)

    def _visit_attributes(self, attributes: Any, owner: type, depth: int) -> None:
        path, of = _file_of(owner), owner.__qualname__
        for key, value in list(attributes.items()):
            if isinstance(key, str) and not key.startswith("__"):
                self.visit(value, _HolderName(f"self.{key}", of, path, owner.__name__), depth + 1)

    def _visit_cells(self, function: types.FunctionType, depth: int) -> None:
        code = function.__code__
        if not self.is_users(code.co_filename):
            return
        for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            try:
                value = cell.cell_contents
            except ValueError:  # it has none yet
                continue
            self.visit(value, _HolderName(variable, function.__qualname__, code.co_filename), depth + 1)

    def _add(self, tensor: torch.Tensor, name: _HolderName, kind: str) -> None:
        key = (name.text, name.scope, kind)
        held = self.holders.get(key)
        if held is None:
            held = self.holders[key] = HeldStorages(
                name.text,
                kind,
                name.scope,
                path=stacks.absolute(name.path) if name.path else "",
                within=name.within,
            )
        for part in parts_of([tensor]):
            storage = storage_key(part)
            if storage is not None:
                held.storages[storage] = part
        if tensor.requires_grad and not tensor.is_leaf:
            self._add_graph(tensor.grad_fn, held)

    def _add_graph(self, node: Any, held: HeldStorages) -> None:
        """Note what a backward needs that begins with `node`. No hook of a saved tensor is called."""
        waiting = [node]
        while waiting and self._nodes < _MAX_NODES:
            node = waiting.pop()
            if node is None or id(node) in self._seen:
                continue
            self._nodes += 1
            self._seen.add(id(node))
            waiting += [function for function, _ in node.next_functions]
            held.graphs.update(keyed(saved_by(node).tensors))


def _items(value: Any, what: type) -> list[Any]:
    """The items of a container, by the method of the built-in type."""
    if issubclass(what, dict):
        return [item for pair in dict.items(value) for item in pair]
    base = next(kind for kind in _CONTAINERS if issubclass(what, kind))
    return list(base.__iter__(value))


def _file_of(what: type) -> str:
    """The file of the module that has a class; empty if that is not known."""
    module = type.__getattribute__(what, "__module__") if isinstance(what, type) else None
    names = getattr(sys.modules.get(module), "__dict__", {}) if isinstance(module, str) else {}
    path = names.get("__file__")
    return path if isinstance(path, str) else ""


@functools.lru_cache(maxsize=64)
def _lines_of(path: str, within: str, name: str) -> tuple[int, ...]:
    """The lines that fill the container `name`, or else those that bind it: in `within`, or in the whole file."""
    source = "".join(linecache.getlines(path)) if path else ""
    if not source or len(source) > _LARGEST_SOURCE:
        return ()
    try:
        tree: ast.AST = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    scopes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == within
    ]
    fills: set[int] = set()
    binds: set[int] = set()
    for scope in scopes if within else [tree]:
        for node in ast.walk(scope):
            target = _filled(node)
            while isinstance(target, ast.Subscript):  # `metrics["loss"].append(x)` fills `metrics`
                target = target.value
            if target is not None and ast.unparse(target) == name:
                fills.add(target.lineno)
            elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
                binds |= {node.lineno} if ast.unparse(node) == name else set()
    return tuple(sorted(fills or binds))


def _filled(node: ast.AST) -> ast.expr | None:
    """What a node puts something into: `a` of `a.append(x)` and of `a[i] = x`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWING:
        return node.func.value
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return node.value
    return None
