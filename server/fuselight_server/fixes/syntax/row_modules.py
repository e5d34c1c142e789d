"""Modules that compute each row by itself: the last dimension of their input, the same for every row.

Invariant: what is not known to go row by row does not. A module is known by the class of torch.nn that `__init__`
assigns, or by a class of the same file whose `forward` consists of such modules and of functions of single elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from fuselight.shared.report import FactKind
from fuselight_server.fixes.syntax.definitions import class_of
from fuselight_server.fixes.syntax.purity import is_elementwise_call, is_in_place, is_made_of
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.traced_names import values_of
from fuselight_server.fixes.syntax.tree import descendants, dotted

_ROW_WISE = frozenset(
    """
    Linear LayerNorm RMSNorm Identity ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Tanh Sigmoid Softplus Softsign
    Hardtanh Hardswish Hardsigmoid LogSigmoid
    """.split()  # noqa: SIM905 - a table of words
)
_DEEPEST = 4
"""Modules in modules that are looked at."""


def is_row_wise(site: Site, node: cst.BaseExpression) -> bool:
    """Whether each row of the result depends on the rows at its index only, subscripts excluded."""
    owner = next((ancestor for ancestor in site.ancestors(node) if isinstance(ancestor, cst.ClassDef)), None)
    return is_made_of(
        node, lambda call: is_elementwise_call(site, call) or _is_row_wise_call(site, owner, call, 0)
    )


def is_row_wise_module(site: Site, call: cst.Call) -> bool:
    """Whether it calls a module of the class that computes each row by itself, and keeps no state."""
    seen = values_of(site, call.func)
    if seen and all(value.kind is FactKind.MODULE and value.text in _ROW_WISE for value in seen):
        return True
    owner = next((ancestor for ancestor in site.ancestors(call) if isinstance(ancestor, cst.ClassDef)), None)
    return _is_row_wise_call(site, owner, call, 0)


def _is_row_wise_call(site: Site, owner: cst.ClassDef | None, call: cst.Call, depth: int) -> bool:
    """Whether it calls a module of the class with one argument."""
    owner_name, _, attribute = dotted(call.func).partition(".")
    argument = call.args[0] if len(call.args) == 1 else None
    if owner is None or owner_name != "self" or argument is None or argument.star or argument.keyword:
        return False
    expressions = [
        descendant.value
        for descendant in descendants(owner.body)
        if isinstance(descendant, cst.Assign)
        and any(dotted(target.target) == f"self.{attribute}" for target in descendant.targets)
    ]
    return (
        len(expressions) == 1 and not _writes(expressions[0]) and _makes_row_wise(site, expressions[0], depth)
    )


def _writes(node: cst.BaseExpression) -> bool:
    """Whether a module may write into its argument. In a sequence, those after a layer write into its result."""
    if not isinstance(node, cst.Call) or dotted(node.func).rpartition(".")[2] != "Sequential":
        return isinstance(node, cst.Call) and is_in_place(node)
    for part in node.args:
        name = dotted(part.value.func).rpartition(".")[2] if isinstance(part.value, cst.Call) else ""
        if name in _NEW_RESULT:
            return False
        if _writes(part.value):
            return True
    return False


_NEW_RESULT = frozenset({"Linear", "LayerNorm", "RMSNorm"})


def _makes_row_wise(site: Site, node: cst.BaseExpression, depth: int) -> bool:
    """Whether `nn.Linear(4, 4)`, `nn.Sequential(...)` or `Mlp(4)` is such a module."""
    if not isinstance(node, cst.Call) or depth > _DEEPEST:
        return False
    path = dotted(node.func)
    name = path.rpartition(".")[2]
    if path in {f"nn.{name}", f"{site.torch}.nn.{name}"}:
        parts = node.args
        if name == "Sequential":
            return all(
                not argument.star and _makes_row_wise(site, argument.value, depth + 1) for argument in parts
            )
        if name in {"LayerNorm", "RMSNorm"}:  # over more than one dimension it is no longer by row
            return bool(parts) and not isinstance(parts[0].value, (cst.List, cst.Tuple))
        return name in _ROW_WISE
    there = class_of(site, path) if path.isidentifier() else None
    return there is not None and _is_row_wise_class(*there, depth + 1)


def _is_row_wise_class(site: Site, node: cst.ClassDef, depth: int) -> bool:
    """Whether the class's `forward` only assigns and returns what goes row by row."""
    is_module = len(node.bases) == 1 and dotted(node.bases[0].value).rpartition(".")[2] == "Module"
    methods = [statement for statement in node.body.body if isinstance(statement, cst.FunctionDef)]
    forward = next((method for method in methods if method.name.value == "forward"), None)
    if not is_module or forward is None or forward.decorators or len(forward.params.params) != _SELF_AND_ROWS:
        return False
    if {method.name.value for method in methods} - {"forward", "__init__"}:
        return False
    statements = forward.body.body
    return all(
        isinstance(line, cst.SimpleStatementLine) and _keeps_rows(site, node, line.body, depth)
        for line in statements
    )


_SELF_AND_ROWS = 2


def _keeps_rows(
    site: Site, owner: cst.ClassDef, statements: Sequence[cst.BaseSmallStatement], depth: int
) -> bool:
    def accepts(call: cst.Call) -> bool:
        return is_elementwise_call(site, call) or _is_row_wise_call(site, owner, call, depth)

    for statement in statements:
        if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.SimpleString):
            continue
        if isinstance(statement, cst.Assign):
            if not all(isinstance(target.target, cst.Name) for target in statement.targets):
                return False
        elif not isinstance(statement, cst.Return):
            return False
        value = statement.value
        if value is None or any(isinstance(part, cst.Subscript) for part in descendants(value)):
            return False
        if not is_made_of(value, accepts):
            return False
    return True
