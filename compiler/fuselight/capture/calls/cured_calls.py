"""Applies a cure to a call of a compiled function: an argument, an attribute or a global variable is changed in place.

Invariant: only what the cure names changes. A cure that does not fit the call raises CureError.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import traces
from fuselight.capture.calls.calls import module_of
from fuselight.capture.calls.reachable_objects import MethodOwners, Place, globals_of
from fuselight.shared.inputs import DTYPES
from fuselight.shared.report.cures import CallCure, CureKind

Step = tuple[bool, Any]
"""Whether it reads an attribute, else an item; its name or key."""
_SIZE = re.compile(r"(?P<tensor>.+)\.size\((?P<dimension>\d+)\)$")


_SMALL = frozenset({0, 1})
"""Sizes that torch always compiles separately: to mark one is an error."""


class CureError(Exception):
    """The cure does not fit the call; the message says why."""


class UnfitValueError(CureError):
    """The value that would change is such that no program can make the change."""


def cured_call(
    cure: CallCure, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], owners: MethodOwners
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """The arguments of a call with the cure, and whether anything differs. Raises CureError.

    `owners`: those of the calls before.
    """
    call = _Call(function, args, kwargs, (cure.path, cure.line) if cure.outer_path else None, owners)
    is_changed = False
    for subject in cure.subjects:
        is_changed |= call.replace_value(*_change_of(cure, subject))
    return (*call.arguments(), is_changed)


def _change_of(cure: CallCure, subject: str) -> tuple[str, Callable[[Any], Any]]:
    match = _SIZE.match(subject)
    if cure.kind is CureKind.MARK and match is not None:
        return match["tensor"], lambda tensor: _marked(tensor, int(match["dimension"]))
    if cure.kind is CureKind.UNBACKED and match is not None:
        return match["tensor"], lambda tensor: _of_any_size(tensor, int(match["dimension"]))
    if cure.kind is CureKind.DTYPE:
        return subject, lambda tensor: _tensor(tensor).to(getattr(torch, DTYPES[cure.value]))
    return subject, _CHANGES[cure.kind]


def _tensor(value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise CureError(f"it is a {type(value).__name__} and not a tensor")
    return value


def _marked(value: Any, dimension: int) -> torch.Tensor:
    tensor = _tensor(value)
    if tensor.dim() > dimension and tensor.shape[dimension] not in _SMALL:
        traces.promise_dynamic(tensor, dimension)
    return tensor


def _of_any_size(value: Any, dimension: int) -> torch.Tensor:
    tensor = _tensor(value)
    if tensor.dim() > dimension:
        traces.promise_any_size(tensor, dimension)
    return tensor


def _as_tensor(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value
    if not isinstance(value, (bool, int, float)):
        raise CureError(f"a {type(value).__name__} is not a number")
    return torch.tensor(value)


def _stacked(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (list, tuple)) and value and {*map(type, value)} <= {int, float}:
        return torch.tensor(value)
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, torch.Tensor) for item in value):
        raise UnfitValueError("its elements are not tensors")
    try:
        return torch.stack(list(value))
    except RuntimeError as error:
        raise UnfitValueError(str(error)) from None


def _in_inference_mode(value: Any) -> torch.Tensor:
    """The tensor as one that was created in inference mode, if that is on: outside of it, such a tensor is no input."""
    tensor = _tensor(value)
    return tensor.clone() if torch.is_inference_mode_enabled() and not tensor.is_inference() else tensor


def _as_python_number(value: Any) -> Any:
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


_CHANGES: dict[CureKind, Callable[[Any], Any]] = {
    CureKind.TENSOR: _as_tensor,
    CureKind.CONTIGUOUS: lambda value: _tensor(value).contiguous(),
    CureKind.STACK: _stacked,
    CureKind.INFERENCE: _in_inference_mode,
    CureKind.NUMBER: _as_python_number,
}


class _Call:
    """One call, whose values can be replaced."""

    def __init__(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inner: Place | None,
        owners: MethodOwners,
    ) -> None:
        """`inner`: the function that the call leads to and that is meant, if it is another one."""
        self._inner, self._owners = inner, owners
        module = module_of(function)
        self._owner = module if module is not None else getattr(function, "__self__", None)
        called = function.forward if isinstance(function, torch.nn.Module) else function
        if module is not None and getattr(function, "__name__", "") in _MODULE_CALLS:
            own = type(module).__call__ is torch.nn.Module.__call__
            called = module.forward if own else module.__call__
        if module is None and isinstance(type(function).__call__, FunctionType):
            self._owner, called = function, function.__call__  # an object of a class of the user's
        self._passed, self._changed_any = (args, kwargs), False
        self._plain = getattr(called, "__func__", called)
        try:
            signature = inspect.signature(called, follow_wrapped=False)
            self._bound = signature.bind(*args, **kwargs)
        except (TypeError, ValueError) as error:
            raise CureError(f"its arguments are not known: {error}") from None
        parameters = signature.parameters.values()
        self._collected = {item.name for item in parameters if item.kind is inspect.Parameter.VAR_KEYWORD}

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self._bound.args, self._bound.kwargs) if self._changed_any else self._passed

    def replace_value(self, subject: str, change: Callable[[Any], Any]) -> bool:
        """Replace a value by what `change` makes of it; returns whether that is another object, or marked."""
        name, steps, is_global = _read(subject)
        self._changed = False

        def counted(value: Any) -> Any:
            result = change(value)
            self._changed |= result is not value or any(hasattr(result, mark) for mark in _MARKS)
            return result

        if self._inner is not None and name == "self" and not is_global:
            self._change_objects(self._inner, steps, counted)
            return self._changed
        scope = self._scope_of(name, is_global=is_global)
        before = scope[0](name)
        after = _replaced(before, steps, counted)
        if after is not before:
            scope[1](name, after)
        # What `**options` collects is another dict in each call, and changes in place.
        is_collected = self._changed and name in self._collected and not is_global
        self._changed_any |= after is not before or is_collected
        return self._changed

    def _change_objects(self, method: Place, steps: list[Step], change: Callable[[Any], Any]) -> None:
        """Change an attribute of each object with the method that the call can reach."""
        owners = self._owners.of(method, self._plain, self._owner, self._bound.arguments.values())
        if not owners:
            raise CureError("the call does not lead to the object")
        for owner in owners:
            _replaced(owner, steps, change)

    def _scope_of(
        self, name: str, *, is_global: bool
    ) -> tuple[Callable[[str], Any], Callable[[str, Any], None]]:
        """How to read and how to write a variable of the call."""
        if not is_global:
            if name == "self" and self._owner is not None:
                return lambda _name: self._owner, _refuse
            if name not in self._bound.arguments:
                self._bound.apply_defaults()
            arguments = self._bound.arguments  # which the line before replaces
            if name in arguments:
                return arguments.__getitem__, arguments.__setitem__
            cells = dict(
                zip(_free_names(self._plain), getattr(self._plain, "__closure__", None) or (), strict=False)
            )
            if name in cells:
                cell = cells[name]
                return lambda _name: cell.cell_contents, lambda _name, value: setattr(
                    cell, "cell_contents", value
                )
        variables = getattr(self._plain, "__globals__", {})
        if self._inner is not None:
            variables = globals_of(self._inner[0], self._plain) if is_global else {}
        if name in variables:
            return variables.__getitem__, variables.__setitem__
        raise CureError(f"the call has no `{name}`")


_MARKS = ("_dynamo_dynamic_indices", "_dynamo_unbacked_indices")
_MODULE_CALLS = frozenset({"__call__", "_call_impl", "_wrapped_call_impl"})


def _free_names(function: Any) -> tuple[str, ...]:
    return tuple(getattr(getattr(function, "__code__", None), "co_freevars", ()))


def _refuse(name: str, _value: Any) -> None:
    raise CureError(f"`{name}` itself cannot be another object")


def _read(subject: str) -> tuple[str, list[Step], bool]:
    """The variable, the steps from it to the value, and whether it is global."""
    try:
        node: ast.expr = ast.parse(subject, mode="eval").body
        steps: list[Step] = []
        while not isinstance(node, ast.Name):
            step, node = _last_step(node)
            steps.insert(0, step)
    except (SyntaxError, ValueError, RecursionError):
        raise CureError(f"`{subject}` is not a variable, an attribute or an element") from None
    name, is_global = node.id, False
    if node.id in {"L", "G"} and steps and not steps[0][0]:
        name, steps, is_global = str(steps[0][1]), steps[1:], node.id == "G"
    if steps and steps[0] == (True, "__self__"):  # a wrapper of torch's around a method
        return "self", steps[1:], False
    return name, steps, is_global


def _last_step(node: ast.expr) -> tuple[Step, ast.expr]:
    """The last step of an expression, and what it starts from. Raises CureError if it is not such a step.

    An entry of a namespace is an attribute: that of a class refuses to be written.
    """
    if isinstance(node, ast.Attribute):
        return (True, node.attr), node.value
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "type":
        return (True, "__class__"), node.args[0]
    if not isinstance(node, ast.Subscript):
        raise CureError(f"`{ast.unparse(node)}` is not a variable, an attribute or an element")
    key, owner = ast.literal_eval(node.slice), node.value
    if isinstance(owner, ast.Call) and ast.unparse(owner.func) == "dict":
        owner = owner.args[0]
    if isinstance(owner, ast.Attribute) and owner.attr == "__dict__":
        return (True, key), owner.value
    return (False, key), owner


def _replaced(value: Any, steps: list[Step], change: Callable[[Any], Any]) -> Any:
    """The value with what is at the steps changed; lists, dicts and objects are changed in place, tuples are copied."""
    if value is None:
        return value  # a call without it, as the first one of a loop that fills a cache
    if not steps:
        return change(value)
    (is_attribute, key), rest = steps[0], steps[1:]
    try:
        before = getattr(value, key) if is_attribute else value[key]
    except (KeyError, IndexError, AttributeError):
        return value  # a call without it, as of a keyword argument, or before the attribute is set
    except Exception as error:  # noqa: BLE001 - a property of the user's can raise anything
        raise CureError(f"`{key}` cannot be read: {type(error).__name__}: {error}") from None
    after = _replaced(before, rest, change)
    if after is before:
        return value
    try:
        if is_attribute:
            _set(value, key, after)
        elif isinstance(value, tuple):
            items = [after if index == key else item for index, item in enumerate(value)]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        else:
            value[key] = after
    except Exception as error:  # noqa: BLE001 - as above
        raise CureError(f"`{key}` cannot be set: {type(error).__name__}: {error}") from None
    return value


def _set(owner: Any, name: str, value: Any) -> None:
    """Set an attribute, of a frozen dataclass too: its owner would be created with the value."""
    try:
        setattr(owner, name, value)
    except AttributeError:
        object.__setattr__(owner, name, value)
