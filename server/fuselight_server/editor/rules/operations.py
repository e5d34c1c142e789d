"""What breaks the graph by itself: the operations, each with the id that torch gives the break.

Invariant: each entry breaks in every torch of `conditions`, in the default settings, wherever it is traced; the id is
that of the version. tests/worker/editor/test_predictions.py compares each with a real trace.
"""

from __future__ import annotations

import ast

from fuselight_server.base.finding import Severity
from fuselight_server.editor.rules.conditions import Conditions
from fuselight_server.editor.rules.functions import DISABLED
from fuselight_server.editor.rules.inference import Scope
from fuselight_server.editor.rules.values import KnownValue

RuleBreak = tuple[str, str, "Severity | None"]
"""Id of the break, torch's words that name what broke, and the severity if it is not the default."""

_SCALARS = "capture_scalar_outputs"
_SHAPES = "capture_dynamic_output_shape_ops"
_CALLS = {
    "builtins.print": ("GB0059", "builtin operator `print`"),
    "builtins.open": ("GB0059", "builtin operator `open`"),
    "builtins.exec": ("GB0059", "builtin operator `exec`"),
    "builtins.globals": ("GB0059", "builtin operator `globals`"),
    "builtins.input": ("GB0059", "builtin operator `input`"),
    "torch._dynamo.graph_break": ("GB0025", ""),
    "warnings.warn": ("GB0007", "`warnings.warn`"),
    "gc.collect": ("GB0007", "`gc.collect`"),
    "torch.manual_seed": ("GB0007", "`torch.manual_seed`"),
    "torch.save": ("GB0007", "`torch.save`"),
    "torch.get_num_threads": ("GB0208", ""),
    "torch.nn.Parameter": ("GB0264", ""),
}
"""Functions that break whatever they are called with."""
_CLOCKS = frozenset({"time", "perf_counter", "monotonic", "process_time"})
_RANDOM = frozenset({"rand", "random", "normal", "uniform"})
"""Functions of numpy.random that return one number if they get no size."""
_METHODS = {
    "backward": "GB0123",
    "retain_grad": "GB0108",
    "resize_": "GB0126",
    "resize_as_": "GB0127",
    "random_": "GB0107",
}
"""Methods of tensors that break whatever they are called with."""
_DYNAMIC = {"nonzero", "argwhere", "masked_select", "unique", "bincount", "unique_consecutive"}
"""Methods, and functions of torch, whose result has a size that depends on data."""
_LOG_METHODS = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})


def broken_by_truth(value: KnownValue | None) -> str | None:
    """The id of the break where code asks whether a value is true; None where it does not break."""
    return "GB0170" if value is not None and value.is_tensor else None


def broken_by(node: ast.expr, scope: Scope, conditions: Conditions) -> RuleBreak | None:
    """The break of one expression, its parts left out; None where it is not sure to break."""
    if isinstance(node, ast.Call):
        return _call(node, scope, conditions)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return _subscript(node, scope, conditions)
    return None


def _call(node: ast.Call, scope: Scope, conditions: Conditions) -> RuleBreak | None:
    full = scope.full_name(node.func)
    if full:
        return _function(full, node, scope, conditions)
    if not isinstance(node.func, ast.Attribute):
        return None
    return _method(node.func, node, scope, conditions)


def _function(full: str, node: ast.Call, scope: Scope, conditions: Conditions) -> RuleBreak | None:
    if full in _CALLS:
        gb_id, explanation = _CALLS[full]
        asked = Severity.INFORMATION if gb_id == "GB0025" else None
        return None if _is_reordered(conditions) and full in _OUTPUT else (gb_id, explanation, asked)
    if full == DISABLED:
        return "GB0098", f"function `{ast.unparse(node.func)}`", None
    owner, _, name = full.rpartition(".")
    if owner in _BY_OWNER:
        return _BY_OWNER[owner](name, node, conditions)
    first = scope.value(node.args[0]) if node.args else None
    if first is None or not first.is_tensor:
        return None
    if full in {"builtins.int", "builtins.float"}:
        return _unless(conditions, _SCALARS, "GB0124") if len(node.args) == 1 else None
    return _torch_function(name, node, scope, conditions) if owner == "torch" else _deepcopy(full, conditions)


