"""Functions of which others decide what they get and return, as hooks: advice to return or to pass one value more.

Such advice breaks a program without an exception: what a forward hook returns takes the place of the output, without
its gradient. Invariant: a role is said only of what a traced stack or the file of the function shows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from fuselight.shared.foreign_data import try_parse_python
from fuselight.shared.report import Location, Stack
from fuselight_server.explain.findings.common.context import Context, is_machinery
from fuselight_server.explain.findings.common.source_tree import decorated_around, tree_around
from fuselight_server.explain.findings.common.state_writes import last_name

_STORED = (
    "Store the value as a tensor under one name, as an attribute or an entry of a dict, and do the rest after the "
    "call, outside the compiled code"
)
_RETURNS = re.compile(r"(?:Or )?return |.+: return |.+ assign what it returns", re.IGNORECASE)
_OR_RETURN = re.compile(r",? or return the condition and decide outside the compiled code")
_PASSES = re.compile(r"\bpass (?:.{1,100} )?in\b|\bpass .{1,100} as (?:an argument|a tensor)")
_HOOK_CALL = re.compile(r"\bhook\(")
"""How torch calls a hook of a module."""
_REGISTER = re.compile(r"register_\w*hook")
_DROPPED = frozenset(
    {"__init__", "__post_init__", "__setattr__", "__delattr__", "__setitem__", "__delitem__", "__exit__"}
)
"""Methods whose result nothing gets."""
_FREE = frozenset({"__call__", "__getitem__", "__enter__"})
"""Methods that return what their callers ask for."""


class _Role(NamedTuple):
    """What a function has to return."""

    step: str
    """In the place of advice to return something."""
    name: str = ""
    """The function as a sentence names it, if others decide what it gets, too."""


def for_role(
    context: Context, at: Location | None, steps: tuple[str, ...], stack: Stack = ()
) -> tuple[str, ...]:
    """The steps for a line at `at`, the end of a traced `stack`, without what the role of its function forbids."""
    returned = [step for step in steps if _RETURNS.match(step) or _OR_RETURN.search(step)]
    if at is None or not (returned or any(map(_PASSES.search, steps))):
        return steps
    caller = _caller(at, stack)
    if caller is not None and caller.path.endswith("eager_transforms.py"):
        return tuple(f"{step}. {_AUXILIARY}" if _RETURNS.match(step) else step for step in steps)
    role = _role(context, at, caller)
    if role is None:
        return steps
    kept = tuple(
        f"{step}. {_FIXED.format(role.name)}" if role.name and _PASSES.search(step) else step
        for step in (_OR_RETURN.sub("", step) for step in steps if not _RETURNS.match(step))
    )
    if not returned:
        return kept
    return (*kept, role.step) if any(map(_OR_RETURN.search, steps)) else (role.step, *kept)


_AUXILIARY = "torch.func differentiates what this function returns: return a pair, and pass has_aux=True"
_FIXED = (
    "{} gets no argument of yours: set the value as an attribute before the call, as a tensor if it varies"
)


def _caller(at: Location, stack: Stack) -> Location | None:
    """The line that calls the function at `at`, by a traced stack; None where that has no such line."""
    frames = [frame for frame in stack if not is_machinery(frame.path)]
    own = next((index for index in reversed(range(len(frames))) if frames[index] == at), 0)
    return frames[own - 1] if own else None


def _role(context: Context, at: Location, caller: Location | None) -> _Role | None:
    """The role of the function at `at`; None for one whose callers take what it returns."""
    if _is_hook(context, at, caller):
        return _Role(f"{_STORED}: what a hook returns takes the place of a value of the program", "A hook")
    tree = tree_around(context, at)
    function = next((node for node in ast.walk(tree or ast.Module([], [])) if isinstance(node, _DEFS)), None)
    if function is None:
        return None
    name = function.name
    if (
        name in {"forward", "backward"}
        and decorated_around(context, at, frozenset({"staticmethod"})) is not None
    ):
        return _Role(_OUTPUT_STEP) if name == "forward" else _Role(_GRADIENT_STEP, "`backward`")
    if decorated_around(context, at, frozenset({"setter"})) is not None or name in _DROPPED:
        return _Role(f"{_STORED}: nothing gets what `{name}` returns", f"`{name}`" * (name != "__init__"))
    is_property = decorated_around(context, at, frozenset({"property", "cached_property"})) is not None
    if is_property or (name.startswith("__") and name.endswith("__") and name not in _FREE):
        return _Role(
            f"{_STORED}: what `{name}` returns is the value of an expression that calls it", f"`{name}`"
        )
    return _Role(f"{_STORED}: a loop gets what `{name}` yields") if _yields(function) else None


_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OUTPUT_STEP = (
    "Return it as one more output of `forward`, marked with ctx.mark_non_differentiable (`backward` then gets one more "
    "argument), and do the rest outside the compiled code: what `forward` returns are the outputs, with gradients"
)
_GRADIENT_STEP = (
    "Do this with the gradient outside the compiled code, as in a hook that `register_hook` puts there on a result of "
    "the call: what `backward` returns are the gradients of the inputs"
)


def _yields(function: ast.AST) -> bool:
    """Whether a function is a generator, without the functions in it."""
    return any(
        isinstance(node, (ast.Yield, ast.YieldFrom)) or _yields(node)
        for node in ast.iter_child_nodes(function)
        if not isinstance(node, (*_DEFS, ast.Lambda))
    )


def _is_hook(context: Context, at: Location, caller: Location | None) -> bool:
    """Whether torch calls the function at `at` as a hook, or its file registers it, or what makes it, as one."""
    if caller is not None and caller.path.replace("\\", "/").endswith("torch/nn/modules/module.py"):
        return _HOOK_CALL.search(context.source(caller) or "") is not None
    tree = try_parse_python(context.text_of(at.path))
    is_lambda = at.function == "<lambda>"
    names = set(_names_of(context, tree, at)) if tree is not None and not is_lambda else set()
    return any(
        isinstance(node, ast.Call)
        and bool(node.args)
        and isinstance(node.func, ast.Attribute)
        and _REGISTER.fullmatch(node.func.attr) is not None
        and any(
            _holds(part, at) if is_lambda and isinstance(part, ast.Lambda) else last_name(part) in names
            for part in ast.walk(node.args[0])
        )
        for node in ast.walk(tree or ast.Module([], []))
    )


def _names_of(context: Context, tree: ast.Module, at: Location) -> Iterator[str]:
    """The names under which a file may register the function at `at`: its own, that of its maker, or of its object."""
    around = [node for node in ast.walk(tree) if isinstance(node, _DEFS) and _holds(node, at)]
    if not around or around[-1].name != "__call__":
        yield from (node.name for node in around)
        return
    owner = context.qualified_name(at).rpartition(".")[0].rpartition(".")[2]
    yield owner
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            yield from map(last_name, node.targets if last_name(node.value.func) == owner else ())


def _holds(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, at: Location) -> bool:
    return node.lineno <= at.line <= (node.end_lineno or node.lineno)
