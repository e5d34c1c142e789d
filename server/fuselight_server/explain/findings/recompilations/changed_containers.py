"""Containers that compiled code itself changes from call to call, so that each call compiles until the recompile limit.

Invariant: said only where the source shows the statement that changes the container, and the run shows that it was in
another state in at least two calls. A list is said to grow only if nothing removes an element.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

from fuselight.shared.report import GuardCause, GuardFailure, Recompile
from fuselight_server.base.formatting import format_list
from fuselight_server.explain.findings.advice.expectations import NOT_TRIED
from fuselight_server.explain.findings.common.context import MAX_LINES, Context
from fuselight_server.explain.findings.common.resume_functions import nearest
from fuselight_server.explain.findings.common.source_tree import (
    is_of_context_manager,
    tree_around,
)
from fuselight_server.explain.findings.common.text import quoted

_LENGTHS = re.compile(r"\blen\(.+\) was (\d+), now (\d+)|was empty, now (?:a list of (\d+)|\[[^,]*\]$)")
_ADDING = frozenset({"append", "appendleft", "extend", "insert"})
_REMOVING = frozenset({"pop", "popleft", "popitem", "clear", "remove"})
JOINING = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack"})
"""Functions of torch that take a list of tensors."""
_MAX_KEYS = 3
"""Keys that advice names."""


def growing_container(context: Context, recompilation: Recompile, failure: GuardFailure) -> tuple[str, ...]:
    """What to do about a list that grows in each call; empty if that is not certain."""
    if failure.cause is not GuardCause.LENGTH or not _is_longer_each_time(context, recompilation, failure):
        return ()
    if not _only_adds(context, failure):
        return ()
    others = (
        item for item in nearest(recompilation) if item.cause is GuardCause.LENGTH and item is not failure
    )
    names = [failure.source, *(item.source for item in others if _only_adds(context, item))]
    grown = format_list([quoted(name) for name in names])
    trees = list(_traced_trees(context, failure))
    them = "them" if len(names) > 1 else "it"
    is_joined = all(_is_joined(trees, name) for name in names)
    step = f"Keep a fixed number of elements in {grown}"
    if is_joined:
        step = (
            f"Keep one tensor in place of {'each of ' if len(names) > 1 else ''}{grown}, which torch.cat makes longer "
            "in each call: by default, torch makes that size dynamic. Or keep one of a fixed size, and write in place, "
            "as with index_copy_() at a position that is a tensor"
        )
    grows = f"The code adds to {them} in each call, and each length compiles, up to the recompile limit"
    fixed = f"{step}. {grows}. {NOT_TRIED}"
    if any(_reads(tree, name) for tree in trees for name in names):
        return (fixed,)
    return (fixed, f"Or return what is added, and add it to {grown} outside the compiled code")


def _traced_trees(context: Context, failure: GuardFailure) -> Iterator[ast.Module]:
    """The functions of the user's that compiled code ran operators of, and the one that reads the container."""
    stacks = (
        stack for item in context.report.compiles if item.graph is not None for stack in item.graph.lines
    )
    places = (
        place for stack in (failure.born, *stacks) for place in stack if context.is_user_file(place.path)
    )
    lines = {(place.path, place.line): place for place in places}.values()
    for place in {context.def_above(place) or place: place for place in lines}.values():
        tree = tree_around(context, place)
        if tree is not None:
            yield tree


def _uses(tree: ast.Module, name: str) -> Iterator[ast.expr]:
    """The expressions of a function that are a container, by the last part of its name."""
    for node in ast.walk(tree):
        if isinstance(node, _NAMES) and _is_named(node, name):
            yield node


def _is_named(node: ast.expr, name: str) -> bool:
    """Whether an expression is a container, by the last part of its name: `self.rows[key]` may be `self.rows['a']`."""
    key = _KEY.search(name)
    if key is not None and isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
        return _last(ast.unparse(node.value)) == _last(name[: key.start()])
    return _last(ast.unparse(node)) == _last(name)


def _last(name: str) -> str:
    """The last part of a name: code knows `caches[0]['k']` as `cache['k']`."""
    key = _KEY.search(name)
    return name.rpartition(".")[2] if key is None else key[0]


_KEY = re.compile(r"\['[^'\[\]]*'\]$")


