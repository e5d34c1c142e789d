"""What to do where compiled code fills a cache of its own: `if self.mask is None: self.mask = ...`.

Invariant: the source shows the `if` that reads the guarded attribute and sets it. Nothing moves it for a trial.
"""

from __future__ import annotations

import ast

from fuselight.shared.report import GuardCause, GuardFailure
from fuselight_server.base.formatting import format_list
from fuselight_server.explain.findings.advice.expectations import NOT_TRIED
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import tree_around

_CAUSES = frozenset({GuardCause.NONE, GuardCause.VALUE, GuardCause.NUMBER, GuardCause.MISSING})


def of_filled_cache(context: Context, failure: GuardFailure) -> tuple[str, ...]:
    """The advice to fill the cache before the call; nothing where no `if` reads and sets the value."""
    home = context.reading_frame(failure.born) if failure.cause in _CAUSES else None
    tree = tree_around(context, home) if home is not None else None
    if home is None or tree is None:
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and node.lineno <= home.line <= (node.test.end_lineno or node.lineno):
            names = _attributes_set(node)
            is_read = failure.source in names and failure.source in _attributes_read(node.test)
            if is_read and not _needs_the_call(tree, node):
                shown = format_list([f"`{name}`" for name in names])
                text = (
                    f"Run the `if` on line {node.lineno}, which sets {shown}, outside the compiled code, before the "
                    f"call: code that sets what it reads is compiled for each state that it leaves. {NOT_TRIED}"
                )
                return (text,)
    return ()


def _needs_the_call(tree: ast.Module, branch: ast.If) -> bool:
    """Whether an `if` returns a result, or reads an attribute that the function sets outside of it."""
    inside = set(ast.walk(branch))
    others = (node for node in ast.walk(tree) if node not in inside and isinstance(node, ast.Attribute))
    stored = {ast.unparse(node) for node in others if isinstance(node.ctx, ast.Store)}
    return any(isinstance(node, ast.Return) for node in inside) or not stored.isdisjoint(
        _attributes_read(branch)
    )


def _attributes_set(node: ast.If) -> tuple[str, ...]:
    """The attributes that the body of an `if` sets, in their order."""
    targets = (
        target
        for statement in node.body
        for part in ast.walk(statement)
        if isinstance(part, ast.Assign)
        for target in part.targets
    )
    return tuple(
        dict.fromkeys(ast.unparse(target) for target in targets if isinstance(target, ast.Attribute))
    )


def _attributes_read(test: ast.AST) -> set[str]:
    return {ast.unparse(part) for part in ast.walk(test) if isinstance(part, ast.Attribute)}
