"""The cross entropy of logits that a layer computes, for a part of the tokens at a time.

Invariant: nothing but the loss reads the logits, and the loss is a mean over tokens: the sum of the parts is then
that of the whole, up to rounding. Each part is checkpointed, so that the logits of one part alone exist at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from fuselight.shared.report import EditKind
from fuselight_server.fixes.rewrites.memory_edit import MemoryEdit, full_name, imports_of, ordered_calls
from fuselight_server.fixes.syntax.file_chunks import insert_statements
from fuselight_server.fixes.syntax.file_tree import Change, FileTree
from fuselight_server.fixes.syntax.tree import descendants

CHUNKS = 8
_LOSS = "torch.nn.functional.cross_entropy"
_SHAPES = frozenset({"view", "reshape", "flatten", "contiguous"})
"""Methods that make rows of tokens of logits, and one row of targets."""
_HELPER = "_chunked_cross_entropy"
_DISABLE = "@torch.compiler.disable"
_LINES = (
    f"def {_HELPER}(head, hidden, target, ignore_index=-100, chunks={CHUNKS}):",
    '    """The mean cross entropy of `head(hidden)`: the logits of one of the chunks exist at a time."""',
    "",
    "    def sum_of(rows, labels):",
    "        return torch.nn.functional.cross_entropy(",
    '            head(rows), labels, ignore_index=ignore_index, reduction="sum"',
    "        )",
    "",
    "    hidden, target = hidden.flatten(0, -2), target.flatten()",
    "    total = 0",
    "    for rows, labels in zip(hidden.chunk(chunks), target.chunk(chunks)):",
    "        total = total + torch.utils.checkpoint.checkpoint(sum_of, rows, labels, use_reentrant=False)",
    "    return total / (target != ignore_index).sum()",
    "",
)


@dataclass(frozen=True)
class _Loss:
    """A cross entropy, and what computes its logits."""

    call: cst.Call
    head: cst.Call
    """The call of the layer."""
    statement: cst.SimpleStatementLine | None
    """`logits = head(hidden)`, which goes; None where the call is an argument of the loss."""
    is_float: bool
    """Whether the logits are converted to float32."""
    target: cst.BaseExpression
    ignore_index: cst.BaseExpression | None


def chunked_losses(tree: FileTree) -> Iterator[MemoryEdit]:
    """Each cross entropy of a file whose logits nothing else reads: compiled, and in eager mode.

    The compiler may compute all parts again before it needs the first one: then all logits exist at once.
    """
    imports = imports_of(tree.path, tree.source)
    for node in ordered_calls(tree):
        if full_name(imports, node.func) == _LOSS:
            loss = _loss(tree, node)
            for decorators, form in ((), ""), ((_DISABLE,), ", and not compiled"):
                new = _chunked(tree, loss, decorators) if loss is not None else None
                if new is not None:
                    title = f"the cross entropy of {CHUNKS} parts of the tokens, one after the other{form}"
                    yield MemoryEdit(EditKind.CHUNKED_LOSS, title, tree.path, tree.line(node), new)


def _loss(tree: FileTree, call: cst.Call) -> _Loss | None:
    named = {item.keyword.value: item.value for item in call.args if item.keyword is not None}
    plain = [item.value for item in call.args if item.keyword is None]
    if any(item.star for item in call.args) or named.keys() - {"input", "target", "ignore_index"}:
        return None
    logits = named.get("input") or next(iter(plain), None)
    target = named.get("target") or next(iter(plain[1:] if "input" not in named else plain), None)
    if logits is None or target is None or len(plain) + len(named.keys() - {"ignore_index"}) != 2:  # noqa: PLR2004
        return None
    core: cst.BaseExpression | None
    core, is_float = _core(logits)
    statement = None
    if isinstance(core, cst.Name):
        statement, core, was_float = _assignment(tree, call, core)
        is_float = is_float or was_float
    if not isinstance(core, cst.Call) or len(core.args) != 1 or core.args[0].keyword or core.args[0].star:
        return None
    if not isinstance(core.func, (cst.Name, cst.Attribute)) or not _is_module(core.func):
        return None
    return _Loss(call, core, statement, is_float, _core(target)[0], named.get("ignore_index"))


def _is_module(func: cst.BaseExpression) -> bool:
    """Whether what is called is an attribute of `self`, as a layer is."""
    return isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.value.value == "self"


def _core(node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool]:
    """An expression without what changes its shape, and whether it is converted to float32."""
    is_float = False
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        name = node.func.attr.value
        if name == "float" and not node.args:
            is_float = True
        elif name not in _SHAPES:
            break
        node = node.func.value
    return node, is_float


def _assignment(
    tree: FileTree, call: cst.Call, name: cst.Name
) -> tuple[cst.SimpleStatementLine | None, cst.BaseExpression | None, bool]:
    """The one statement that computes the logits, if they are read within the loss alone; None otherwise."""
    function = tree.function(call)
    if function is None:
        return None, None, False
    bound = [node for node in tree.stores(name.value) if tree.function(node) is function]
    inside = {id(node) for node in descendants(call)}
    if len(bound) != 1 or any(id(read) not in inside for read in tree.loads(function, name.value)):
        return None, None, False
    statement = tree.line_of(bound[0])
    assign = statement.body[0] if statement is not None else None
    loss_line = tree.line_of(call)
    if (
        statement is None
        or not isinstance(assign, cst.Assign)
        or len(assign.targets) != 1
        or not isinstance(assign.targets[0].target, cst.Name)
        or loss_line is None
        or not tree.is_before(statement, loss_line)
    ):
        return None, None, False
    core, is_float = _core(assign.value)
    if core is None or _rebinds(tree, function, core, statement):
        return None, None, False
    return statement, core, is_float


def _rebinds(tree: FileTree, function: cst.FunctionDef, core: cst.CSTNode, after: cst.CSTNode) -> bool:
    """Whether a name of the call is bound again after it, so that it would be another value at the loss."""
    return any(
        tree.function(store) is function and tree.is_before(after, store)
        for name in tree.names_read(core)
        for store in tree.stores(name)
    )


def _chunked(tree: FileTree, loss: _Loss, decorators: tuple[str, ...]) -> str | None:
    """The new text: the helper after the imports, and its call in place of the loss."""
    if _HELPER in tree.source or tree.torch not in {"", "torch"}:
        return None
    head = tree.code(loss.head.func)
    if loss.is_float:
        head = f"lambda rows: {head}(rows).float()"
    parts = [head, tree.code(loss.head.args[0].value), tree.code(loss.target)]
    if loss.ignore_index is not None:
        parts.append(f"ignore_index={tree.code(loss.ignore_index)}")
    replaced = cst.parse_expression(f"{_HELPER}({', '.join(parts)})")
    changes: dict[cst.CSTNode, Change] = {loss.call: lambda _: replaced}
    if loss.statement is not None:
        changes[loss.statement] = lambda _: cst.RemoveFromParent()
    new = tree.changed(changes)
    return (
        insert_statements(tree.path, new, ("import torch.utils.checkpoint", "", "", *decorators, *_LINES))
        if new
        else None
    )
