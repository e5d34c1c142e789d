"""What to do about a branch that breaks the graph, by what the branch does and what it depends on.

Invariant: a select (torch.where) is advised only for a branch that computes values: a tensor can neither
raise, nor leave a loop, nor call a function of Python. What cannot be read in the source gets the advice for a select.
An assert of the graph is not advised for an exception that a handler of the user's catches: it ends the program.
"""

from __future__ import annotations

import ast
import enum
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from fuselight.shared.report import Location
from fuselight_server.explain.findings.breaks.branch_conditions import (
    branch_at,
    condition_of,
    is_computed,
    is_decided_by_python,
    operands_of,
)
from fuselight_server.explain.findings.breaks.caught_exceptions import Handler, handler_of, raised_name
from fuselight_server.explain.findings.breaks.in_place_changes import (
    changes_tensors,
    in_place_call,
    selected_change,
    targets_of,
)
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import parents_of, tree_around

BRANCH_IDS = frozenset({"GB0170"})
_RANDOM_INPUT = "random_value_"
"""How torch names a number of Python's `random` that it made an input of the graph."""
_LONGEST_CONDITION = 60
_OUTSIDE = "outside the compiled code"
_BOTH_SIDES = "Compute both sides and select with torch.where"
_PASSED_IN = f"decide {_OUTSIDE} on a Python value that you pass in"
_RETURNED = f"return the condition and decide {_OUTSIDE}"
"""In the place of a value to pass in, where the compiled code itself computes what decides."""
SELECT = f"{_BOTH_SIDES}, or {_PASSED_IN}"


class Effect(enum.Enum):
    """What a branch does."""

    SELECT = "select"
    """It computes values, or returns."""
    RAISE = "raise"
    ASSERT = "assert"
    BREAK = "break"
    """It leaves a loop, with `break` or `return`."""
    CONTINUE = "continue"
    WHILE = "while"
    FILTER = "filter"
    """A comprehension leaves elements out."""
    CALL = "call"
    """It only calls functions, as to print, or sets attributes to constants."""
    MIXED = "mixed"
    """It computes values, and calls a function for its effect, too."""
    CHANGE = "change"
    """It changes a tensor in place."""
    OPERAND = "operand"
    """`and` and `or` need the value of an operand; no statement branches on it."""


@dataclass(frozen=True)
class BranchAdvice:
    """What replaces torch's texts of a break on a branch."""

    hints: tuple[str, ...]
    is_random: bool = False

    @property
    def title(self) -> str:
        """What the branch depends on; empty if it is the data of a tensor."""
        return RANDOM_TITLE if self.is_random else ""

    @property
    def text(self) -> str:
        """The explanation in the place of torch's; empty if that holds."""
        return RANDOM_TEXT if self.is_random else ""


RANDOM_TITLE = "a branch depends on a random number"
RANDOM_TEXT = "The number is drawn in each call, so torch makes it an input of the graph and knows no value."


def branch_advice(context: Context, at: Location, texts: str = "") -> BranchAdvice:
    """The advice for a branch in the user's code at `at`. `texts`: those of torch about the break."""
    tree = tree_around(context, at)
    node = branch_at(tree, at) if tree is not None else None
    parents = parents_of(tree) if tree is not None else {}
    effect = effect_of(node, parents) if node is not None else Effect.SELECT
    if _RANDOM_INPUT in texts or (node is not None and _draws(tree, condition_of(node))):
        return BranchAdvice(_random_hints(effect), is_random=True)
    handler = _handler(context, at, node, effect)
    if handler is not None:
        return BranchAdvice(tuple(_caught_hints(handler.words(at.path))))
    return BranchAdvice(tuple(_hints(tree, node, effect)))


def handler_of_branch(context: Context, at: Location) -> Handler | None:
    """What catches the exception that a branch at `at` raises; None where it raises none, or nothing catches it."""
    tree = tree_around(context, at)
    node = branch_at(tree, at)
    return (
        _handler(context, at, node, effect_of(node, parents_of(tree))) if tree and node is not None else None
    )


def _handler(context: Context, at: Location, node: ast.AST | None, effect: Effect) -> Handler | None:
    statement: ast.stmt | None = node if isinstance(node, ast.Assert) else None
    if isinstance(node, ast.If) and effect is Effect.RAISE:
        statement = next(
            arm[-1] for arm in (node.body, node.orelse) if arm and isinstance(arm[-1], ast.Raise)
        )
    name = raised_name(statement) if statement is not None else ""
    return handler_of(context, at, name) if name else None


def _caught_hints(handler: str) -> Iterator[str]:
    yield f"Return the condition, and decide {_OUTSIDE}: {handler} catches the exception, and a graph cannot raise it"
    yield "Or compute a value for both cases, and select with torch.where"