def _random(name: str, _node: ast.Call, conditions: Conditions) -> RuleBreak | None:
    """Python's random numbers: since 2.14, torch traces `random.random`."""
    breaks = name == "random" and conditions.version < (2, 14)
    return ("GB0007", "`random.random`", None) if breaks else None


def _numpy_random(name: str, node: ast.Call, conditions: Conditions) -> RuleBreak | None:
    is_number = name in _RANDOM and not node.args and not node.keywords
    return _unless(conditions, _SCALARS, "GB0033") if is_number else None


def _logging(name: str, _node: ast.Call, conditions: Conditions) -> RuleBreak | None:
    breaks = name in _LOG_METHODS and not _is_reordered(conditions)
    return ("GB0291", "", None) if breaks else None


def _time(name: str, _node: ast.Call, conditions: Conditions) -> RuleBreak | None:
    """Clocks, which have an id of their own since 2.15, also those that count nanoseconds."""
    if name.removesuffix("_ns") not in _CLOCKS:
        return ("GB0007", "`time.sleep`", None) if name == "sleep" else None
    if conditions.version < (2, 15):
        return "GB0007", f"`time.{name}`", None
    return "GB9193", f"graph breaks on `time.{name}()`", None


_BY_OWNER = {"random": _random, "time": _time, "numpy.random": _numpy_random, "logging.Logger": _logging}


def _deepcopy(full: str, conditions: Conditions) -> RuleBreak | None:
    gb_id = {(2, 11): "GB0179", (2, 13): "GB4198", (2, 14): "GB4198", (2, 15): "GB4198"}.get(
        conditions.version
    )
    return (gb_id, "", None) if gb_id is not None and full == "copy.deepcopy" else None


def _unless(conditions: Conditions, setting: str, gb_id: str) -> RuleBreak | None:
    """The break, unless a setting may let torch trace what broke."""
    return None if conditions.captures(setting) else (gb_id, "", None)


def _torch_function(name: str, node: ast.Call, scope: Scope, conditions: Conditions) -> RuleBreak | None:
    """A function of torch whose first argument is a tensor."""
    if name in _DYNAMIC or (name == "where" and len(node.args) == 1 and not node.keywords):
        return _unless(conditions, _SHAPES, "GB0036")
    if name == "repeat_interleave" and len(node.args) > 1 and _repeats(node, node.args[1], scope):
        return _unless(conditions, _SHAPES, "GB0036")
    return _unless(conditions, _SCALARS, "GB0033") if name in {"equal", "allclose", "arange"} else None


def _repeats(node: ast.Call, repeats: ast.expr, scope: Scope) -> bool:
    """Whether a call of repeat_interleave gets a tensor of repeats, and no size of the result."""
    value = scope.value(repeats)
    return value is not None and value.is_tensor and all(keyword.arg == "dim" for keyword in node.keywords)


def _method(
    function: ast.Attribute, node: ast.Call, scope: Scope, conditions: Conditions
) -> RuleBreak | None:
    owner, name = scope.value(function.value), function.attr
    if owner is None or not owner.is_tensor:
        return None
    if name == "item" and not node.args:
        return _unless(conditions, _SCALARS, "GB0124")
    if name == "tolist" and (owner.is_floating or owner.is_integral):
        return _unless(conditions, _SCALARS, "GB0109" if owner.is_floating else "GB0033")
    if name in _DYNAMIC:
        return _unless(conditions, _SHAPES, "GB0036")
    gb_id = _METHODS.get(name)
    return None if gb_id is None or "trace_autograd_ops" in conditions.settings else (gb_id, "", None)


def _subscript(node: ast.Subscript, scope: Scope, conditions: Conditions) -> RuleBreak | None:
    owner, index = scope.value(node.value), scope.value(node.slice)
    if owner is not None and owner.is_tensor and isinstance(node.slice, ast.Slice):
        bounds = [
            scope.value(expression)
            for expression in (node.slice.lower, node.slice.upper)
            if expression is not None
        ]
        if any(bound is not None and bound.is_tensor for bound in bounds):
            return _unless(conditions, _SCALARS, "GB0124")
    selects = owner is not None and owner.is_tensor and index is not None and index.is_mask
    return _unless(conditions, _SHAPES, "GB0036") if selects else None


_OUTPUT = frozenset({"builtins.print", "warnings.warn"})


def _is_reordered(conditions: Conditions) -> bool:
    """Whether settings let torch trace calls that print or log."""
    return any("logging" in name or "logger" in name for name in conditions.settings)
