"""A list of numbers that a number selects from, as in `self.alphas[self.step]`: one tensor of its values may cure.

torch takes each number that it reads from a list as a constant, and so its place in the list. Invariant: data alone;
whether the tensor helps, and leaves the results as they are, its trial says.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fuselight.shared.report import CallCure, CureKind, GuardCause, GuardFailure, Recompile
from fuselight_server.explain.findings.advice.advice import TriedAdvice
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import tree_around
from fuselight_server.explain.findings.common.text import quoted

_LAST = re.compile(r"\.(?P<name>\w+)$|\['(?P<key>\w+)'\]$")
_COST = "A float32 tensor rounds its values; torch.tensor(..., dtype=torch.float64) keeps them"


def table_changes(context: Context, recompilation: Recompile, failure: GuardFailure) -> Iterator[TriedAdvice]:
    """The changes of the lists from which the number of a failed guard selects on the line that reads it."""
    read = context.innermost_user_frame(failure.born) if failure.cause is GuardCause.NUMBER else None
    tree = tree_around(context, read) if read is not None else None
    if tree is None:
        return
    place, expression = recompilation.location, failure.expression or failure.source
    compiles = context.compiles_of(recompilation.function, place)
    tensors = {guard.source for item in compiles for guard in item.guards if guard.kind == "TENSOR_MATCH"}
    for name in dict.fromkeys(_tables(tree, failure.source)):
        subject = _reached_as(name, failure.source, expression)
        if subject and not tensors.intersection((name, _reached_as(name, failure.source, failure.source))):
            text = f"Keep {quoted(name)} as one tensor, torch.tensor({name})"
            yield TriedAdvice(
                text,
                CallCure(CureKind.STACK, place.path, place.line, (subject,)),
                _COST,
                needs_trial=True,
                is_doubtful=True,
            )


def _tables(tree: ast.Module, number: str) -> Iterator[str]:
    """The containers of which an element is read by the number, or by a sum with it, under its name in the code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            index = node.slice.left if isinstance(node.slice, ast.BinOp) else node.slice
            if isinstance(index, (ast.Name, ast.Attribute)) and _last(ast.unparse(index)) == _last(number):
                yield ast.unparse(node.value)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _reached_as(table: str, number: str, expression: str) -> str:
    """The container in torch's terms: it is reached as the number is, `self.alphas` next to `self.step`.

    A local variable, as an argument of the compiled function, is one of the call's.
    """
    root, _, rest = table.partition(".")
    match = _LAST.search(expression)
    if root == "self" and rest and "." in number and match is not None:
        return f"{expression[: match.start()]}.{rest}"
    return f"L['{root}']" if not rest and root.isidentifier() else ""