def _is_joined(trees: list[ast.Module], name: str) -> bool:
    """Whether compiled code makes one tensor of the elements, which are tensors then."""
    uses = {use for tree in trees for use in _uses(tree, name)}
    calls = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(
        ast.unparse(call.func).rpartition(".")[2] in JOINING and not uses.isdisjoint(call.args)
        for call in calls
    )


def is_read(context: Context, failure: GuardFailure) -> bool:
    """Whether compiled code does more with a container than change it: its length stays guarded then."""
    is_container = failure.cause in {GuardCause.LENGTH, GuardCause.KEYS}
    return is_container and any(_reads(tree, _owner(failure)) for tree in _traced_trees(context, failure))


def _reads(tree: ast.Module, name: str, known: frozenset[str] = frozenset()) -> bool:
    """Whether a function reads a container, by its name or by a name that it assigns it to, without those `known`."""
    last, changing = _last(name), set[ast.AST]()
    known |= {last}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            func = node.value.func
            changing |= {func.value} if isinstance(func, ast.Attribute) else set()
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            changing.add(node.value)
        elif isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
            aliases = [ast.unparse(target) for target in node.targets]
            is_same = _last(ast.unparse(node.value)) in known
            if is_same and not any(_reads(tree, alias, known) for alias in aliases if alias not in known):
                changing |= {node.value, *node.targets}
    return any(use not in changing for use in _uses(tree, name))


def changed_container(context: Context, recompilation: Recompile, failure: GuardFailure) -> str:
    """The dict or list whose entries the function that reads it assigns, as `counts`; empty where that is not certain.

    What changed is a number or a text in it, or how many entries it has: a tensor is the same to torch in each call.
    """
    owner = _owner(failure)
    read = context.innermost_user_frame(failure.born)
    tree = tree_around(context, read) if owner and read is not None else None
    if tree is None or read is None or is_of_context_manager(context, read):
        return ""
    stores = (
        ast.unparse(entry.value)
        for entry in _entries(tree, ast.Store)
        if not _is_of_another_key(failure, entry)
    )
    changes = sum(
        any(_owner(other) == owner for other in nearest(item))
        for item in context.report.recompiles
        if (item.function, item.location) == (recompilation.function, recompilation.location)
    )
    return owner if owner in stores and changes > 1 else ""


def _is_of_another_key(failure: GuardFailure, entry: ast.Subscript) -> bool:
    """Whether an assignment is of another entry than the one that differs: callers may give that one."""
    if failure.cause not in {GuardCause.NUMBER, GuardCause.VALUE} or not isinstance(
        entry.slice, ast.Constant
    ):
        return False
    return not failure.source.endswith(f"[{entry.slice.value!r}]")


def filled_container(context: Context, failure: GuardFailure) -> tuple[str, ...]:
    """What to do about a dict to which the function that reads it adds a key; empty where the source shows none."""
    owner, stored = _filled(context, failure)
    if not stored:
        return ()
    keys = dict.fromkeys(ast.unparse(entry.slice) for entry in stored)
    is_known = all(isinstance(entry.slice, ast.Constant) for entry in stored)
    if not is_known or len(keys) > _MAX_KEYS or _is_read(context, failure, owner):
        return (container_step(context, failure, owner),)
    named = format_list([quoted(f"{owner}[{key}]") for key in keys])
    it = "it" if len(keys) == 1 else "them"
    return (
        (
            f"Create {named} before the first call, as in __init__: the function adds {it}, so that later calls find "
            f"other keys in {quoted(owner)} than the first"
        ),
        f"Or change {quoted(owner)} outside the compiled code",
    )


_NAMES = (ast.Name, ast.Attribute, ast.Subscript)


def is_filled_on(context: Context, failure: GuardFailure, line: int) -> bool:
    """Whether the statement on a line adds a key to the dict whose keys differ."""
    return any(entry.lineno <= line <= (entry.end_lineno or line) for entry in _filled(context, failure)[1])


def _filled(context: Context, failure: GuardFailure) -> tuple[str, list[ast.Subscript]]:
    """The dict whose keys differ, and the entries of it that the function which reads it assigns."""
    owner = _owner(failure) if failure.cause is GuardCause.KEYS else ""
    read = context.innermost_user_frame(failure.born)
    if not owner or read is None or is_of_context_manager(context, read):
        return owner, []
    entries = _entries(tree_around(context, read), ast.Store)
    return owner, [entry for entry in entries if ast.unparse(entry.value) == owner]


