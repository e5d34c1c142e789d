"""Explains a call of a directive that fails: makes it once more in eager mode, and watches what gets its inputs.

Invariant: the directive is named only where what failed was given its inputs, or tensors computed from these alone.
What else takes part (weights, values of the code) may be as wrong as the directive: the line of the code is named then.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fuselight.capture.calls.calls import Prepared, call_outputs
from fuselight.capture.calls.tensors import tensors_in
from fuselight.shared.inputs import describe_value
from fuselight.shared.report.failure import first_line

_MAX_KEPT = 1000
"""Tensors computed from the inputs that are watched."""
_SHAPE_READS = frozenset({"__get__", "size", "dim", "ndimension", "numel", "__len__", "nelement"})
_CHECKS = (ValueError, IndexError, AssertionError)
"""Exceptions by which Python code refuses a shape that it has just read."""
_OF_MODULES = (RuntimeError, ValueError, AssertionError)
"""Exceptions by which modules of torch refuse their input."""
_NOT_CALLED = frozenset({"fuselight", "torch"})
"""Packages whose frames stand between the directive and what it calls."""
_MODULES = "torch.nn."
_GROUPS = 6
"""Position of `groups` in a call of a convolution."""


@dataclass(frozen=True)
class EagerAttempt:
    """The same call without torch.compile."""

    error: Exception | None
    """None: the call works."""
    refusal: str = ""
    """Why the directive does not fit what it calls, as ``the call passes f32[2, 8], but `conv2d` needs 4 dimensions``;
    empty where the fault may lie elsewhere."""


def attempt(prepared: Prepared) -> EagerAttempt:
    """Make the call in eager mode."""
    given = [*prepared.args, *prepared.kwargs.values()]
    watch = _Watch(given)
    try:
        with torch.compiler.set_stance("force_eager"), watch:
            call_outputs(prepared, prepared.function)
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        return EagerAttempt(error, watch.refusal(error) or unfit_argument(error, given))
    return EagerAttempt(None)


def unfit_argument(error: BaseException, given: Iterable[Any] | None = None) -> str:
    """Say which argument lacks an attribute that the code reads; empty for any other exception.

    `given`: the arguments of the call; without them, those of the outermost call of the traceback that has the object.
    """
    if not isinstance(error, AttributeError) or not error.name or isinstance(error.obj, torch.Tensor):
        return ""  # of a tensor, the name is as likely to be wrong
    value = error.obj
    if given is not None and not any(value is result for result in given):
        return ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _NOT_CALLED:
            continue
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        name = next((name for name in names if frame.f_locals.get(name) is value and name != "self"), None)
        if name is not None:
            return (
                f"the call passes {describe_value(value)} for `{name}`, which has no attribute `{error.name}`"
            )
    return ""


@dataclass(frozen=True)
class _Operator:
    """One call of torch's functions."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    given: torch.Tensor | None
    """Its first tensor that is an input, or computed from inputs alone."""
    sources: tuple[torch.Tensor, ...]
    """The inputs that the tensor is computed from."""

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", self.function)).strip("_")

    def fits(self, error: BaseException) -> bool:
        """Whether the inputs may well be right: it has none, or refuses what the code passes besides."""
        tensors = tensors_in([self.args, self.kwargs])
        index_of_code = self.name == "getitem" and len(tensors) > 1
        return self.given is None or index_of_code or isinstance(error, TypeError)

    @property
    def passed(self) -> str:
        """`the call passes f32[2, 8]`, and what has become of that."""
        texts = list(dict.fromkeys(map(describe_value, self.sources)))
        now = describe_value(self.given)
        return f"the call passes {' and '.join(texts)}" + (f" ({now} here)" if now not in texts else "")


