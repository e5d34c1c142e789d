"""Hooks of modules: what one returns replaces an input or the output, so no advice says to return a value."""

from __future__ import annotations

import ast
import re

from fuselight.shared.report import Location
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import tree_around

HOOK_STEP = (
    "Store the value as a tensor under one name, as an attribute or an entry of a dict, and do the rest after the "
    "call, outside the compiled code: what a hook returns takes the place of a value of the program"
)
_RETURNS = re.compile(r"(?:Or )?return |.+: return ", re.IGNORECASE)
_OR_RETURN = re.compile(r",? or return the condition and decide outside the compiled code")


def for_hook(context: Context, at: Location | None, steps: tuple[str, ...]) -> tuple[str, ...]:
    """The steps for a line at `at`; in a hook, with one that stores the value instead of those that return it."""
    if at is None or not any("return " in step.lower() for step in steps) or not _is_hook(context, at):
        return steps
    kept = tuple(_OR_RETURN.sub("", step) for step in steps if not _RETURNS.match(step))
    return (*kept, HOOK_STEP) if any(map(_OR_RETURN.search, steps)) else (HOOK_STEP, *kept)


def _is_hook(context: Context, at: Location) -> bool:
    """Whether the file registers the function at `at` as a hook, or an object of the class whose `__call__` it is."""
    tree, text = tree_around(context, at), context.text_of(at.path)
    defined = ast.walk(tree) if tree is not None else ()
    hook = next((node.name for node in defined if isinstance(node, ast.FunctionDef)), "")
    owner = context.qualified_name(at).rpartition(".")[0].rpartition(".")[2]
    if hook == "__call__" and owner:
        creation = rf"{re.escape(owner)}\("
        names = re.findall(rf"([^\W\d][\w.]*)\s*=\s*{creation}", text)
        hook = f"(?:{'|'.join((creation, *(rf'{re.escape(name)}[ ,)]' for name in names)))})"
    else:
        hook = rf"{re.escape(hook)}\s*[,)]"
    registered = rf"\.register_\w*hook\w*\(\s*(?:[\w.]+\.)?{hook}"
    return tree is not None and re.search(registered, text) is not None