def _is_read(context: Context, failure: GuardFailure, owner: str) -> bool:
    """Whether the function that reads a dict also reads entries of it: their values are then guarded, too."""
    read = context.innermost_user_frame(failure.born)
    tree = tree_around(context, read) if read is not None else None
    called = (node for node in ast.walk(tree or ast.Module([], [])) if isinstance(node, ast.Attribute))
    read_entries = (entry for entry in _entries(tree, ast.Load) if ast.unparse(entry.value) == owner)
    return next(read_entries, None) is not None or any(ast.unparse(node.value) == owner for node in called)


def _entries(tree: ast.AST | None, context: type[ast.expr_context]) -> Iterator[ast.Subscript]:
    """The entries that a function reads or assigns; `names.setdefault(key, 0)` assigns one."""
    for node in ast.walk(tree or ast.Module([], [])):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, context):
            yield node
        elif context is ast.Store and isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr == "setdefault" and node.args:
                yield ast.copy_location(ast.Subscript(func.value, node.args[0], ast.Store()), node)


def container_step(context: Context, failure: GuardFailure, owner: str) -> str:
    """What to do about a container that the function changes: what reads it, too, has to go with that."""
    read = context.innermost_user_frame(failure.born)
    tree = tree_around(context, read) if read is not None else None
    first, change = ("Change", "return the values, and assign them after the call")
    if tree is not None and _reads(tree, owner):
        first, change = (
            "Read and change",
            "pass in what the code needs of it, and assign what it returns after the call",
        )
    return (
        f"{first} {quoted(owner)} outside the compiled code: {change}. "
        "Compiled code that changes it finds it in another state in the next call"
    )


def _owner(failure: GuardFailure) -> str:
    if failure.cause is GuardCause.KEYS:
        match = _OF_KEYS.search(failure.source) or _OF_KEYS.search(failure.difference)
        return match["owner"] if match is not None else failure.source
    if failure.cause is GuardCause.LENGTH:
        return failure.source
    is_plain = failure.cause in {GuardCause.NUMBER, GuardCause.VALUE} and failure.was is not None
    entry = _ENTRY.match(failure.source) if is_plain else None
    return entry["owner"] if entry is not None else ""


_OF_KEYS = re.compile(r"^(?:list|len)\((?P<owner>[\w.]+)\)")
_ENTRY = re.compile(r"(?P<owner>[^\W\d][\w.]*)\[(?:-?\d+|'[^'\[\]]*')\]$")


def _is_longer_each_time(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    lengths = list(_lengths(context, recompilation, failure.source))
    in_a_row = all(before[1] == after[0] for before, after in itertools.pairwise(lengths))
    return len(lengths) > 1 and in_a_row and all(was < now for was, now in lengths)


def _lengths(context: Context, recompilation: Recompile, source: str) -> Iterator[tuple[int, int]]:
    """The lengths of a container at the recompilations of one function, in their order."""
    for other in context.report.recompiles:
        if (other.function, other.location) != (recompilation.function, recompilation.location):
            continue
        for failure in nearest(other):
            match = _LENGTHS.search(failure.difference) if failure.source == source else None
            if match is not None:
                yield int(match[1] or 0), int(match[2] or match[3] or 1)


def _only_adds(context: Context, failure: GuardFailure) -> bool:
    """Whether the function that reads the container adds elements, and neither removes one nor assigns another."""
    read = context.innermost_user_frame(failure.born)
    tree = tree_around(context, read) if read is not None else None
    if read is None or tree is None or is_of_context_manager(context, read):
        return False
    name = _last(failure.source)
    called = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and _is_named(node.func.value, failure.source)
    }
    is_changed = any(
        isinstance(node, _NAMES)
        and isinstance(node.ctx, (ast.Store, ast.Del))
        and name in {_last(ast.unparse(part)) for part in (node, getattr(node, "value", node))}
        for node in ast.walk(tree)
    )
    adds = not called.isdisjoint(_ADDING) and called.isdisjoint(_REMOVING)
    return adds and not is_changed and not _has_bounded_deque(context, read.path)


def _has_bounded_deque(context: Context, path: str) -> bool:
    """Whether a file makes a container that drops its oldest element."""
    lines = list(context.lines_of(path))
    return len(lines) == MAX_LINES or any("maxlen" in line for line in lines)
