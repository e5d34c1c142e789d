"""Makes the change that a forecast describes for real: other inputs, another attribute, another mode.

Invariant: the objects of the call are not changed: containers are copied, and attributes and modes are as before when
the call has ended. A change that does not fit the call raises ChangeError.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import targets
from fuselight.capture.calls.calls import PlannedCall, Prepared, module_of
from fuselight.capture.calls.rungs import Answered
from fuselight.capture.dynamo.changed_tensors import filled, like, relaid, resized
from fuselight.capture.dynamo.containers import Field, items_of, replaced
from fuselight.shared.inputs import DTYPES, UserCallError
from fuselight.shared.report import CallChange, ChangeKind

_During = Callable[[], AbstractContextManager[Any]]


class ChangeError(Exception):
    """The change does not fit the call; the message says why."""


def with_changes(answered: Answered, changes: tuple[CallChange, ...], names: Mapping[str, Any]) -> Answered:
    """The calls, and after them the last one once more for each change. `names`: those of the user's file."""
    if not changes or not answered.calls:
        return answered
    last = answered.calls[-1]
    more = (
        replace(
            last, text=f"{last.text} with {change.text}", build=functools.partial(_build, last, change, names)
        )
        for change in changes
    )
    return replace(answered, calls=(*answered.calls, *more))


def _build(planned: PlannedCall, change: CallChange, names: Mapping[str, Any]) -> Prepared:
    try:
        return changed_call(planned.build(), change, names)
    except ChangeError as error:
        raise UserCallError(0, len(planned.text)) from error


def changed_call(prepared: Prepared, change: CallChange, names: Mapping[str, Any]) -> Prepared:
    """The call with a change. Raises ChangeError.

    `names` are the global variables that the function reads, which an attribute's change may set.
    """
    surround = CHANGES[change.kind].during
    if surround is not None:
        return replace(prepared, during=_both(prepared.during, surround(prepared, change, names)))
    args, kwargs = list(prepared.args), dict(prepared.kwargs)
    for text in change.subject:
        name, keys, dimension = _read(text)
        holder, path = _place(prepared.function, args, kwargs, name, keys)
        holder[path[0]] = _replaced(holder[path[0]], path[1:], change, dimension)
    return replace(prepared, args=tuple(args), kwargs=kwargs)


def _both(outer: _During, inner: _During) -> _During:
    """What is in force during a call of the user's program, and inside of it the change."""

    @contextlib.contextmanager
    def during() -> Iterator[None]:
        with outer(), inner():
            yield

    return during


def _read(text: str) -> tuple[str, tuple[Any, ...], int]:
    """`batch.items[0].size(1)` as the name of a parameter, the keys below it, and the dimension."""
    try:
        node = ast.parse(text, mode="eval").body
        dimension = 0
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
            dimension, node = ast.literal_eval(node.args[0]), node.func.value
        keys: list[Any] = []
        while isinstance(node, (ast.Subscript, ast.Attribute)):
            key = Field(node.attr) if isinstance(node, ast.Attribute) else ast.literal_eval(node.slice)
            keys.insert(0, key)
            node = node.value
    except (SyntaxError, ValueError, IndexError) as error:
        raise ChangeError(f"`{text}` is not an input of the call: {error}") from None
    if not isinstance(node, ast.Name):
        raise ChangeError(f"`{text}` is not an input of the call")
    return node.id, tuple(keys), dimension


def _place(
    function: Any, args: list[Any], kwargs: dict[str, Any], name: str, keys: tuple[Any, ...]
) -> tuple[Any, tuple[Any, ...]]:
    """Where the call has a value: its arguments by position or by name, and the keys in them.

    A default becomes an argument.
    """
    if name in kwargs:
        return kwargs, (name, *keys)
    try:
        parameters = inspect.signature(_signed(function)).parameters
    except (TypeError, ValueError) as error:
        raise ChangeError(f"`{name}` is not known to be an input of the call: {error}") from None
    for index, (known, parameter) in enumerate(parameters.items()):
        if known != name:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL and keys:
            return args, (index + keys[0], *keys[1:])
        if parameter.kind is parameter.VAR_KEYWORD and keys:
            return kwargs, keys
        if index < len(args):
            return args, (index, *keys)
        if parameter.default is not parameter.empty:
            kwargs[name] = parameter.default
            return kwargs, (name, *keys)
    raise ChangeError(f"`{name}` is no input of the call")


def owner_of(function: Any) -> Any:
    """What `self` is in a call of a function or a module; None for a plain function."""
    module = module_of(function)
    return targets.module_inside(module) if module is not None else getattr(function, "__self__", None)


def _signed(function: Any) -> Any:
    """What has the parameters of a call."""
    function = targets.module_inside(function) if isinstance(function, torch.nn.Module) else function
    return getattr(function, "forward", function)


def _replaced(value: Any, keys: tuple[Any, ...], change: CallChange, dimension: int) -> Any:
    """The value with another one at the keys; only the containers on the way are copied."""
    old = value
    for key in keys:
        items = dict(items_of(old))
        if key not in items:
            raise ChangeError(f"the argument has no `{key.name if isinstance(key, Field) else key}`")
        old = items[key]
    return replaced(value, {keys: _changed(old, change, dimension)})


