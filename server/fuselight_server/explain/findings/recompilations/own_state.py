"""State that the compiled code itself changes: a cache that grows, a table that is built again, a counter.

What one line changes makes guards fail on each line that reads it, in each form: an attribute that was None, a size, a
relation. Invariant: the source of traced functions shows the assignment, and advice is given only where the values of
the run grow.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fuselight.shared.foreign_data import parse_python
from fuselight.shared.report import GuardCause, GuardFailure, Recompile
from fuselight_server.base.formatting import format_list
from fuselight_server.explain.findings.advice.expectations import CARRIED, NOT_TRIED
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import in_the_users_words, nearest, resumed_at
from fuselight_server.explain.findings.common.state_writes import (
    WHOLE,
    last_name,
    names_written,
    state_writes,
)
from fuselight_server.explain.findings.common.text import quoted
from fuselight_server.explain.findings.recompilations.changed_containers import JOINING
from fuselight_server.explain.findings.recompilations.specializations import stays_fixed

_SUBSCRIPTS = re.compile(r"(?:\[[^\[\]]*\])+$")
_KEY = re.compile(r"\[(?P<key>'[^']*'|\d+)\]$")
_LAST = re.compile(r"(\w+)$")
_MEASURE = re.compile(r"^(?:len|list)\((?P<owner>[\w.\[\]']+)\)")


@dataclass(frozen=True)
class StateStep:
    """What to do about state that grows."""

    text: str
    line: int
    """The statement that changes the state, or the branch around it."""


def state_names(context: Context, recompilation: Recompile) -> frozenset[str]:
    """The state that guards failed on, by its last name, as `step` of `self.step`."""
    return frozenset(
        name for failure in nearest(recompilation) for name in names_of(context, recompilation, failure)
    )


def names_of(context: Context, recompilation: Recompile, failure: GuardFailure) -> Iterator[str]:
    """The names of the state that one failed guard is on."""
    if CARRIED in f"{failure.source}{failure.code}":
        return
    sources = [failure.source] if failure.source else list(relation_sources(failure))
    for source in sources:
        measured = _MEASURE.match(source)
        whole = measured["owner"] if measured is not None else source
        if _is_written(context, whole):
            yield _last_word(whole)
    if failure.cause is GuardCause.RELATION:
        yield from _fixed_bounds(context, recompilation, failure)


def _fixed_bounds(context: Context, recompilation: Recompile, failure: GuardFailure) -> Iterator[str]:
    """The numbers of the state that a range of sizes ends at, as 16 of `2 <= x.size(1) <= 16`: torch had fixed them."""
    bounds = set(_BOUND.findall(failure.difference.partition(" no longer holds")[0]))
    for other in same_code(context, recompilation) if bounds else ():
        for known in nearest(other):
            name = _last_word(known.source)
            if (
                known.cause is GuardCause.NUMBER
                and known.was in bounds
                and _is_written(context, known.source)
            ):
                yield name


_BOUND = re.compile(r"(?:<=?|>=?) (\d{2,})$")


def relation_sources(failure: GuardFailure) -> Iterator[str]:
    """The values that a relation compares, as `self.epoch` of `self.epoch <= 1`; none where it cannot be read."""
    relation, holds, _ = failure.difference.partition(" no longer holds")
    try:
        nodes: list[ast.AST] = [parse_python(relation, "eval").body] if holds else []
    except SyntaxError:
        return
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Call):  # `x.size(0)` depends on `x`
            owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            nodes += [*owner, *node.args]
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            yield ast.unparse(node)
        else:
            nodes += ast.iter_child_nodes(node)


def _is_written(context: Context, source: str) -> bool:
    """Whether traced code assigns what a guard is on: an attribute, a variable of an outer function, an entry.

    The source has other names for an object than the method that assigns its attribute, which calls it `self`.
    """
    key = _KEY.search(source)
    owner, _, name = _SUBSCRIPTS.sub("", source).rpartition(".")
    return any(
        (of in _ANY_OWNER or of == _last_word(owner)) and (key is None or written_key in {key["key"], WHOLE})
        for of, written_key in state_writes(context).written.get(name, ())
    )


_ANY_OWNER = frozenset({"", "self", "cls"})


def family_of(context: Context, recompilation: Recompile) -> frozenset[str]:
    """The state of a function that changes together with what failed here, by last names; empty for none."""
    names = state_names(context, recompilation)
    if not names:
        return names
    failed = [state_names(context, item) for item in same_code(context, recompilation)]
    others = [*failed, *(item & frozenset().union(*failed) for item in state_writes(context).together)]
    while any(not names.isdisjoint(other) and not other <= names for other in others):
        names = names.union(*(other for other in others if not names.isdisjoint(other)))
    return names


def same_code(context: Context, recompilation: Recompile) -> Iterator[Recompile]:
    """The recompilations of the function, or of its part after a break, in the words of their findings."""
    line = resumed_at(context, recompilation)
    for other in _worded(context):
        is_same = (other.function, other.location) == (recompilation.function, recompilation.location)
        if is_same and resumed_at(context, other) == line:
            yield other


@functools.lru_cache(maxsize=4)
def _worded(context: Context) -> tuple[Recompile, ...]:
    """The recompilations in the words of their findings."""
    return tuple(in_the_users_words(context, item) for item in context.report.recompiles)


def state_step(context: Context, recompilation: Recompile) -> StateStep | None:
    """What to do about state that grows from call to call; None where the source or the run shows no growth."""
    family = family_of(context, recompilation)
    if not family:
        return None
    of_items = [
        (item, failure, names)
        for item in same_code(context, recompilation)
        for failure in nearest(item)
        if (names := frozenset(names_of(context, item, failure)))
    ]
    failures = [(failure, names) for _, failure, names in of_items]
    fixed = [(failure, names) for item, failure, names in of_items if stays_fixed(context, item, failure)]
    return (
        _of_joined(context, failures)
        or _of_rebuilt(context, family, failures)
        or _of_position(context, fixed)
    )


def _of_joined(context: Context, failures: Iterable[tuple[GuardFailure, frozenset[str]]]) -> StateStep | None:
    """The step for tensors to which each call adds a part, as the keys and values of attention."""
    grown: dict[str, int] = {}
    for failure, names in failures:
        if failure.cause is not GuardCause.DIMENSION or not failure.sizes:
            continue
        line = next(filter(None, (_joining_line(context, name) for name in names)), 0)
        if not line or any(size.now <= size.was for size in failure.sizes):
            return None
        grown.setdefault(_SUBSCRIPTS.sub("", failure.source), line)
    if not grown:
        return None
    is_one = len(grown) == 1 and not any(failure.source.endswith("]") for failure, _ in failures)
    shown = format_list([quoted(name) for name in grown])
    line = next(iter(grown.values()))
    what = (
        f"{shown} in a buffer"
        if is_one
        else f"what {shown} {'hold' if len(grown) > 1 else 'holds'} in buffers"
    )
    text = (
        f"Keep {what} of a fixed size, for the longest sequence, and write each new part in place, as with "
        f"index_copy_() at a position that is a tensor, with a mask for the rest: line {line} makes it longer in each "
        f"call. {NOT_TRIED}"
    )
    return StateStep(text, line)


def _joining_line(context: Context, name: str) -> int:
    """The line of a function that makes one tensor of a state's value and more, where it assigns the state; else 0."""
    for tree in state_writes(context).trees:
        nodes = list(ast.walk(tree))
        aliases = {name}
        for node in nodes:
            if isinstance(node, ast.Assign) and any(last_name(part) == name for part in ast.walk(node.value)):
                aliases |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        is_stored = any(
            last_name(node.value if isinstance(node, ast.Subscript) else node) == name
            for node in nodes
            if isinstance(node, (ast.Attribute, ast.Subscript, ast.Name)) and isinstance(node.ctx, ast.Store)
        )
        for node in nodes if is_stored else ():
            if isinstance(node, ast.Call) and last_name(node.func) in JOINING:
                parts = (part for argument in node.args[:1] for part in ast.walk(argument))
                if any(last_name(part) in aliases for part in parts):
                    return node.lineno
    return 0


