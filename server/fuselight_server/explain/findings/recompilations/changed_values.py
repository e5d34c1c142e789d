"""Values that compiled code itself changes from call to call: a counter, a list that it appends to, a dict.

Each call finds them in another state than the call before, so that each call compiles. Invariant: the source shows the
statement that changes the value, in the function that reads it, and torch did not make the value symbolic.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from fuselight.shared.report import GuardCause, GuardFailure, Recompile
from fuselight_server.base.formatting import format_list
from fuselight_server.explain.findings.advice.expectations import CARRIED
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.function_roles import for_role
from fuselight_server.explain.findings.common.number_uses import needs_number
from fuselight_server.explain.findings.common.resume_functions import nearest
from fuselight_server.explain.findings.common.source_tree import is_of_context_manager, tree_around
from fuselight_server.explain.findings.common.text import quoted
from fuselight_server.explain.findings.recompilations.changed_containers import is_read
from fuselight_server.explain.findings.recompilations.indices import index_step
from fuselight_server.explain.findings.recompilations.specializations import is_unguarded, made_dynamic

_CAUSES = frozenset({GuardCause.NUMBER, GuardCause.VALUE, GuardCause.LENGTH, GuardCause.KEYS})
_COLLECTIONS = frozenset({GuardCause.LENGTH, GuardCause.KEYS})
_MUTATING = frozenset(
    {
        *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft"),
        *("remove", "setdefault", "update"),
    }
)
_OF_CLASS = frozenset({"type(self)", "self.__class__", "cls", "self"})
"""Ways to write the object or the class that a method belongs to."""
_ENTRY = re.compile(r"(?P<owner>.+)\[[^\[\]]+\]$")
_ELEMENT = "list(dict.keys("
_MEASURE = re.compile(r"(?:len|list)\((?P<owner>[\w.]+)\)")


def changed_values(context: Context, recompilation: Recompile) -> tuple[GuardFailure, ...]:
    """The failed guards on values that the code which reads them changes in each call, in their order."""
    return tuple(
        failure for failure in nearest(recompilation) if _is_changed(context, recompilation, failure)
    )


def changes_first(
    context: Context, recompilation: Recompile, failures: Sequence[GuardFailure]
) -> tuple[GuardFailure, ...]:
    """The failures, those first that fail in each call: whatever else differs, the call compiles again."""
    if len(failures) < 2:  # noqa: PLR2004 - an order
        return tuple(failures)
    changed = changed_values(context, recompilation)
    return tuple(sorted(failures, key=lambda failure: failure not in changed))


def changed_together(context: Context, recompilation: Recompile) -> str:
    """What identifies several values that the code changes in each call; empty for one, or none."""
    names = changed_names(changed_values(context, recompilation))
    return "\0".join(names) if len(names) > 1 else ""


def changed_names(failures: Iterable[GuardFailure]) -> tuple[str, ...]:
    """What the code changes, each once: of the entries of a container, the container."""
    return tuple(dict.fromkeys(map(_owner, failures)))


def move_out(context: Context, changed: Sequence[GuardFailure]) -> tuple[str, ...]:
    """The advice to change the values outside instead, all of them; empty where the code reads a container."""
    if any(is_read(context, failure) for failure in changed):
        return ()
    if changed[0].difference.startswith(f"next({changed[0].source}) was "):
        call = f"Call `next({changed[0].source})` outside the compiled code, and pass its result in"
        return (f"{call}: it counts on in each call, and each number compiles, up to the recompile limit",)
    names = changed_names(changed)
    shown = format_list([quoted(name) for name in names])
    read = [item for item in changed if _is_used(context, item)]
    used = format_list([quoted(name) for name in changed_names(read)])
    is_tensor = not any(needs_number(context, item) for item in read)
    passed = f", and pass in {used}{' as a tensor' if is_tensor else ' as an argument'}" if used else ""
    if selected := _selected(context, changed):
        elements = format_list([f"`{text}`" for text in selected])
        passed = f", and pass in what {used} selects: {elements}, a number as a tensor"
    why = (
        "return the values, and make the change after the call"
        if all(failure.cause in _COLLECTIONS for failure in changed)
        else "the code changes what it reads, so that a later call finds another value"
    )
    first = f"Change {shown} outside the compiled code{', all of them' if names[1:] else ''}{passed}: {why}"
    born = changed[0].born
    steps = for_role(context, context.innermost_user_frame(born), (first,), born)
    return (*steps, *(index_step(context, changed[0], is_passed=True) if len(names) == 1 else ()))


def _is_used(context: Context, failure: GuardFailure) -> bool:
    """Whether the code does more with a number than change it: it is guarded then wherever it changes."""
    read = context.innermost_user_frame(failure.born)
    tree = tree_around(context, read) if read is not None else None
    if tree is None or failure.cause in _COLLECTIONS:
        return False
    changing = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and any(_is_same(_text(item), failure.source) for item in node.targets)
        for part in ast.walk(node)
    }
    return any(
        isinstance(node, _VARIABLES)
        and isinstance(node.ctx, ast.Load)
        and node not in changing
        and _is_same(_text(node), failure.source)
        for node in ast.walk(tree)
    )


def _selected(context: Context, changed: Sequence[GuardFailure]) -> list[str]:
    """The elements that the code reads by a number which it does nothing else with; empty if there is none."""
    read = context.innermost_user_frame(changed[0].born) if len(changed) == 1 else None
    tree = tree_around(context, read) if read is not None else None
    elements = [
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and not isinstance(node.slice, (ast.Slice, ast.Tuple))
        and any(_text(part) == changed[0].source for part in ast.walk(node.slice))
    ]
    inside = {part for element in elements for part in ast.walk(element)}
    others = (
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, _VARIABLES) and isinstance(node.ctx, ast.Load) and node not in inside
    )
    if any(_text(node) == changed[0].source for node in others):
        return []
    return list(dict.fromkeys(text for element in elements if "`" not in (text := _text(element))))


def _owner(failure: GuardFailure) -> str:
    measured = _MEASURE.search(failure.source)
    if measured is not None:
        return measured["owner"]
    is_of_line = (
        _ELEMENT in failure.expression
    )  # its name is that of the line, whose variable is no container
    entry = _ENTRY.match(failure.source) if failure.cause not in _COLLECTIONS and not is_of_line else None
    return entry["owner"] if entry is not None else failure.source


def _is_changed(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    if failure.cause not in _CAUSES or not failure.source or CARRIED in failure.code:
        return False
    read = context.innermost_user_frame(failure.born)
    tree = tree_around(context, read) if read is not None else None
    if read is None or tree is None or is_of_context_manager(context, read):
        return False
    names = {failure.source, _owner(failure)}
    is_collection = failure.cause in _COLLECTIONS
    if not any(
        _is_same(target, name) for target in _changed(tree, is_collection=is_collection) for name in names
    ):
        return False
    return not made_dynamic(context, recompilation, [failure]) and not is_unguarded(
        context, recompilation, failure
    )


def _is_same(written: str, name: str) -> bool:
    """Whether an expression of the code is the guarded value: a method may write its class in several ways."""
    if written == name:
        return True
    owner, _, last = written.rpartition(".")
    owner_of_value, _, last_of_value = name.rpartition(".")
    return (
        last == last_of_value and bool(owner_of_value) and owner in _OF_CLASS and owner_of_value in _OF_CLASS
    )


def _changed(tree: ast.AST, *, is_collection: bool) -> Iterator[str]:
    """What statements change, by their own expressions, with a local name by what it was assigned."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Attribute, ast.Name)):
            names = (target.id for target in node.targets if isinstance(target, ast.Name))
            aliases.update(dict.fromkeys(names, _text(node.value)))
    for target in _targets(tree, is_collection=is_collection):
        written = _text(target)
        yield written
        if isinstance(target, ast.Subscript):
            written = _text(target.value)
            # Other entries than the one with this key may be what callers give.
            if is_collection or not isinstance(target.slice, ast.Constant):
                yield written
        if written in aliases and (is_collection or not isinstance(target, ast.Name)):
            yield aliases[written]


def _targets(tree: ast.AST, *, is_collection: bool) -> Iterator[ast.expr]:
    """The expressions that statements change: by an operator, by a value that is made of it, by a method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign):
            yield node.target
        elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):
            read = {_text(part) for part in ast.walk(node.value) if isinstance(part, _VARIABLES)}
            yield from (
                item
                for item in node.targets
                if _text(item) in read or (is_collection and isinstance(item, ast.Subscript))
            )
        elif is_collection and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield from (node.func.value,) if node.func.attr in _MUTATING else ()
        elif isinstance(node, ast.Call) and _text(node.func) == "next":
            yield from node.args[:1]


_VARIABLES = (ast.Name, ast.Attribute, ast.Subscript)


def _text(node: ast.AST) -> str:
    """An expression as text; empty for one that is too deep, which is no value's name."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return ""