def depends_on_random(context: Context, at: Location) -> bool:
    """Whether a statement at `at` branches on a number of `random` or of NumPy."""
    tree = tree_around(context, at)
    node = branch_at(tree, at) if tree is not None else None
    return node is not None and not isinstance(node, ast.BoolOp) and _draws(tree, condition_of(node))


def tests_value(context: Context, at: Location) -> bool:
    """Whether the expression at `at` is a part of the condition of a statement."""
    tree = tree_around(context, at)
    return any(
        isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert))
        and node.test.lineno <= at.line <= (node.test.end_lineno or node.test.lineno)
        and at.column is not None
        and (at.line, at.column) >= (node.test.lineno, node.test.col_offset)
        and (at.end_line or at.line, at.end_column or 0) <= (node.test.end_lineno, node.test.end_col_offset)
        for node in ast.walk(tree or ast.Module([], []))
    )


# What the source says


def effect_of(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Effect:  # noqa: PLR0911 - one return an effect
    """What a branch does, as its statement says."""
    if isinstance(node, ast.Assert):
        return Effect.ASSERT
    if isinstance(node, ast.While):
        return Effect.WHILE
    if isinstance(node, ast.comprehension):
        return Effect.FILTER
    if isinstance(node, ast.BoolOp):
        return Effect.OPERAND
    if not isinstance(node, ast.If):
        return Effect.SELECT
    arms = [arm for arm in (node.body, node.orelse) if arm]
    ends = {type(arm[-1]) for arm in arms}
    if ast.Raise in ends:
        return Effect.RAISE
    if ast.Continue in ends:
        return Effect.CONTINUE
    if ast.Break in ends or (ast.Return in ends and _is_in_loop(node, parents)):
        return Effect.BREAK
    return _effect_of(arms)


def _effect_of(arms: list[list[ast.stmt]]) -> Effect:
    """What the sides of a branch do that neither raise nor leave a loop."""
    # No operator selects a constant that an attribute gets, or None, whatever else the branch computes.
    sets_state = any(_is_constant_state(line) or _returns_constant(line) for arm in arms for line in arm)
    if sets_state or all(map(_has_only_effects, arms)):
        return Effect.CALL
    if any(_called_for_effect(line) for arm in arms for line in arm):
        return Effect.MIXED
    return Effect.CHANGE if any(map(changes_tensors, arms)) else Effect.SELECT


def _called_for_effect(statement: ast.stmt) -> str:
    """What a statement calls whose result is not used, as `self.log`; empty for a change of a tensor in place."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or in_place_call(statement) is not None:
        return ""
    return ast.unparse(call.func)


def _is_in_loop(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    above = parents.get(node)
    while above is not None and not isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        if isinstance(above, (ast.For, ast.While, ast.AsyncFor)):
            return True
        above = parents.get(above)
    return False


def _has_only_effects(arm: list[ast.stmt]) -> bool:
    """Whether all statements call functions for their effects, or set an attribute to a constant.

    A method with a final `_` changes a tensor.
    """
    return all(
        isinstance(statement, ast.Pass)
        or _is_constant_state(statement)
        or (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and not str(getattr(statement.value.func, "attr", "")).endswith("_")
        )
        for statement in arm
    )


def _is_constant_state(statement: ast.stmt) -> bool:
    """Whether an attribute or an entry of a dict gets a constant, or is changed by constants, as a counter is.

    So does a name that gets None or text.
    """
    if not isinstance(statement, (ast.Assign, ast.AugAssign)):
        return False
    value, targets = statement.value, targets_of(statement)
    if all(isinstance(target, ast.Name) for target in targets):
        return _is_no_tensor(value)
    names = {ast.unparse(target) for target in targets}
    return all(map(_is_state, targets)) and _is_of_constants(value, names)


def _is_of_constants(value: ast.expr, names: set[str]) -> bool:
    """Whether a value is computed of constants and the attributes `names` alone, with operators and `min` or `max`."""
    if isinstance(value, ast.BinOp):
        return _is_of_constants(value.left, names) and _is_of_constants(value.right, names)
    if isinstance(value, ast.UnaryOp):
        return _is_of_constants(value.operand, names)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _OF_NUMBERS:
        return not value.keywords and all(_is_of_constants(item, names) for item in value.args)
    return isinstance(value, ast.Constant) or ast.unparse(value) in names


_OF_NUMBERS = frozenset({"min", "max", "abs", "round", "int", "float"})


def _is_state(target: ast.expr) -> bool:
    """Whether a constant is kept there: in an attribute, or under a text as the key of a dict."""
    is_entry = isinstance(target, ast.Subscript) and _is_no_tensor(target.slice)
    return isinstance(target, ast.Attribute) or is_entry


def _returns_constant(statement: ast.stmt) -> bool:
    """Whether the function ends with None or text in place of a tensor; a number may be one side of a select.

    So it does if they are, or a bool is, among what it returns: in a tuple, a list, a dict or an object.
    """
    if not isinstance(statement, ast.Return):
        return False
    value = statement.value
    return value is None or _is_no_tensor(value) or any(map(_is_flag, _parts(value)))


def _is_no_tensor(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not isinstance(value.value, (int, float))


def _is_flag(value: ast.expr) -> bool:
    return _is_no_tensor(value) or (isinstance(value, ast.Constant) and isinstance(value.value, bool))


def _parts(value: ast.expr) -> Iterator[ast.expr]:
    """What a value holds that is written out: elements, values of a dict, arguments of a class."""
    parts: list[ast.expr] = []
    if isinstance(value, (ast.Tuple, ast.List)):
        parts = value.elts
    elif isinstance(value, ast.Dict):
        parts = value.values
    elif isinstance(value, ast.Call) and _is_class(value.func):
        parts = [*value.args, *(keyword.value for keyword in value.keywords)]
    for part in parts:
        yield part
        yield from _parts(part)


def _is_class(func: ast.expr) -> bool:
    """Whether a call makes an object, by the case of its name; `dict(...)`, too."""
    name = ast.unparse(func).rpartition(".")[2]
    return name == "dict" or name[:1].isupper()


_RANDOM_CALL = re.compile(r"(?:random|rng|np\.random|numpy\.random)(?:\.Random\([^()]*\))?\.\w+\(")


def _draws(tree: ast.AST | None, test: ast.AST) -> bool:
    """Whether the condition draws a number with Python or NumPy, itself or in what its names were assigned."""
    if _is_draw(test):
        return True
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    assigned = (
        node.value
        for node in ast.walk(tree or test)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
    )
    return any(map(_is_draw, assigned))


def _is_draw(node: ast.AST) -> bool:
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            name = ast.unparse(call.func)
            if not name.startswith("torch.") and _RANDOM_CALL.match(f"{name}("):
                return True
    return False


# What to do


def _random_hints(effect: Effect) -> tuple[str, ...]:
    if effect in {Effect.BREAK, Effect.CONTINUE, Effect.WHILE}:
        return (
            (
                f"Keep the loop and the draw {_OUTSIDE}, and compile its body: the draw then decides between calls of "
                "compiled code"
            ),
            "Or draw a mask with torch (torch.rand) and multiply what the iteration adds by it",
        )
    decide = (
        f"Draw the number and decide {_OUTSIDE}: pass the decision in as a bool, whose two values are compiled once "
        "each"
    )
    if effect is not Effect.SELECT:
        return (decide,)
    return (decide, "Or draw it with torch.rand(()) and select with torch.where")


_BY_EFFECT = {
    Effect.BREAK: (
        "Run a fixed number of iterations and stop changing finished elements with a mask",
        f"Or keep the loop {_OUTSIDE}: compile its body, and decide between its calls",
    ),
    Effect.CONTINUE: (
        "Run the iteration always, and multiply what it adds by a mask of 0 and 1",
        f"Or keep the loop {_OUTSIDE}: compile its body, and decide between its calls",
    ),
    Effect.WHILE: (
        f"Keep the loop {_OUTSIDE} and compile its body, or run a fixed number of iterations with a mask",
    ),
    Effect.FILTER: (
        f"Keep all elements and mask those that do not count, or choose the elements {_OUTSIDE}",
    ),
    Effect.CALL: (f"Return the condition, and do what depends on it {_OUTSIDE}",),
    Effect.OPERAND: (
        (
            "Combine the conditions with `&` and `|` (torch.logical_and, torch.logical_or): `and` and `or` need the "
            "value of a tensor"
        ),
        "Or change all elements without a condition, as torch.clamp does, and return the tensor",
    ),
}


def _hints(tree: ast.AST | None, node: ast.AST | None, effect: Effect) -> Iterator[str]:
    inside = _returned_from_forward(tree, condition_of(node)) if tree is not None and node is not None else ""
    if node is not None and effect in {Effect.RAISE, Effect.ASSERT}:
        yield (
            f"Check it in the graph with {_assertion(node)}, which raises RuntimeError, on a GPU later than this line; "
            "or check the result after the call"
        )
    elif inside and effect is Effect.CALL:
        yield inside
    elif isinstance(node, ast.If) and effect is Effect.MIXED:
        names = (_called_for_effect(line) for line in (*node.body, *node.orelse))
        name = next(filter(None, names), "")
        called = f"call `{name}`" if len(name) <= _LONGEST_CONDITION else "make its other calls"
        yield f"Select the values with torch.where, return the condition, and {called} by it {_OUTSIDE}"
    elif isinstance(node, ast.If) and effect is Effect.CHANGE:
        decided = _decided(tree, node)
        if change := selected_change(node, _short(node.test) or "condition"):
            yield f"Make the change in each call, by what torch.where selects, as {change}"
            yield f"Or {decided}"
        else:
            yield f"{decided[0].upper()}{decided[1:]}"
    elif isinstance(node, ast.BoolOp) and any(map(is_decided_by_python, operands_of(node))):
        yield f"Test {_first_of_python(node)} in an `if` before it: `and` and `or` then need no value of a tensor"
    elif effect in _BY_EFFECT:
        yield from _BY_EFFECT[effect]
    elif node is None:
        yield SELECT
    elif not inside and isinstance(node, ast.If) and _returns_a_part(tree, node):
        decided = _decided(tree, node)
        yield f"{decided[0].upper()}{decided[1:]}: torch.where needs sides of one shape"
    else:
        yield _BOTH_SIDES if inside else f"{_BOTH_SIDES}, or {_decided(tree, node)}"


def _returns_a_part(tree: ast.AST | None, node: ast.If) -> bool:
    """Whether a side returns a slice to a fixed end, as `boxes[:0]`, and another return of the function does not."""
    nodes = ast.walk(tree) if tree is not None else ()
    returned = [item.value for item in nodes if isinstance(item, ast.Return) and item.value is not None]
    parts = [ast.unparse(value) for value in returned if _is_part(value)]
    ends = (arm[-1] for arm in (node.body, node.orelse) if arm)
    is_side = any(
        isinstance(end, ast.Return) and end.value is not None and _is_part(end.value) for end in ends
    )
    return is_side and (len(parts) < len(returned) or len(set(parts)) > 1)


def _is_part(value: ast.expr) -> bool:
    part = value.slice if isinstance(value, ast.Subscript) else None
    return isinstance(part, ast.Slice) and part.lower is None and isinstance(part.upper, ast.Constant)


def _decided(tree: ast.AST | None, node: ast.AST) -> str:
    return _RETURNED if is_computed(tree, condition_of(node)) else _PASSED_IN


def _first_of_python(node: ast.BoolOp) -> str:
    return f"`{ast.unparse(next(filter(is_decided_by_python, operands_of(node))))}`"


def _returned_from_forward(tree: ast.AST, condition: ast.AST) -> str:
    """How a condition in the forward of an autograd function gets out of compiled code; empty for other functions.

    What such a forward returns is an output, for which backward gets a gradient.
    """
    function = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)), None)
    if (
        function is None
        or function.name != "forward"
        or [item.arg for item in function.args.args][:1] != ["ctx"]
    ):
        return ""
    if is_computed(tree, condition):
        return (
            "Return the condition as one more output of `forward`, marked with ctx.mark_non_differentiable "
            f"(`backward` then gets one more argument), and do what depends on it {_OUTSIDE}"
        )
    return (
        "Compute the condition where `apply` is called, as each value that `forward` returns is an output with a "
        f"gradient; return it from there, and do what depends on it {_OUTSIDE}"
    )


def _assertion(node: ast.AST) -> str:
    """The assert of the graph in the place of the statement, with its own condition where that is short."""
    message, must_hold = '"message"', "condition"
    if isinstance(node, ast.Assert):
        must_hold, message = _as_tensor(node.test) or must_hold, _constant(node.msg) or message
    elif isinstance(node, ast.If):
        is_positive = not isinstance(node.body[-1], ast.Raise)
        raised = node.orelse[-1] if is_positive else node.body[-1]
        argument = _first_argument(raised)
        must_hold = (_as_tensor(node.test) if is_positive else _negated(node.test)) or must_hold
        message = _constant(argument) or message
    return f"torch._assert_async({must_hold}, {message})"


def _first_argument(statement: ast.stmt) -> ast.expr | None:
    exception = statement.exc if isinstance(statement, ast.Raise) else None
    return exception.args[0] if isinstance(exception, ast.Call) and exception.args else None


def _as_tensor(test: ast.expr) -> str:
    """The condition as code whose value is a tensor: `not` makes a bool of one, and breaks the graph again."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _negated(test.operand) if _short(test.operand) else ""
    return _short(test)


def _negated(test: ast.expr) -> str:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _as_tensor(test.operand)
    text = _short(test)
    if not text:
        return "~condition"
    return f"~{text}" if isinstance(test, ast.Call) else f"~({text})"


def _short(test: ast.expr) -> str:
    """The condition as code; empty for a long one, and for one that is not a single tensor."""
    if any(isinstance(node, (ast.BoolOp, ast.IfExp, ast.Not)) for node in ast.walk(test)):
        return ""
    text = ast.unparse(test)
    return text if len(text) <= _LONGEST_CONDITION else ""


def _constant(node: ast.expr | None) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return ""
    return json.dumps(node.value, ensure_ascii=False)
