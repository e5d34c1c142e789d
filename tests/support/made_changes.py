"""Makes the change that a forecast describes for real: other inputs, another attribute, another mode."""

from __future__ import annotations

import ast
import contextlib
import copy
import re
from typing import TYPE_CHECKING, Any

import torch

from fuselight.report import ChangeKind

if TYPE_CHECKING:
    from fuselight.report import Forecast

_DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32, "i32": torch.int32, "i64": torch.int64}
_NAME = re.compile(r"(?P<name>\w+)(?:\[(?P<key>[^\]]+)\])?")


def applied(
    function: Any, inputs: dict[str, Any], one: Forecast, module: Any = None
) -> tuple[dict[str, Any], contextlib.ExitStack]:
    """The inputs of a call with the change, and the state to make the call in, which undoes the change on exit.

    `module` has the global variables that the function reads.
    """
    inputs = {
        name: copy.copy(value) if isinstance(value, (list, dict)) else value for name, value in inputs.items()
    }
    state = contextlib.ExitStack()
    if one.kind is ChangeKind.TRAINING:
        flags = [(part, part.training) for part in function.modules()]
        for part, _ in flags:
            part.training = one.now == "training"
        for part, flag in flags:
            state.callback(setattr, part, "training", flag)
    elif one.kind is ChangeKind.GRAD_MODE:
        state.enter_context(torch.set_grad_enabled(one.now == "on"))
    elif one.kind is ChangeKind.AUTOCAST:
        state.enter_context(torch.autocast("cpu", dtype=torch.bfloat16, enabled=one.now == "on"))
    elif one.kind is ChangeKind.ATTRIBUTE:
        owner, name = _owner(one.subject[0], function, module)
        state.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, ast.literal_eval(one.now))
    else:
        for subject in one.subject:
            tensor, _, rest = subject.partition(".size(")
            holder, key = _place(inputs, tensor)
            holder[key] = _changed(holder[key], one, rest.rstrip(")"))
    return inputs, state


def _owner(subject: str, function: Any, module: Any) -> tuple[Any, str]:
    """The object that has an attribute, as an expression of the function's `self` or a global of its module."""
    expression, _, name = subject.rpartition(".")
    if not expression:
        return module, name
    return eval(expression, {"self": function}), name  # noqa: S307 - an expression of the forecast


def _place(inputs: dict[str, Any], subject: str) -> tuple[Any, Any]:
    found = _NAME.fullmatch(subject)
    assert found is not None, subject
    if found["key"] is None:
        return inputs, found["name"]
    key = ast.literal_eval(found["key"])
    return (inputs, key) if found["name"] == "kwargs" else (inputs[found["name"]], key)


def _changed(value: Any, one: Forecast, dimension: str) -> Any:
    if one.kind in (ChangeKind.SIZE, ChangeKind.SIZE_ONE):
        sizes = list(value.shape)
        sizes[int(dimension)] = int(one.now)
        return torch.ones(sizes, dtype=value.dtype)
    if one.kind is ChangeKind.DTYPE:
        return value.to(_DTYPES[one.now])
    if one.kind is ChangeKind.REQUIRES_GRAD:
        return value.detach().clone().requires_grad_(one.now == "True")
    if one.kind is ChangeKind.STRIDES:
        order = (0, 2, 3, 1) if one.now == "channels_last" else tuple(reversed(range(value.dim())))
        back = sorted(range(value.dim()), key=order.__getitem__)
        return value.permute(order).contiguous().permute(back)
    if one.kind is ChangeKind.LENGTH:
        return type(value)((*value, value[-1]))
    return ast.literal_eval(one.now)