def _of_rebuilt(
    context: Context, family: frozenset[str], failures: Iterable[tuple[GuardFailure, frozenset[str]]]
) -> StateStep | None:
    """The step for a table that the code makes again for each greater size, as those of rotary embeddings."""
    failures = list(failures)
    numbers = [
        (failure.was, failure.now)
        for failure, _ in failures
        if failure.cause is GuardCause.NUMBER and _are_whole(failure)
    ]
    if any(int(now or 0) <= int(was or 0) for was, now in numbers):
        return None
    branch = next(
        filter(None, (_building_branch(context, tree, family) for tree in state_writes(context).trees)), None
    )
    if branch is None:
        return None
    tensors = dict.fromkeys(
        _SUBSCRIPTS.sub("", source) if source.endswith("]") else source
        for failure, names in failures
        if failure.cause in {GuardCause.DIMENSION, GuardCause.RELATION, GuardCause.NONE}
        for source in ([failure.source] if failure.source else relation_sources(failure))
        if _last_word(source) in names
    )
    if not tensors:
        return None
    shown = format_list([quoted(name) for name in tensors])
    they = "it is" if len(tensors) < 2 else "they are"  # noqa: PLR2004 - one or more
    text = (
        f"Create {shown} once, in __init__, for the greatest size that calls need: after the test on line "
        f"{branch.lineno}, {they} made again for each greater size, and each time compiles. {NOT_TRIED}"
    )
    return StateStep(text, branch.lineno)