class _Watch(TorchFunctionMode):
    """Follows the inputs of a call through torch's functions."""

    def __init__(self, given: Iterable[Any]) -> None:
        super().__init__()
        inputs = tensors_in(list(given))
        self._sources: dict[int, tuple[torch.Tensor, ...]] = {id(tensor): (tensor,) for tensor in inputs}
        self._kept: list[torch.Tensor] = inputs
        """Keeps ids from being used again."""
        self._last: _Operator | None = None
        self._failed: tuple[BaseException, _Operator] | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        del types
        tensors = tensors_in([args, kwargs or {}])
        known = [tensor for tensor in tensors if id(tensor) in self._sources]
        sources = tuple(
            {id(source): source for tensor in known for source in self._sources[id(tensor)]}.values()
        )
        operator = _Operator(func, args, kwargs or {}, known[0] if known else None, sources)
        self._last = operator
        try:
            result = func(*args, **(kwargs or {}))
        except Exception as error:
            self._failed = error, operator
            raise
        if known and len(known) == len(tensors) and len(self._kept) < _MAX_KEPT:
            for tensor in tensors_in(result):
                if id(tensor) not in self._sources:
                    self._sources[id(tensor)] = sources
                    self._kept.append(tensor)
        return result

    def refusal(self, error: Exception) -> str:
        """Say how the inputs do not fit what raised `error`; empty where something else may be at fault."""
        if self._failed is not None and self._failed[0] is error:
            operator = self._failed[1]
            return (
                ""
                if operator.fits(error) or _is_of_user_code(error)
                else f"{operator.passed}, {_need(operator, error)}"
            )
        module = self._module_that_raised(error)
        if module:
            return module
        last = self._last
        reads = last is not None and last.function.__name__ in _SHAPE_READS and last.given is not None
        if last is None or not reads or not isinstance(error, _CHECKS):
            return ""
        words = first_line(error)
        return f"{last.passed}, and the code raises {type(error).__name__}{f': {words}' if words else ''}"

    def _module_that_raised(self, error: Exception) -> str:
        """As `refusal`, where a module of torch checks its input in Python, as LSTM does."""
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        if not isinstance(error, _OF_MODULES) or not frames:
            return ""
        if not str(frames[-1].f_globals.get("__name__", "")).startswith(_MODULES):
            return ""
        values = frames[-1].f_locals
        given = next((value for value in values.values() if id(value) in self._sources), None)
        if given is None:
            return ""
        owner = values.get("self")
        name = type(owner).__name__ if isinstance(owner, torch.nn.Module) else frames[-1].f_code.co_name
        operator = _Operator(type(owner), (), {}, given, self._sources[id(given)])
        return f"{operator.passed}, and `{name}` raises {type(error).__name__}: {first_line(error)}"


def _is_of_user_code(error: BaseException) -> bool:
    """Whether code that torch called raised it, as the backward of an `autograd.Function` of the user's."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _NOT_CALLED


def _need(operator: _Operator, error: BaseException) -> str:
    """What an operator needs instead of what it got: from its weight where that says it, else in its own words."""
    needs = _needs_of_weight(operator, error)
    if needs:
        return f"but `{operator.name}` needs {needs}"
    return f"and `{operator.name}` raises {type(error).__name__}: {first_line(error)}"


def _needs_of_weight(operator: _Operator, error: BaseException) -> str:
    tensor, weight = operator.given, _argument(operator, 1, "weight")
    if tensor is None or not isinstance(weight, torch.Tensor) or not weight.dim() or tensor is weight:
        return ""
    name = operator.name
    if name == "embedding":
        if tensor.is_floating_point() or tensor.is_complex():
            return "whole numbers, such as i64"
        return f"numbers from 0 to {weight.shape[0] - 1}" if isinstance(error, IndexError) else ""
    needs = ""
    if name.startswith(("linear", "conv")) and tensor.dtype != weight.dtype:
        needs = str(weight.dtype).removeprefix("torch.")
    elif name == "linear" and (not tensor.dim() or tensor.shape[-1] != weight.shape[-1]):
        needs = f"{weight.shape[-1]} in the last dimension"
    elif name.startswith("conv"):
        needs = _needs_of_convolution(operator, tensor, weight)
    return needs


def _needs_of_convolution(operator: _Operator, tensor: torch.Tensor, weight: torch.Tensor) -> str:
    dimensions = weight.dim()
    if tensor.dim() not in {dimensions, dimensions - 1}:
        return f"{dimensions} dimensions"
    transposed = "transpose" in operator.name
    groups = _argument(operator, _GROUPS, "groups")
    channels = weight.shape[0] if transposed else weight.shape[1] * (groups if isinstance(groups, int) else 1)
    if tensor.shape[1 - dimensions] != channels:
        return f"{channels} channels in dimension {tensor.dim() - dimensions + 1}"
    return ""


def _argument(operator: _Operator, position: int, name: str) -> Any:
    if name in operator.kwargs:
        return operator.kwargs[name]
    return operator.args[position] if position < len(operator.args) else None
