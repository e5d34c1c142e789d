"""Changes of tensors in place on the sides of a branch, and the change that each call can make instead.

Invariant: a replacement names only what the branch itself changes. Where that is not one tensor or one list, there is
no code to show.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_LONGEST_CODE = 60
_FOREACH = "_foreach_"
_NEUTRAL = {"mul_": "1", "div_": "1", "add_": "0", "sub_": "0"}
"""By method: the operand that changes nothing."""
_OF_LISTS = frozenset({"mul_", "div_", "add_"})
"""The functions of lists with an overload for one tensor for all elements: `torch._foreach_sub_` has none."""
_NUMBERS = frozenset({"float", "int"})


def changes_tensors(arm: list[ast.stmt]) -> bool:
    """Whether a side changes something in place."""
    return any(True for _ in _changed(arm)) or not _calls_alone(arm)


def targets_of(node: ast.Assign | ast.AugAssign) -> list[ast.expr]:
    """The targets of an assignment."""
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def in_place_call(node: ast.AST) -> ast.Call | None:
    """A statement such as `x.mul_(y)`."""
    call = node.value if isinstance(node, ast.Expr) else None
    name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
    is_in_place = name.endswith("_") and not name.endswith("__")
    return call if isinstance(call, ast.Call) and is_in_place else None


def _changed(arm: list[ast.stmt]) -> Iterator[tuple[ast.expr, bool]]:
    """The tensors that the calls of a side change in place, and whether it is a list of them."""
    for node in (part for statement in arm for part in ast.walk(statement)):
        if (call := in_place_call(node)) is not None:
            yield _changed_by(call)


def _changed_by(call: ast.Call) -> tuple[ast.expr, bool]:
    """The receiver of a method, or the first argument of a function such as `F.relu_` and `torch._foreach_mul_`."""
    function = call.func
    if not isinstance(function, ast.Attribute):
        return function, False
    is_of_list = function.attr.startswith(_FOREACH)
    is_function = is_of_list or _is_module(function.value)
    return (call.args[0] if is_function and call.args else function.value), is_of_list


def _is_module(node: ast.expr) -> bool:
    name = ast.unparse(node)
    return name in {"F", "torch", "functional", "init"} or name.startswith(("torch.", "nn.", "F."))


def selected_change(node: ast.If, condition: str) -> str:
    """The change that leaves everything as it is where the condition is false; empty where it cannot be written.

    What gets an item may be an array, a list or a dict, in which torch.where changes nothing.
    """
    arms = [node.body, node.orelse]
    if not all(map(_calls_alone, arms)):
        return ""
    calls = [
        call
        for arm in arms
        for statement in arm
        for part in ast.walk(statement)
        if (call := in_place_call(part))
    ]
    if len(calls) == 1 and not node.orelse and (text := _with_neutral_operand(calls[0], condition)):
        return text
    changed = {(ast.unparse(target), is_list) for arm in arms for target, is_list in _changed(arm)}
    if len(changed) != 1:
        return ""
    ((name, is_list),) = changed
    if len(name) > _LONGEST_CODE:
        return ""
    if is_list:
        return f"`for x in {name}: x.copy_(torch.where({condition}, changed, x))`"
    return f"`{name}.copy_(torch.where({condition}, changed, {name}))`"


def _calls_alone(arm: list[ast.stmt]) -> bool:
    """Whether nothing on a side gets an item."""
    nodes = (node for statement in arm for node in ast.walk(statement))
    return not any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) for node in nodes)


def _with_neutral_operand(call: ast.Call, condition: str) -> str:
    function = call.func
    if not isinstance(function, ast.Attribute) or call.keywords or not call.args:
        return ""
    of_list = function.attr.startswith(_FOREACH)
    method = function.attr.removeprefix(_FOREACH)
    if method not in (_OF_LISTS if of_list else _NEUTRAL) or len(call.args) != 1 + of_list:
        return ""
    operand = _operand(call.args[-1], of_list=of_list)
    if not operand or len(operand) > _LONGEST_CODE:
        return ""
    first = f"{ast.unparse(call.args[0])}, " if of_list else ""
    selected = f"torch.where({condition}, {operand}, {_NEUTRAL[method]})"
    return f"`{ast.unparse(function)}({first}{selected})`"


def _operand(node: ast.expr, *, of_list: bool) -> str:
    """The operand as a tensor: without the conversion to a number, which breaks the graph.

    A function of lists may also get a second list, which torch.where does not take: a name may be one.
    """
    is_number = False
    while (inner := _converted(node)) is not None:
        node, is_number = inner, True
    is_single = is_number or isinstance(node, (ast.BinOp, ast.Constant))
    return ast.unparse(node) if is_single or not of_list else ""


def _converted(node: ast.expr) -> ast.expr | None:
    """The tensor of `t.item()` and `float(t)`."""
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
        return node.func.value
    is_number = isinstance(node.func, ast.Name) and node.func.id in _NUMBERS and len(node.args) == 1
    return node.args[0] if is_number else None