def _of_position(
    context: Context, failures: Iterable[tuple[GuardFailure, frozenset[str]]]
) -> StateStep | None:
    """The step for a number of elements that the code counts on and slices with, to write what comes next."""
    changes: dict[str, list[tuple[int, int]]] = {}
    for failure, _ in failures:
        if failure.cause is GuardCause.NUMBER and _are_whole(failure):
            changes.setdefault(failure.source, []).append((int(failure.was or 0), int(failure.now or 0)))
    for source, values in changes.items():
        line = next(_slices(context, _last_word(source), ast.Store), 0)
        if line and all(was < now for was, now in values):
            reads = [str(number) for number in _slices(context, _last_word(source), ast.Load)]
            masked = f", and use a mask for the slice on line {format_list(reads)}" if reads else ""
            text = (
                f"Keep {quoted(source)} as a tensor, and write on line {line} with index_copy_() at indices that are "
                f"made of it, as torch.arange(n) + {source.rpartition('.')[2]}{masked}: a slice needs the number, so "
                f"each value compiles. {NOT_TRIED}"
            )
            return StateStep(text, line)
    return None


def _slices(context: Context, name: str, of: type[ast.expr_context]) -> Iterator[int]:
    """The lines that read or assign a slice which starts or ends at a value, by its last name, each once."""
    nodes = (node for tree in state_writes(context).trees for node in ast.walk(tree))
    lines = (
        node.lineno
        for node in nodes
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, of)
        for item in ast.walk(node.slice)
        if isinstance(item, ast.Slice) and any(last_name(part) == name for part in ast.walk(item))
    )
    yield from dict.fromkeys(lines)


def _last_word(source: str) -> str:
    match = _LAST.search(_SUBSCRIPTS.sub("", source))
    return match[1] if match is not None else ""


def _are_whole(failure: GuardFailure) -> bool:
    return all((value or "").isdecimal() for value in (failure.was, failure.now))


def _building_branch(context: Context, tree: ast.Module, family: frozenset[str]) -> ast.If | None:
    """The `if` whose test orders a size against state of the family, and whose body assigns the family."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.If):
            continue
        compared = {
            last_name(part)
            for test in ast.walk(node.test)
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], _ORDERS)
            for part in ast.walk(test)
        }
        if family.isdisjoint(compared):
            continue
        called = {
            last_name(part.func)
            for item in node.body
            for part in ast.walk(item)
            if isinstance(part, ast.Call)
        }
        written = names_written(node.body)
        for other in state_writes(context).trees:
            definition = next((item for item in ast.walk(other) if isinstance(item, ast.FunctionDef)), None)
            if definition is not None and definition.name in called:
                written |= names_written(definition.body)
        if len(family & written) > 1 or (written - compared and family & written):
            return node
    return None


_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
