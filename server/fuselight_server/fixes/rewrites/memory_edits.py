"""Changes of the source that may need less memory: `memory` tries each of them, and shows those that do.

Invariant: an edit is a proposal. Whether the peak falls, and whether results are the same, is for those who try it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from fuselight.shared.report import EditKind, Location
from fuselight_server.fixes.rewrites.chunked_losses import chunked_losses
from fuselight_server.fixes.rewrites.in_place_activations import in_place_activations
from fuselight_server.fixes.rewrites.memory_edit import MemoryEdit, full_name, imports_of, ordered_calls
from fuselight_server.fixes.syntax.file_chunks import imported_name, insert_statements
from fuselight_server.fixes.syntax.file_tree import FileTree
from fuselight_server.fixes.syntax.tree import dotted

__all__ = ["EditPlaces", "MemoryEdit", "memory_edits"]

_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_TAKEN = frozenset(
    {"use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state"}
)
"""Arguments that `checkpoint` does not pass on."""
_CALLED = (cst.Name, cst.Attribute, cst.Subscript)
_WIDE = frozenset({"float", "double", "long", "int"})
_WIDE_DTYPES = frozenset(
    {"float", "float32", "float64", "double", "int", "int32", "int64", "long", "bool_", "dtype"}
)
"""Last names of what `.to` may convert to; `dtype`: that of another tensor."""


@dataclass(frozen=True)
class EditPlaces:
    """What is known of a file."""

    kept: Sequence[int] = ()
    """Lines that hold a part of the memory, those with most of it first."""
    regions: Sequence[Sequence[Location]] = ()
    """The calls of modules that may be checkpointed together, the best first."""
    training: bool = True


def memory_edits(path: str, text: str, places: EditPlaces) -> Iterator[MemoryEdit]:
    """The edits of a file, those of one kind after each other; none where the file does not parse."""
    tree = FileTree.of(path, text)
    if tree is None:
        return
    if places.training:
        yield from filter(None, (_checkpoint(tree, calls) for calls in places.regions))
        yield from _without_checkpoints(tree)
        yield from chunked_losses(tree)
        yield from unread_outputs(tree)
    yield from itertools.chain.from_iterable(_narrow(tree, line) for line in places.kept)
    yield from in_place_activations(tree, places.kept)


# Checkpoints.


def _checkpoint(tree: FileTree, places: Sequence[Location]) -> MemoryEdit | None:
    """The calls of the modules at these places, each by `checkpoint`."""
    calls = [_call_at(tree, place) for place in places if place.path == tree.path]
    known = [call for call in calls if call is not None and _can_checkpoint(call)]
    if not known or len(known) < len(places):
        return None
    name, is_new = imported_name(tree.path, tree.source, _CHECKPOINT), False
    if name is None:
        name, is_new = ("checkpoint_call" if _binds(tree, "checkpoint") else "checkpoint"), True
    new = tree.changed({call: lambda node, name=name: _checkpointed(node, name) for call in known})  # type: ignore[misc]
    if new is not None and is_new:
        alias = "" if name == "checkpoint" else f" as {name}"
        new = insert_statements(tree.path, new, (f"from torch.utils.checkpoint import checkpoint{alias}",))
    if new is None:
        return None
    title = ", ".join(dict.fromkeys(f"`{_one_line(tree.code(call))}`" for call in known))
    return MemoryEdit(EditKind.CHECKPOINT, f"checkpoint {title}", tree.path, tree.line(known[0]), new)


def _without_checkpoints(tree: FileTree) -> Iterator[MemoryEdit]:
    """Each checkpointed call made directly: a checkpoint around everything is computed again at once."""
    imports = imports_of(tree.path, tree.source)
    for node in ordered_calls(tree):
        given = [
            argument
            for argument in node.args
            if argument.keyword is None or argument.keyword.value not in _TAKEN
        ]
        if full_name(imports, node.func) != _CHECKPOINT or not given or given[0].keyword or given[0].star:
            continue
        function = given[0].value
        if not isinstance(function, _CALLED):
            function = function.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        call = node.with_changes(func=function, args=_last_without_comma(given[1:]))
        new = tree.changed({node: lambda _, call=call: call})  # type: ignore[misc]
        if new is not None:
            title = f"`{_one_line(cst.Module([]).code_for_node(call))}` without its checkpoint"
            yield MemoryEdit(EditKind.NO_CHECKPOINT, title, tree.path, tree.line(node), new)


def _last_without_comma(arguments: Sequence[cst.Arg]) -> list[cst.Arg]:
    return [
        *arguments[:-1],
        *(argument.with_changes(comma=cst.MaybeSentinel.DEFAULT) for argument in arguments[-1:]),
    ]


def _call_at(tree: FileTree, place: Location) -> cst.Call | None:
    """The call that ran at a place: the one with its columns, or the only one of its line."""
    calls = [
        node
        for node in ordered_calls(tree)
        if tree.ranges[node].start.line <= place.line <= tree.ranges[node].end.line
    ]
    if place.column is not None:
        calls = [call for call in calls if _columns(tree, call) == (place.column, place.end_column)]
    return calls[0] if len(calls) == 1 else None


def _columns(tree: FileTree, node: cst.CSTNode) -> tuple[int, int]:
    """First and last column of a node in bytes, as Python counts them."""
    rows = tree.source.split("\n")
    first, last = tree.ranges[node].start, tree.ranges[node].end
    return (
        len(rows[first.line - 1][: first.column].encode()),
        len(rows[last.line - 1][: last.column].encode()),
    )


def _can_checkpoint(call: cst.Call) -> bool:
    names = {argument.keyword.value for argument in call.args if argument.keyword is not None}
    has_double_star = any(argument.star == "**" for argument in call.args)
    return isinstance(call.func, _CALLED) and not (names & _TAKEN or has_double_star)


def _checkpointed(node: cst.CSTNode, name: str) -> cst.Call:
    call = cst.ensure_type(node, cst.Call)
    flag = cst.Arg(
        cst.Name("False"), keyword=cst.Name("use_reentrant"), equal=cst.AssignEqual(_NO_SPACE, _NO_SPACE)
    )
    return call.with_changes(func=cst.Name(name), args=[cst.Arg(call.func), *call.args, flag])


_NO_SPACE = cst.SimpleWhitespace("")


def _binds(tree: FileTree, name: str) -> bool:
    return bool(tree.stores(name))


def _one_line(code: str) -> str:
    return " ".join(code.split())


# Conversions.


def _narrow(tree: FileTree, line: int) -> Iterator[MemoryEdit]:
    """Each conversion of a line left out."""
    for node in ordered_calls(tree):
        there = tree.ranges[node]
        if not there.start.line <= line <= there.end.line:
            continue
        if not isinstance(node.func, cst.Attribute) or not _widens(node):
            continue
        value = node.func.value
        new = tree.changed(
            {node: functools.partial(_unconverted, isinstance(tree.parents[node], cst.Assign))}
        )
        if new is not None:
            converted = tree.source[tree.range_of(node.func.dot)[0] : tree.range_of(node)[1]]
            title = f"no `{_one_line(converted)}` of `{_one_line(tree.code(value))}`"
            yield MemoryEdit(EditKind.NARROW, title, tree.path, line, new)


def _unconverted(is_assigned: bool, node: cst.CSTNode) -> cst.BaseExpression:  # noqa: FBT001 - of a partial
    """What is converted, without parentheses where it is all that is assigned."""
    value = cst.ensure_type(cst.ensure_type(node, cst.Call).func, cst.Attribute).value
    return value.with_changes(lpar=[], rpar=[]) if is_assigned and not _spans_lines(value) else value


def _spans_lines(value: cst.BaseExpression) -> bool:
    return "\n" in cst.Module([]).code_for_node(value)


def _widens(call: cst.Call) -> bool:
    """Whether a call may convert to a wider dtype, and does nothing else."""
    name = cst.ensure_type(call.func, cst.Attribute).attr.value
    if name in _WIDE:
        return not call.args
    if name == "type_as":
        return len(call.args) == 1
    if name not in {"to", "type"} or len(call.args) != 1:
        return False
    argument = call.args[0]
    is_dtype = argument.keyword is None or argument.keyword.value == "dtype"
    return is_dtype and dotted(argument.value).rpartition(".")[2] in _WIDE_DTYPES


# Outputs.


def unread_outputs(tree: FileTree) -> Iterator[MemoryEdit]:
    """Each call of which one of several outputs is read, and whose names keep the others."""
    for node in tree.all():
        if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.value, cst.Call):
            continue
        target = node.targets[0].target
        if not isinstance(target, cst.Tuple) or not _keeps_names(tree, node):
            continue
        plain = [item.value for item in target.elements if isinstance(item, cst.Element)]
        names = [value.value for value in plain if isinstance(value, cst.Name)]
        function = tree.function(node)
        scope = function if function is not None else tree.module
        read = [index for index, name in enumerate(names) if _is_needed(tree, scope, name)]
        if len(names) != len(target.elements) or len(names) < _SEVERAL or len(read) != 1:
            continue
        if len(set(names)) != len(names) and names.count(names[read[0]]) > 1:
            continue
        yield from _without_unread(tree, node, names, read[0])


_SEVERAL = 2
_ALL_NAMES = frozenset({"locals", "globals", "vars", "eval", "exec"})
"""What may read a name that is not written there."""


def _is_needed(tree: FileTree, scope: cst.CSTNode, name: str) -> bool:
    """Whether a name must have a value: it is read, or a `del` or `+=`, which an estimate may not reach, fails."""
    return bool(tree.loads(scope, name)) or any(
        isinstance(node, cst.Name)
        and node.value == name
        and any(isinstance(outer, (cst.Del, cst.AugAssign)) for outer in tree.ancestors(node))
        for node in tree.all(scope)
    )


def _keeps_names(tree: FileTree, node: cst.Assign) -> bool:
    """Whether all that reads a name of the assignment is in its function, or in the file's `__main__` block."""
    function = tree.function(node)
    scope = function if function is not None else tree.module
    if any(isinstance(inner, cst.Name) and inner.value in _ALL_NAMES for inner in tree.all(scope)):
        return False
    if function is None:
        return any(
            isinstance(outer, cst.If) and "__name__" in tree.code(outer.test)
            for outer in tree.ancestors(node)
        )
    return not any(isinstance(inner, (cst.Global, cst.Nonlocal)) for inner in tree.all(function))


def _without_unread(tree: FileTree, node: cst.Assign, names: list[str], index: int) -> Iterator[MemoryEdit]:
    def change(new: cst.CSTNode) -> cst.Assign:
        assign = cst.ensure_type(new, cst.Assign)
        item = cst.SubscriptElement(cst.Index(cst.Integer(str(index))))
        return assign.with_changes(
            targets=[cst.AssignTarget(cst.Name(names[index]))],
            value=cst.Subscript(assign.value, [item]),
        )

    new = tree.changed({node: change})
    if new is not None:
        unread = ", ".join(f"`{name}`" for number, name in enumerate(names) if number != index)
        title = f"keep no {unread}, which nothing reads"
        yield MemoryEdit(EditKind.UNREAD_OUTPUT, title, tree.path, tree.line(node), new)
