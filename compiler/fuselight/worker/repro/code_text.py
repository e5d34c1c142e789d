"""A call that Dynamo traces, as Python that imports torch and the standard library alone.

Definitions that the call uses are copied from their files, and objects are made without their constructors, attribute
by attribute. Invariant: a tensor has a shape, a dtype and the range of its values, and none of its values; what cannot
be written is None and listed, because most values have no part in a fault.
"""

from __future__ import annotations

import ast
import builtins
import collections
import enum
import functools
import importlib
import inspect
import sys
import types
from collections.abc import Mapping
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo.traced_frames import TracedFrame, originally
from fuselight.shared.report import RecordedCode
from fuselight.worker.repro.definitions import NoSourceError, attributes_read, free_names, tree_of
from fuselight.worker.repro.tensor_traits import traits_of

_MAX_ITEMS = 64
"""Of a list or a dict."""
_MAX_DEPTH = 12
_FREE_MODULES = frozenset({"torch", "numpy", *sys.stdlib_module_names})
_MODULE_STATE = frozenset(vars(torch.nn.Module()))
_PLAIN = (bool, int, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
_OF_TORCH = (torch.dtype, torch.layout, torch.memory_format)


class _UnprintableError(Exception):
    """A value that cannot be written; the message is its kind."""


def recorded_code(frame: TracedFrame, error: str) -> RecordedCode:
    """The call of a frame as text."""
    text = _CodeText()
    try:
        function, arguments = text.call(frame)
    except (_UnprintableError, NoSourceError, RecursionError) as why:
        return RecordedCode(error=error, unprintable=f"`{why}` cannot be written as Python")
    return RecordedCode(text.text(), function, arguments, error, tuple(dict.fromkeys(text.missing)))


class _CodeText:
    def __init__(self) -> None:
        self.missing: list[str] = []
        self._imports: dict[str, None] = {"import torch": None}
        self._lines: list[str] = []
        self._defined: dict[str, Any] = {}
        """By name of the program."""
        self._objects: dict[int, str] = {}
        self._kept: list[Any] = []
        """What `_objects` has ids of."""
        self._depth = 0

    def text(self) -> str:
        return "\n".join([*self._imports, "", *self._lines])

    def call(self, frame: TracedFrame) -> tuple[str, str]:
        """The name of a function, and the arguments of its call."""
        code = frame.code
        inside = originally(frame.free.get("fn")) if code.co_filename.startswith(torch.__path__[0]) else None
        positional, named = frame.passed()
        if inside is None and positional and _method_of(positional[0], code) is not None:
            inside, positional = (
                types.MethodType(_method_of(positional[0], code), positional[0]),
                positional[1:],
            )
        if inside is None:
            function = self._function_of_code(frame)
        else:
            function = self._wrapper(inside, len(positional), list(named))
        arguments = [self.argument(value) for value in positional]
        arguments += [f"{name}={self.argument(value)}" for name, value in named.items()]
        return function, ", ".join(arguments)

    def _wrapper(self, function: Any, count: int, named: list[str]) -> str:
        """A function that calls a method, or the function itself."""
        owner = getattr(function, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            return self.expression(function)
        name = function.__name__
        target = self.argument(owner)
        is_call = isinstance(owner, torch.nn.Module) and name in {
            "__call__",
            "_call_impl",
            "_wrapped_call_impl",
        }
        parameters = [f"x{index}" for index in range(count)]
        given = ", ".join([*parameters, *(f"{each}={each}" for each in named)])
        run = self._new_name("run")
        own = f"{target}({given})" if is_call else f"{target}.{name}({given})"
        self._lines += [f"def {run}({', '.join([*parameters, *named])}):", f"    return {own}"]
        return run

    def _function_of_code(self, frame: TracedFrame) -> str:
        tree = tree_of(frame.code)
        return self._define(frame.code.co_name, tree, {**frame.names, **frame.free}, frame.code)

    def _define(self, name: str, tree: ast.stmt, names: Mapping[str, Any], value: Any) -> str:
        """Add a definition and what it uses. Raises _UnprintableError if another thing has its name."""
        name = name if name.isidentifier() else "function"
        if name in self._defined and self._defined[name] is not value:
            name = self._new_name(name)
        self._defined[name] = value
        tree.name = name  # type: ignore[attr-defined]
        for used in dict.fromkeys(free_names(tree)):
            if used != name and used in names:
                self._bind(used, names[used], tree)
        self._lines.append(ast.unparse(tree))
        return name

    def _bind(self, name: str, value: Any, user: ast.AST) -> None:
        """Have `name` stand for a value in the program."""
        value = originally(value)
        if name in self._defined:
            if self._defined[name] is not value:
                raise _UnprintableError(name)
            return
        if isinstance(value, types.ModuleType):
            self._bind_module(name, value, user)
            return
        if getattr(builtins, name, None) is value:
            return
        text = self.argument(value)
        if text != name:
            self._defined[name] = value
            self._lines.append(f"{name} = {text}")

    def _bind_module(self, name: str, module: types.ModuleType, user: ast.AST) -> None:
        own = module.__name__
        if own.partition(".")[0] in _FREE_MODULES:
            self._imports[f"import {own}" if own == name else f"import {own} as {name}"] = None
            return
        read = [each for each in dict.fromkeys(attributes_read(user, name)) if hasattr(module, each)]
        lines = [f"    {each} = {self.argument(getattr(module, each))}" for each in read]
        self._lines += [f"class {name}:", *(lines or ["    pass"])]

    def _new_name(self, stem: str) -> str:
        number = 1
        while f"{stem}_{number}" in self._defined:
            number += 1
        self._defined[f"{stem}_{number}"] = object()
        return f"{stem}_{number}"

    def argument(self, value: Any) -> str:
        """An expression for a value; `None`, and a note, if it cannot be written."""
        try:
            return self.expression(value)
        except (_UnprintableError, NoSourceError) as why:
            self.missing.append(str(why))
            return "None"

    def expression(self, value: Any) -> str:
        """An expression for a value. Raises _UnprintableError."""
        value = originally(value)
        plain = _plain(value)
        if plain:
            return plain
        if id(value) in self._objects:
            return self._objects[id(value)]
        self._depth += 1
        try:
            if self._depth > _MAX_DEPTH:
                raise _UnprintableError(type(value).__name__)
            return self._composed(value)
        finally:
            self._depth -= 1

    def _composed(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return self._named(value, _tensor(value))
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
            return self._callable(value)
        if isinstance(value, torch.nn.Module):
            return self._module(value)
        if isinstance(value, functools.partial):
            parts = [value.func, *value.args]
            named = [f"{name}={self.argument(item)}" for name, item in value.keywords.items()]
            self._imports["import functools"] = None
            return f"functools.partial({', '.join([*map(self.argument, parts), *named])})"
        if isinstance(value, enum.Enum):
            return f"{self.expression(type(value))}.{value.name}"
        return self._container(value) or self._object(value)

    def _container(self, value: Any) -> str:
        """Of a list and the like; empty for any other value."""
        kind = type(value)
        if isinstance(value, dict) and kind in (dict, collections.OrderedDict):
            items = list(value.items())[:_MAX_ITEMS]
            body = ", ".join(f"{self.argument(key)}: {self.argument(item)}" for key, item in items)
            own = f"{{{body}}}"
        elif kind in (list, tuple, set, frozenset, collections.deque, torch.Size):
            parts = [self.argument(item) for item in list(value)[:_MAX_ITEMS]]
            body = ", ".join(parts)
            if kind is list:
                return f"[{body}]"
            own = f"({body}{',' if len(parts) == 1 else ''})"
        elif isinstance(value, tuple) and hasattr(kind, "_fields"):
            return f"{self.expression(kind)}({', '.join(map(self.argument, value))})"
        else:
            return ""
        if kind in (dict, tuple):
            return own
        if kind.__module__ == "collections":
            self._imports["import collections"] = None
        name = "torch.Size" if kind is torch.Size else kind.__name__
        return f"{'collections.' if kind.__module__ == 'collections' else ''}{name}({own})"

    def _callable(self, value: Any) -> str:
        name = str(getattr(value, "__name__", ""))
        for text, known in ((name, builtins), (f"torch.{name}", torch)):
            if name and getattr(known, name, None) is value:
                return text
        owner = getattr(value, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            return f"{self.expression(owner)}.{name}"
        module = str(getattr(value, "__module__", None) or "")
        path = str(getattr(value, "__qualname__", ""))
        if module.partition(".")[0] in _FREE_MODULES and module != "__main__" and "<" not in path:
            text = _public_name(value, module, path)
            if module != "builtins":
                self._imports[f"import {text.rpartition('.')[0].split('.')[0]}"] = None
                self._import_path(text)
            return text
        for name, known in self._defined.items():
            if known is value or known is getattr(value, "__code__", None):
                return name
        plain = inspect.unwrap(value) if isinstance(value, types.FunctionType) else value
        if isinstance(plain, type):
            names = vars(sys.modules.get(plain.__module__, builtins))
            return self._define(plain.__name__, tree_of(plain), names, value)
        if not isinstance(plain, types.FunctionType):
            raise _UnprintableError(path or type(value).__name__)
        free = dict(zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=False))
        around = {name: cell.cell_contents for name, cell in free.items() if _is_full(cell)}
        return self._define(plain.__name__, tree_of(plain), {**plain.__globals__, **around}, value)

    def _import_path(self, text: str) -> None:
        """Import the modules of a dotted name, as far as `import torch` does not."""
        module = text.rpartition(".")[0]
        while module and module not in sys.modules:
            module = module.rpartition(".")[0]
        if module and module != "torch":
            self._imports[f"import {module}"] = None

    def _module(self, value: torch.nn.Module) -> str:
        kind = type(value)
        if kind in (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict):
            children = dict(value.named_children())
            if kind is torch.nn.ModuleDict:
                body = ", ".join(f"{name!r}: {self.argument(child)}" for name, child in children.items())
                return self._named(value, f"torch.nn.ModuleDict({{{body}}})")
            body = ", ".join(map(self.argument, children.values()))
            given = body if kind is torch.nn.Sequential else f"[{body}]"
            return self._named(value, f"torch.nn.{kind.__name__}({given})")
        if kind in (torch.nn.ParameterList, torch.nn.ParameterDict):
            items = dict(value.named_parameters())
            body = ", ".join(map(self.argument, items.values()))
            if kind is torch.nn.ParameterList:
                return self._named(value, f"torch.nn.ParameterList([{body}])")
        short = _module_call(value)
        return self._named(value, short) if short else self._object(value)

    def _object(self, value: Any) -> str:
        """An object without its constructor, and its attributes."""
        kind = type(value)
        if kind.__module__.partition(".")[0] in _FREE_MODULES and not isinstance(value, torch.nn.Module):
            known = kind in (collections.Counter, types.SimpleNamespace)
            if not known:
                raise _UnprintableError(kind.__name__)
            return self._named(
                value, f"{self.expression(kind)}(**{self.expression(dict(vars(value) or value))})"
            )
        own = self.expression(kind)
        is_module = isinstance(value, torch.nn.Module)
        name = self._named(value, f"{own}.__new__({own})")
        if is_module:
            self._lines.append(f"torch.nn.Module.__init__({name})")
        for attribute, item in _state(value).items():
            if attribute.isidentifier():
                self._lines.append(f"{name}.{attribute} = {self.argument(item)}")
        if is_module and not value.training:
            self._lines.append(f"{name}.training = False")
        return name

    def _named(self, value: Any, text: str) -> str:
        """A variable with this value, so that what is one object stays one."""
        if id(value) in self._objects:
            return self._objects[id(value)]
        name = self._new_name("value")
        self._objects[id(value)] = name
        self._kept.append(value)
        self._lines.append(f"{name} = {text}")
        return name


def _is_full(cell: Any) -> bool:
    try:
        return bool(cell.cell_contents is not cell)
    except ValueError:
        return False


def _method_of(owner: Any, code: types.CodeType) -> Any:
    """The function of an object's class whose code this is; None if there is none."""
    if isinstance(owner, (torch.Tensor, *_PLAIN, list, tuple, dict)):
        return None
    for kind in type(owner).__mro__:
        function = vars(kind).get(code.co_name)
        plain = inspect.unwrap(function) if isinstance(function, types.FunctionType) else function
        if getattr(originally(plain), "__code__", None) is code:
            return function
    return None


def _state(value: Any) -> dict[str, Any]:
    """The attributes of an object; of a module those that are not Module's own."""
    state = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name) and name not in {"__dict__", "__weakref__"}:
                state[name] = getattr(value, name)
    if not isinstance(value, torch.nn.Module):
        return state
    own = {name: item for name, item in state.items() if name not in _MODULE_STATE}
    for part in ("_parameters", "_buffers", "_modules"):
        own |= state.get(part) or {}
    return own


def _plain(value: Any) -> str:
    """Of constants; empty for any other value."""
    if isinstance(value, float) and type(value) is float:
        return repr(value) if value == value and abs(value) != float("inf") else f'float("{value}")'  # noqa: PLR0124 - NaN
    if type(value) in _PLAIN or type(value) is complex or isinstance(value, _OF_TORCH):
        return "..." if value is Ellipsis else repr(value)
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    if type(value) in (range, slice):
        return repr(value)
    return ""


def _tensor(value: torch.Tensor) -> str:
    traits = traits_of(value.detach() if type(value) is torch.nn.Parameter else value)
    if traits is None:
        raise _UnprintableError(type(value).__name__)
    shape = tuple(value.shape)
    if traits.dtype == "float32":
        text = f"torch.rand({shape})"
    elif traits.dtype.startswith(("float", "bfloat", "complex")):
        text = f"torch.rand({shape}).to(torch.{traits.dtype})"
    elif traits.dtype == "bool":
        text = f"torch.rand({shape}) > 0.5"
    else:
        low, high = int(traits.low), int(traits.high)
        text = f"torch.randint({low}, {high + 1}, {shape}, dtype=torch.{traits.dtype})"
    text = text if traits.device == "cpu" else f'({text}).to("{traits.device}")'
    if isinstance(value, torch.nn.Parameter):
        return f"torch.nn.Parameter({text}{'' if value.requires_grad else ', requires_grad=False'})"
    return f"({text}).requires_grad_()" if value.requires_grad else text


def _module_call(value: torch.nn.Module) -> str:
    """The call that makes a module of torch's, if its text says all; else empty."""
    kind = type(value)
    if not kind.__module__.startswith("torch.nn.") or any(True for _ in value.children()):
        return ""
    text = f"torch.nn.{value!r}"
    try:
        module = eval(text, {"torch": torch})  # noqa: S307 - the text of torch's own class
    except Exception:  # noqa: BLE001 - its text is not a call
        return ""
    ours = {name: item.shape for name, item in value.state_dict().items()}
    same = type(module) is kind and {name: item.shape for name, item in module.state_dict().items()} == ours
    return (text if value.training else f"{text}.eval()") if same else ""


def _public_name(value: Any, module: str, path: str) -> str:
    """The shortest dotted name of a function or class of a library. Raises _UnprintableError."""
    if module == "builtins" and getattr(builtins, path, None) is value:
        return path
    root = module.partition(".")[0]
    tries = [f"torch.nn.functional.{path}", f"torch.nn.{path}", f"torch.{path}"] if root == "torch" else []
    for text in (*tries, f"{root}.{path}", f"{module}.{path}", f"types.{path}"):
        owner, _, name = text.rpartition(".")
        try:
            owned = importlib.import_module(owner) if owner in sys.modules else None
        except ImportError:
            continue
        if owned is not None and getattr(owned, name, None) is value:
            return text
    raise _UnprintableError(path)
