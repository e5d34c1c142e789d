"""Edits at random traced places of a file: a cause inserted after a statement that assigned a tensor, or elsewhere.

Invariant: edits depend on the text, the report and the seed only. A place is in a function that was traced.
"""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.live_corpus.causes import CAUSES, CLEAN, IN_METHODS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuselight.shared.report import Fact, Report


@dataclass(frozen=True)
class EditPlace:
    """Where lines can be inserted."""

    after: int
    """The line after which they go."""
    indent: int
    name: str
    """A tensor of floating-point numbers there."""
    function: str
    """Qualified name, as `Net.forward`."""
    function_lines: int
    """Lines of the function without the edit, its decorators included."""
    is_method: bool
    traced: bool


@dataclass(frozen=True)
class CorpusEdit:
    """One edit of a text."""

    kind: str
    """`insert`; `clean`, which causes nothing; `untraced`: a cause where the program does not come."""
    cause: str
    place: EditPlace
    text: str
    """The whole text after it."""

    @property
    def lines(self) -> range:
        """Its new lines."""
        return range(self.place.after + 1, self.place.after + 2 + self.inserted.count("\n"))

    @property
    def inserted(self) -> str:
        """The new lines without indentation."""
        pattern = CAUSES.get(self.cause) or CLEAN[self.cause]
        return pattern.format(t=self.place.name)


def edits_of(text: str, path: str, report: Report, seed: str, counts: dict[str, int]) -> Iterator[CorpusEdit]:
    """Random edits of each kind; `counts` says how many."""
    chosen = random.Random(seed)  # noqa: S311 - a reproducible choice
    places = list(_places(text, path, report))
    traced = [place for place in places if place.traced]
    untraced = [place for place in places if not place.traced]
    causes: list[str] = []
    for kind, count in counts.items():
        from_places = untraced if kind == "untraced" else traced
        for _ in range(count if from_places else 0):
            if kind != "clean" and not causes:  # each cause equally often
                causes = chosen.sample(list(CAUSES), len(CAUSES))
            cause = chosen.choice(list(CLEAN)) if kind == "clean" else causes.pop()
            fitting = [place for place in from_places if place.is_method or cause not in IN_METHODS]
            if fitting:
                yield _edit(text, kind, cause, chosen.choice(fitting))


def _edit(text: str, kind: str, cause: str, place: EditPlace) -> CorpusEdit:
    lines = text.split("\n")
    new = (CAUSES.get(cause) or CLEAN[cause]).format(t=place.name).split("\n")
    lines[place.after : place.after] = [" " * place.indent + line for line in new]
    return CorpusEdit(kind, cause, place, "\n".join(lines))


def _places(text: str, path: str, report: Report) -> Iterator[EditPlace]:
    facts = report.facts.files.get(path)
    if facts is None:
        return
    assigned = {
        (fact.line, fact.column): fact for fact in facts.facts if fact.assigned and _is_floating(report, fact)
    }
    traced = {fact.line for fact in facts.facts}
    missed = {line for first, last in facts.untraced for line in range(first, last + 1)}
    for function, names in _functions(ast.parse(text), ()):
        parameters = [argument.arg for argument in function.args.args]
        is_method = parameters[:1] == ["self"]
        name = ".".join(names)
        first = min([function.lineno, *(expression.lineno for expression in function.decorator_list)])
        size = (function.end_lineno or first) + 1 - first
        for block in _blocks(function):
            for statement in block:
                last = statement.end_lineno or statement.lineno
                if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
                    continue
                target = statement.targets[0]
                if (target.lineno, target.col_offset) in assigned:
                    yield EditPlace(last, statement.col_offset, target.id, name, size, is_method, traced=True)
                elif set(range(statement.lineno, last + 1)) <= missed - traced:
                    yield EditPlace(
                        last, statement.col_offset, target.id, name, size, is_method, traced=False
                    )


def _is_floating(report: Report, fact: Fact) -> bool:
    values = [report.facts.values[index] for index, _ in fact.values]
    return not fact.omitted and all(
        value.kind.value == "tensor"
        and value.text.startswith(("f32[", "f16[", "bf16["))
        and value.text.split("[")[1] != "]"
        and "[0" not in value.text
        for value in values
    )


def _functions(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[ast.FunctionDef, tuple[str, ...]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, (*names, child.name))
        elif isinstance(child, ast.FunctionDef):
            yield child, (*names, child.name)
            yield from _functions(child, (*names, child.name, "<locals>"))
        elif isinstance(child, (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.excepthandler)):
            yield from _functions(child, names)


def _blocks(function: ast.FunctionDef) -> Iterator[Sequence[ast.stmt]]:
    waiting: list[ast.AST] = [function]
    while waiting:
        node = waiting.pop()
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block:
                yield block
                waiting += [
                    value
                    for value in block
                    if not isinstance(value, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
                ]
