"""Further calls in another context: other arguments of constructors, parameters, attributes and globals, larger inputs.

Invariant: which values are tried depends on the text before the change alone, and the run of the new text reads them
from the folder. Whatever a case changes is afterwards as it was before.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.tensors import tensors_in
from fuselight.measure.measured_call import modules_of
from fuselight.shared.protocol import NameInUse
from fuselight.shared.report import CaseFamily
from fuselight.worker.verify.input_changes import is_plain, replace_argument, resize
from fuselight.worker.verify.verification_cases import Case

MAX_CASES = 40
"""Calls in another context of one verification."""
_MAX_VALUES, _MAX_OTHERS, _MAX_TENSORS = 6, 2, 16
"""Values that are tried of a name on which a changed line depends, of any other, and of a parameter that is None."""
_PACKAGE = __name__.partition(".")[0]
_MAX_SIZES = 4
_MAX_ELEMENTS = 1 << 22
"""Elements of an input that is made larger."""
_LEAST_SIZE = 3
_TENSOR = "tensor "
"""Start of a value that is a tensor: its dtype and shape follow."""
_TORCH = "torch "
"""Start of a value that is a function, a class or a module of torch."""
_FUNCTIONS = ("tanh", "sigmoid")
_MODULES = ("Tanh", "Sigmoid")

_INIT = "__init__"

Namespace = MutableMapping[str, Any]


@dataclass(frozen=True)
class ContextValue:
    """Another value of a name."""

    kind: str
    """`constructor`, `argument`, `function`, `attribute` or `global`."""
    owner: str
    """Qualified name of the class or function, or the global that has it; empty for arguments and globals."""
    name: str
    before: str
    """The value that it replaces, as text."""
    value: str
    size: int = 0
    """Another size of the inputs, in place of `before`."""


@dataclass(frozen=True)
class ContextPlan:
    """What is varied."""

    values: tuple[ContextValue, ...] = ()
    sizes: tuple[int, ...] = ()
    """Numbers that inputs exceed."""
    names: tuple[str, ...] = ()
    """Names that have a plain value somewhere."""
    constants: tuple[str, ...] = ()
    """Names of tensors of modules with equal elements, as zeros: no call shows what others would."""

    def cases(self, prepared: Prepared, namespaces: Sequence[Namespace]) -> list[Case]:
        """The cases, those of a changed line first."""
        varied = (case for value in self.values for case in _cases(value, namespaces))
        return [*varied, *_larger(prepared, self.sizes)]


def user_namespaces(names: Namespace, is_users: Callable[[str], bool]) -> list[Namespace]:
    """The globals of the target's file and of the user's modules that it has loaded.

    Fuselight's own modules are nobody's, also in a workspace that has them.
    """
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] != _PACKAGE and is_users(getattr(module, "__file__", None) or "")
    ]
    others = [vars(module) for module in modules if vars(module) is not names]
    return [names, *others]


def plan(
    build: Callable[[], Prepared],
    names: Iterable[NameInUse],
    sizes: Iterable[int],
    namespaces: Sequence[Namespace],
) -> tuple[ContextPlan, Prepared]:
    """Find which values can be varied, in the text before the change; also returns the call that was built for that.

    Other inputs alone do not suffice: with one head, attention scaled by `d` equals attention scaled by `d // heads`,
    and no input shows a dropped residual that a flag turns off. The plan is made once, in the run of the old text,
    since both texts have to be called with the same values.
    """
    built: dict[tuple[str, str], list[Any]] = {}
    with _constructors_noted(namespaces, built):
        prepared = build()
    known = {name.name: name for name in names}
    inputs = [tensor for tensor in tensors_in([prepared.args, prepared.kwargs]) if is_plain(tensor)]
    sizes = [size for tensor in inputs for size in tensor.shape]
    values, held = list[ContextValue](), dict[str, None]()
    for kind, owner, name, value in _holders(prepared, known, built, namespaces):
        in_use = known.get(name, NameInUse(name))
        is_argument = kind == "argument"
        others = list(_other_values(value, in_use, inputs if is_argument else ()))
        if name in known and (others or _is_plain_value(value)):
            held[name] = None
        # The names that the change touches get more values: the others only have to show a branch that it relies on.
        most = _MAX_VALUES if in_use.is_changed or is_argument else _MAX_OTHERS
        most = _MAX_TENSORS if is_argument and value is None else most
        values += [ContextValue(kind, owner, name, _shown(value), other) for other in others[:most]]
        if kind == "constructor" and isinstance(value, int) and _is_size(value) and value in sizes:
            double = 2 * value
            values.append(ContextValue(kind, owner, name, _shown(value), str(double), size=double))
    values.sort(key=lambda value: not known.get(value.name, NameInUse("")).is_changed)
    buffers = {
        size for _, module in modules_of(prepared) for buffer in module.buffers() for size in buffer.shape
    }
    changed = [name for name, in_use in known.items() if in_use.is_changed]
    constants = [
        name
        for name in changed
        if any(_is_constant(_tensor_of(holder, name)) for _, holder in _objects(prepared))
    ]
    limits = sorted({size for size in (*sizes, *buffers) if size >= _LEAST_SIZE}, reverse=True)
    context_plan = ContextPlan(
        tuple(values[:MAX_CASES]), tuple(limits[:_MAX_SIZES]), tuple(held), tuple(constants)
    )
    return context_plan, prepared


def _tensor_of(holder: Any, name: str) -> Any:
    """The tensor that a module has by a name."""
    if not isinstance(holder, torch.nn.Module):
        return None
    own = {
        **vars(holder),
        **dict(holder.named_parameters(recurse=False)),
        **dict(holder.named_buffers(recurse=False)),
    }
    return own.get(name)


def _is_constant(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not is_plain(value) or not value.is_floating_point():
        return False
    flat = value.detach().reshape(-1)
    return flat.numel() > 0 and bool((flat == flat[0]).all())


# What has a value


def _holders(
    prepared: Prepared,
    known: Mapping[str, NameInUse],
    built: Mapping[tuple[str, str], list[Any]],
    namespaces: Sequence[Namespace],
) -> Iterator[tuple[str, str, str, Any]]:
    """Yield the kind, owner, name and value of each place that may have another value."""
    for (owner, name), values in built.items():
        for value in _once(values)[:2] if name in known else ():
            yield "constructor", owner, name, value
    for name, value in _parameters(prepared):
        yield "argument", "", name, value
    yield from _defaults(prepared, known, namespaces)
    taken = {name for _, name in built}
    free = [name for name in known if name not in taken and not known[name].is_derived]
    for owner, name, value in _attributes(prepared, free):
        yield "attribute", owner, name, value
    for space in namespaces:
        for owner, holder in [("", space), *((key, item) for key, item in space.items() if _is_holder(item))]:
            for name in known:
                if _is_plain_value(_get(holder, name)):
                    yield "global", owner, name, _get(holder, name)


def _defaults(
    prepared: Prepared, known: Mapping[str, NameInUse], namespaces: Sequence[Namespace]
) -> Iterator[tuple[str, str, str, Any]]:
    """Yield the plain defaults of functions that the target may call, for names on which a changed line depends."""
    target = prepared.function
    target = target.forward if isinstance(target, torch.nn.Module) else target
    for owner, function, _, _ in _functions(namespaces):
        if owner == getattr(target, "__qualname__", ""):
            continue
        for name, parameter in inspect.signature(function).parameters.items():
            is_changed = name in known and known[name].is_changed
            if is_changed and parameter.default is not parameter.empty and _is_plain_value(parameter.default):
                yield "function", owner, name, parameter.default


def _attributes(prepared: Prepared, names: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """Yield the class, name and value of attributes of what the call reaches, each once."""
    seen: set[tuple[str, str]] = set()
    for owner, holder in _objects(prepared):
        for name in names:
            value = _get(holder, name)
            if value is _MISSING or (owner, name) in seen:
                continue
            seen.add((owner, name))
            if not inspect.isfunction(value) or isinstance(holder, dict) or name in vars(holder):  # no method
                yield owner, name, value


def _parameters(prepared: Prepared) -> Iterator[tuple[str, Any]]:
    """The parameters of the target with the values of the call."""
    function = prepared.function
    function = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        bound = inspect.signature(function).bind(*prepared.args, **prepared.kwargs)
    except (TypeError, ValueError):
        return
    bound.apply_defaults()
    kinds = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    for name, value in bound.arguments.items():
        is_self = inspect.getattr_static(type(value), getattr(function, "__name__", ""), None) is function
        if bound.signature.parameters[name].kind not in kinds and not is_self:  # a method that is not bound
            yield name, value


def _objects(prepared: Prepared) -> Iterator[tuple[str, Any]]:
    """The modules of the call and the object of its method, with the plain objects and dicts that they have."""
    modules = [inner for _, module in modules_of(prepared) for inner in module.modules()]
    owner = getattr(prepared.function, "__self__", None)
    for holder in (*modules, *([owner] if hasattr(owner, "__dict__") and owner not in modules else [])):
        for part in (holder, *filter(_is_holder, vars(holder).values())):
            yield type(holder).__qualname__, part


def _is_holder(value: Any) -> bool:
    """Whether a value is a dict by names, or a plain object as of a configuration."""
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and "__builtins__" not in value
    is_other = isinstance(value, (type, torch.nn.Module, torch.Tensor)) or inspect.ismodule(value)
    is_torchs = type(value).__module__.partition(".")[0] == "torch"
    return hasattr(value, "__dict__") and not is_other and not callable(value) and not is_torchs


_MISSING = object()


def _get(holder: Any, name: str) -> Any:
    """The attribute or key of a holder, without running any code of the user."""
    if isinstance(holder, dict):
        return holder.get(name, _MISSING)
    if isinstance(holder, torch.nn.Module) and name in holder._modules:  # noqa: SLF001 - a public name has no default
        return holder._modules[name]  # noqa: SLF001 - the same
    return inspect.getattr_static(holder, name, _MISSING)


@contextlib.contextmanager
def _constructors_noted(
    namespaces: Sequence[Namespace], built: dict[tuple[str, str], list[Any]]
) -> Iterator[None]:
    """Note the arguments of each constructor of the user."""

    def note(owner: str, bound: inspect.BoundArguments) -> None:
        for name, value in list(bound.arguments.items())[1:]:
            kind = bound.signature.parameters[name].kind
            if kind not in {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}:
                built.setdefault((owner, name), []).append(value)

    with contextlib.ExitStack() as stack:
        for kind, owner in _classes(namespaces).items():
            stack.enter_context(_wrapped(kind, _INIT, functools.partial(note, owner)))
        yield


def _classes(namespaces: Sequence[Namespace]) -> dict[type, str]:
    """The classes of the user, with their qualified names."""
    modules = {space.get("__name__") for space in namespaces}
    return {
        value: value.__qualname__
        for space in namespaces
        for value in list(space.values())
        if isinstance(value, type) and value.__module__ in modules
    }


def _functions(namespaces: Sequence[Namespace]) -> Iterator[tuple[str, Callable[..., Any], Any, str]]:
    """The functions and methods of the user: qualified name, function, namespace or class that has it, and its name."""
    modules = {space.get("__name__") for space in namespaces}
    for space in namespaces:
        for name, value in list(space.items()):
            if inspect.isfunction(value) and value.__module__ in modules:
                yield value.__qualname__, value, space, name
    for kind in _classes(namespaces):
        for name, value in list(vars(kind).items()):
            if inspect.isfunction(value) and name != _INIT:
                yield value.__qualname__, value, kind, name


@contextlib.contextmanager
def _wrapped(owner: Any, name: str, change: Callable[[inspect.BoundArguments], None]) -> Iterator[None]:
    """Let `change` see and change the arguments of a function in a namespace or a class, as of its constructor."""
    space = owner if isinstance(owner, dict) else vars(owner)
    original: Callable[..., Any] = space[name] if name in space else getattr(owner, name)
    try:
        signature = inspect.signature(original)
    except (TypeError, ValueError):
        yield
        return

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)
        bound.apply_defaults()
        change(bound)
        return original(*bound.args, **bound.kwargs)

    has_own = name in space
    put = owner.__setitem__ if isinstance(owner, dict) else functools.partial(setattr, owner)
    try:
        put(name, call)
    except TypeError:  # a class that cannot change
        yield
        return
    try:
        yield
    finally:
        if has_own:
            put(name, original)
        else:
            delattr(owner, name)


# Other values


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= _LEAST_SIZE


def _is_plain_value(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _shown(value: Any) -> str:
    is_whole = _is_plain_value(value) or isinstance(value, torch.dtype)
    return repr(value) if is_whole else getattr(value, "__qualname__", type(value).__qualname__)


def _once(values: Iterable[Any]) -> list[Any]:
    return list({(type(value), _shown(value)): value for value in values}.values())


def _other_values(value: Any, in_use: NameInUse, inputs: Sequence[torch.Tensor]) -> list[str]:
    """Values as text: those that the workspace shows, then neighbors. `inputs`: of the call that takes an argument."""
    if not _is_plain_value(value):
        may_be_none = inputs and in_use.is_changed and "None" in in_use.values
        return [*(_stand_ins(value) if in_use.is_changed else ()), *(["None"] if may_be_none else [])]
    tensors = _masks(inputs) if value is None else ()
    texts = dict.fromkeys((*_shown_values(value, in_use.values), *tensors, *_neighbors(value)))
    texts.pop(repr(value), None)
    return list(texts)


def _shown_values(value: Any, texts: Iterable[str]) -> Iterator[str]:
    """The literals of the workspace that may stand for a value."""
    for text in texts:
        try:
            other = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            continue
        kinds = (
            (bool,)
            if isinstance(value, bool)
            else (int, float)
            if isinstance(value, (int, float))
            else (str,)
        )
        if value is None or other is None or isinstance(other, kinds):
            yield repr(other)


def _neighbors(value: Any) -> tuple[str, ...]:
    if isinstance(value, bool):
        return (repr(not value),)
    if isinstance(value, int):
        return tuple(map(repr, dict.fromkeys((1, 2, value + 1, 2 * value, 4, 0))))
    if isinstance(value, float):
        return tuple(map(repr, dict.fromkeys((value * 0.5 + 0.1, 0.0, 1.0))))
    return ("True", "2", "0.5") if value is None else ()


def _masks(inputs: Sequence[torch.Tensor]) -> Iterator[str]:
    """Tensors for a parameter that is None: masks and weights of shapes that fit an input."""
    shapes: dict[tuple[int, ...], None] = {}
    for tensor in inputs[:2]:
        shape = tuple(tensor.shape)
        if len(shape) > 1:
            rows = shape[-2]
            shapes.update(
                dict.fromkeys([(rows, rows), shape[:-1], (*shape[:-1], 1), (shape[0], 1, rows, rows)])
            )
        shapes.update(dict.fromkeys([shape, shape[-1:]]))
    for shape in shapes:
        yield f"{_TENSOR}bool {list(shape)}"
        yield f"{_TENSOR}float32 {list(shape)}"


def _stand_ins(value: Any) -> tuple[str, ...]:
    """Other functions, classes or modules for one without parameters, as an activation is."""
    if isinstance(value, torch.nn.Module):
        has_state = any(True for _ in value.parameters()) or any(True for _ in value.children())
        return () if has_state else tuple(f"{_TORCH}{name}()" for name in _MODULES)
    if isinstance(value, torch.dtype):
        return (f"{_TORCH}float64", f"{_TORCH}bfloat16")
    if isinstance(value, type):
        return tuple(f"{_TORCH}{name}" for name in _MODULES) if issubclass(value, torch.nn.Module) else ()
    is_function = inspect.isfunction(value) or inspect.isbuiltin(value)
    return tuple(f"{_TORCH}{name}" for name in _FUNCTIONS) if is_function else ()


def _value_of(text: str) -> Any:
    """The value that a text is."""
    if text.startswith(_TENSOR):
        dtype, _, shape = text.removeprefix(_TENSOR).partition(" ")
        generator = torch.Generator("cpu").manual_seed(0)
        drawn = torch.rand(ast.literal_eval(shape), generator=generator, device="cpu")
        return drawn > 0.3 if dtype == "bool" else drawn  # noqa: PLR2004 - a mixture
    if text.startswith(_TORCH):
        name = text.removeprefix(_TORCH)
        stand_in = getattr(torch, name.removesuffix("()"), None) or getattr(torch.nn, name.removesuffix("()"))
        return stand_in() if name.endswith("()") else stand_in
    return ast.literal_eval(text)


# Cases


def _cases(value: ContextValue, namespaces: Sequence[Namespace]) -> Iterator[Case]:
    shown = value.value.removeprefix(_TORCH).replace(_TENSOR, "a tensor of ")
    name = f"{value.name} = {shown}{' with inputs of that size' if value.size else ''}"
    change = _ChangedValue(value, namespaces)
    case = Case(
        name,
        _FAMILIES.get(value.kind, CaseFamily.ATTRIBUTE),
        change.change_call,
        around_build=change.around_build,
        varies=value.name,
        has_variants=False,
    )
    yield case
    if value.kind == "constructor" and isinstance(_value_of(value.value), float):  # a rate of Dropout, ...
        yield replace(case, name=f"{name} in training", training=True)


_FAMILIES = {"constructor": CaseFamily.CONSTRUCTOR, "argument": CaseFamily.OPTION}


class _ChangedValue:
    """Puts a value in its place, for one call at a time."""

    def __init__(self, value: ContextValue, namespaces: Sequence[Namespace]) -> None:
        self._value = value
        self._namespaces = namespaces
        self._is_put = False
        self._restore = contextlib.ExitStack()

    @contextlib.contextmanager
    def around_build(self) -> Iterator[None]:
        """Change what the build reads; afterwards, all is as before."""
        self._is_put = False
        with self._restore:
            if self._value.kind == "constructor":
                for kind, owner in _classes(self._namespaces).items():
                    if owner == self._value.owner:
                        self._restore.enter_context(_wrapped(kind, _INIT, self._change_arguments))
            elif self._value.kind == "function":
                for qualified, _, owner, name in list(_functions(self._namespaces)):
                    if qualified == self._value.owner:
                        self._restore.enter_context(_wrapped(owner, name, self._change_arguments))
                        self._is_put = True
            elif self._value.kind == "global":
                for space in self._namespaces:
                    self._put(space.get(self._value.owner) if self._value.owner else space)
            yield

    def change_call(self, prepared: Prepared) -> Prepared:
        """Change what is built. Raises LookupError if there is nothing to change."""
        value = self._value
        if value.kind == "argument":
            return self._with_argument(prepared)
        for owner, holder in _objects(prepared) if value.kind == "attribute" else ():
            if owner == value.owner:
                self._put(holder)
        if not self._is_put:
            raise LookupError(f"nothing has {value.name} with the value {value.before}")
        return resize({ast.literal_eval(value.before): value.size})(prepared) if value.size else prepared

    def _change_arguments(self, bound: inspect.BoundArguments) -> None:
        value = self._value
        if value.name in bound.arguments and _shown(bound.arguments[value.name]) == value.before:
            bound.arguments[value.name] = _value_of(value.value)
            self._is_put = True

    def _with_argument(self, prepared: Prepared) -> Prepared:
        names = [name for name, _ in _parameters(prepared)]
        if self._value.name not in names:
            raise LookupError(f"no parameter is {self._value.name}")
        place = names.index(self._value.name)
        key = place if place < len(prepared.args) else self._value.name
        return replace_argument(prepared, key=key, value=_value_of(self._value.value))

    def _put(self, holder: Any) -> None:
        """Set the attribute or key of a holder that has the value."""
        name = self._value.name
        if holder is None or _shown(_get(holder, name)) != self._value.before:
            return
        self._is_put = True
        space: MutableMapping[str, Any] = holder if isinstance(holder, dict) else vars(holder)
        if isinstance(holder, torch.nn.Module) and name in holder._modules:  # noqa: SLF001 - `setattr` refuses functions
            space = holder._modules  # noqa: SLF001 - the same
        if name in space:
            self._restore.callback(space.__setitem__, name, space[name])
        else:
            self._restore.callback(lambda: space.pop(name, None))
        space[name] = _value_of(self._value.value)


def _larger(prepared: Prepared, sizes: Iterable[int]) -> Iterator[Case]:
    """Inputs of one more than each size, which buffers and limits of the code may not have."""
    inputs = [tensor for tensor in tensors_in([prepared.args, prepared.kwargs]) if is_plain(tensor)]
    own = list(dict.fromkeys(size for tensor in inputs for size in tensor.shape if size > 1))
    for limit in sizes:
        for size in own[:_MAX_SIZES]:
            if (
                size <= limit
                and max(_elements(tensor, size, limit + 1) for tensor in inputs) <= _MAX_ELEMENTS
            ):
                words = f"size {limit + 1} in place of {size}"
                yield Case(words, CaseFamily.SIZE, resize({size: limit + 1}), has_variants=False)


def _elements(tensor: torch.Tensor, size: int, other: int) -> int:
    """How many elements a tensor has with another size."""
    return math.prod(other if own == size else own for own in tensor.shape)