def _changed(value: Any, change: CallChange, dimension: int) -> Any:
    kind = CHANGES[change.kind]
    if not isinstance(value, torch.Tensor):
        return kind.value(value, change)
    if kind.tensor is None:
        raise ChangeError(f"a tensor has no other {change.kind.value}")
    return filled(kind.tensor(value, change, dimension), value)


def _value(text: str) -> Any:
    """A number, bool or string as `repr` writes it."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        pass
    try:
        return float(text)  # inf and nan
    except ValueError:
        raise ChangeError(f"the value is too long to be made again: {text}") from None


def _other_training(prepared: Prepared, change: CallChange, _names: Mapping[str, Any]) -> _During:
    module = module_of(prepared.function)
    return functools.partial(_training, module, is_training=change.now == "training")


def _other_grad_mode(_prepared: Prepared, change: CallChange, _names: Mapping[str, Any]) -> _During:
    return functools.partial(torch.set_grad_enabled, change.now == "on")


def _other_autocast(prepared: Prepared, change: CallChange, _names: Mapping[str, Any]) -> _During:
    tensors = (
        argument
        for argument in (*prepared.args, *prepared.kwargs.values())
        if isinstance(argument, torch.Tensor)
    )
    device = next((tensor.device.type for tensor in tensors), "cpu")
    return functools.partial(torch.autocast, device, dtype=torch.bfloat16, enabled=change.now == "on")


def _other_attribute(prepared: Prepared, change: CallChange, names: Mapping[str, Any]) -> _During:
    holder, name = _holder(prepared, change.subject[0], names)
    return functools.partial(_having, holder, name, _value(change.now))


@contextlib.contextmanager
def _training(module: torch.nn.Module | None, *, is_training: bool) -> Iterator[None]:
    parts = [] if module is None else [(module, module.training) for module in module.modules()]
    for part, _ in parts:
        vars(part)["training"] = is_training
    try:
        yield
    finally:
        for part, flag in parts:
            vars(part)["training"] = flag


def _holder(prepared: Prepared, text: str, names: Mapping[str, Any]) -> tuple[Any, str]:
    """The namespace of an attribute of `self`, of an argument or of a global variable, and the name in it."""
    owner, _, name = text.rpartition(".")
    function = prepared.function
    scope = {
        **names,
        **_arguments(prepared),
        "self": owner_of(function),
    }
    try:
        holder: Any = vars(eval(owner, {}, scope)) if owner else names  # noqa: S307 - an expression of torch's guards
    except Exception as error:  # noqa: BLE001 - any property of the user's can raise anything
        raise ChangeError(f"`{text}` cannot be read: {type(error).__name__}: {error}") from None
    if name not in holder:
        raise ChangeError(f"`{text}` is not set")
    return holder, name


def _arguments(prepared: Prepared) -> dict[str, Any]:
    """The arguments by the names of the parameters."""
    function = prepared.function
    try:
        signature = inspect.signature(_signed(function))
        return signature.bind(*prepared.args, **prepared.kwargs).arguments
    except (TypeError, ValueError):
        return {}


@contextlib.contextmanager
def _having(holder: Any, name: str, value: object) -> Iterator[None]:
    before = holder[name]
    holder[name] = value
    try:
        yield
    finally:
        holder[name] = before


def _new_value(_value_now: Any, change: CallChange) -> Any:
    return _value(change.now)


@dataclass(frozen=True)
class MadeChange:
    """How a kind of change is made: in a tensor or another input of the call, or in what is in force during it."""

    tensor: Callable[[torch.Tensor, CallChange, int], torch.Tensor] | None = None
    """The tensor of the changed call, by the dimension that is named; None: tensors have no such change."""
    value: Callable[[Any, CallChange], Any] = _new_value
    """Another input of the changed call."""
    during: Callable[[Prepared, CallChange, Mapping[str, Any]], _During] | None = None
    """What is in force during the call; None for a change of its inputs."""


def _resized(tensor: torch.Tensor, change: CallChange, dimension: int) -> torch.Tensor:
    return resized(tensor, dimension, int(change.now))


CHANGES = {
    ChangeKind.SIZE: MadeChange(_resized),
    ChangeKind.SIZE_ONE: MadeChange(_resized),
    ChangeKind.DTYPE: MadeChange(
        lambda tensor, change, _dimension: like(tensor, dtype=getattr(torch, DTYPES[change.now]))
    ),
    ChangeKind.STRIDES: MadeChange(lambda tensor, change, _dimension: relaid(tensor, change.now)),
    ChangeKind.REQUIRES_GRAD: MadeChange(
        lambda tensor, change, _dimension: like(tensor, requires_grad=change.now == "True")
    ),
    ChangeKind.TRAINING: MadeChange(during=_other_training),
    ChangeKind.GRAD_MODE: MadeChange(during=_other_grad_mode),
    ChangeKind.AUTOCAST: MadeChange(during=_other_autocast),
    ChangeKind.NUMBER: MadeChange(),
    ChangeKind.VALUE: MadeChange(),
    ChangeKind.LENGTH: MadeChange(
        value=lambda value, change: type(value)((*value, *[value[-1]] * (int(change.now) - len(value))))
    ),
    ChangeKind.ATTRIBUTE: MadeChange(during=_other_attribute),
}
"""The table of kinds of change. A new kind is one entry here; its question is asked in `capture/dynamo/forecast.py`."""
