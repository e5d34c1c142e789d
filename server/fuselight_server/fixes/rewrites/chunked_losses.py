"""The cross entropy of logits that a layer computes, for a part of the tokens at a time.

Invariant: nothing but the loss reads the logits, and the loss is a mean over tokens: the sum of the parts is then
that of the whole, up to rounding. Each part is checkpointed, so that the logits of one part alone exist at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

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


@dataclass
class _Shape:
    """What is done with logits before the loss reads them."""

    is_float: bool = False
    """Whether they are converted to float32."""
    slices: list[cst.Subscript] = field(default_factory=list)
    """Which tokens are taken, the last first."""

    def sliced(self, value: cst.BaseExpression) -> cst.BaseExpression:
        """The same tokens of another value."""
        return functools.reduce(
            lambda whole, part: part.with_changes(value=whole), reversed(self.slices), value
        )


@dataclass(frozen=True)
class _Loss:
    """A cross entropy, and what computes its logits."""

    call: cst.Call
    head: cst.Call
    """The call of the layer."""
    statements: tuple[cst.CSTNode, ...]
    """`logits = head(hidden)`, and `shifted = logits[:, :-1]`, which go."""
    shape: _Shape
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
    shape, labels = _Shape(), _Shape()
    core, statements = _computed(tree, call, _core(logits, shape), shape)
    if not isinstance(core, cst.Call) or len(core.args) != 1 or core.args[0].keyword or core.args[0].star:
        return None
    if not isinstance(core.func, (cst.Name, cst.Attribute)) or not _is_module(core.func):
        return None
    target = labels.sliced(_core(target, labels))
    return _Loss(call, core, statements, shape, target, named.get("ignore_index"))


def _computed(
    tree: FileTree, call: cst.Call, core: cst.BaseExpression, shape: _Shape
) -> tuple[cst.BaseExpression | None, tuple[cst.CSTNode, ...]]:
    """What computes the logits, and the statements up to the loss; None where something else reads one of them."""
    statements: list[cst.CSTNode] = []
    reader: cst.CSTNode = call
    while isinstance(core, cst.Name):
        assigned = _assignment(tree, reader, core)
        if assigned is None:
            return None, ()
        statement, assign = assigned
        statements.append(statement)
        reader, core = assign, _core(assign.value, shape)
        if _rebinds(tree, call, core, statement):
            return None, ()
    return core, tuple(statements)


def _is_module(func: cst.BaseExpression) -> bool:
    """Whether what is called is an attribute of `self`, as a layer is."""
    return isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.value.value == "self"


def _core(node: cst.BaseExpression, shape: _Shape) -> cst.BaseExpression:
    """An expression without what changes its shape or its dtype, which is noted."""
    while True:
        if isinstance(node, cst.Subscript) and _takes_tokens(node):
            shape.slices.append(node)
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            name = node.func.attr.value
            is_float = name == "float" and not node.args
            if not is_float and name not in _SHAPES:
                return node
            shape.is_float = shape.is_float or is_float
            node = node.func.value
        else:
            return node


def _takes_tokens(node: cst.Subscript) -> bool:
    """Whether a subscript takes a part of the tokens, with all their logits: `[:, :-1]`, `[..., :-1, :]`."""
    parts = [element.slice for element in node.slice]
    is_plain = all(
        isinstance(part, cst.Slice) or (isinstance(part, cst.Index) and isinstance(part.value, cst.Ellipsis))
        for part in parts
    )
    last = parts[-1]
    is_whole = isinstance(last, cst.Slice) and last.lower is None and last.upper is None and last.step is None
    return is_plain and (is_whole or (len(parts) == 2 and isinstance(parts[0], cst.Slice)))  # noqa: PLR2004


def _assignment(
    tree: FileTree, reader: cst.CSTNode, name: cst.Name
) -> tuple[cst.SimpleStatementLine, cst.Assign] | None:
    """The one statement that computes what `reader` alone reads; None otherwise."""
    function = tree.function(reader)
    if function is None:
        return None
    bound = [node for node in tree.stores(name.value) if tree.function(node) is function]
    inside = {id(node) for node in descendants(reader)}
    if len(bound) != 1 or any(id(read) not in inside for read in tree.loads(function, name.value)):
        return None
    statement, later = tree.line_of(bound[0]), tree.line_of(reader)
    assign = statement.body[0] if statement is not None else None
    if (
        statement is None
        or not isinstance(assign, cst.Assign)
        or len(assign.targets) != 1
        or not isinstance(assign.targets[0].target, cst.Name)
        or later is None
        or not tree.is_before(statement, later)
    ):
        return None
    return statement, assign


def _rebinds(tree: FileTree, call: cst.CSTNode, core: cst.CSTNode, after: cst.CSTNode) -> bool:
    """Whether a name of the call is bound again after it, so that it would be another value at the loss."""
    return any(
        tree.function(store) is tree.function(call) and tree.is_before(after, store)
        for name in tree.names_read(core)
        for store in tree.stores(name)
    )


def _chunked(tree: FileTree, loss: _Loss, decorators: tuple[str, ...]) -> str | None:
    """The new text: the helper after the imports, and its call in place of the loss."""
    if _HELPER in tree.source or tree.torch not in {"", "torch"}:
        return None
    head = tree.code(loss.head.func)
    if loss.shape.is_float:
        head = f"lambda rows: {head}(rows).float()"
    values = (loss.shape.sliced(loss.head.args[0].value), loss.target)
    parts = [head, *(cst.Module([]).code_for_node(value) for value in values)]
    if loss.ignore_index is not None:
        parts.append(f"ignore_index={tree.code(loss.ignore_index)}")
    replaced = cst.parse_expression(f"{_HELPER}({', '.join(parts)})")
    changes: dict[cst.CSTNode, Change] = {loss.call: lambda _: replaced}
    changes |= dict.fromkeys(loss.statements, lambda _: cst.RemoveFromParent())
    new = tree.changed(changes)
    return (
        insert_statements(tree.path, new, ("import torch.utils.checkpoint", "", "", *decorators, *_LINES))
        if new
        else None
    )
