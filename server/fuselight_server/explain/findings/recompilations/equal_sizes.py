"""What on a line has the size that a dynamic one was fixed to: a tensor of the module, another input, a number.

Invariant: a name is given only if the line mentions it and nothing else on the line has that size. Which part of it
made torch fix the size is not recorded, so all else has no answer. A tensor whose own size changed in the run varies
with the size, so nothing is advised against it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fuselight.shared.report import FactKind, Location, Symbol
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import tree_around

_SIZE_OF = re.compile(r"(?P<tensor>.+)\.size\(\d+\)$")
_SHAPE = re.compile(r"\w+\[(?P<sizes>[^\]]*)\]")


def equal_argument(context: Context, symbol: Symbol, at: Location) -> str:
    """The argument whose size fixed a size on the line `at`, and had one value in the run; empty if there is none."""
    others, numbers, _ = _of_same_size(context, symbol, at)
    name = next(iter(others), "")
    return (
        name if len(others) == 1 and not numbers and "." not in name and name not in _varying(context) else ""
    )


def _of_same_size(
    context: Context, symbol: Symbol, at: Location
) -> tuple[dict[str, None], list[ast.Constant], list[ast.AST]]:
    """The other tensors and the numbers on a line that have the size to which a symbol was fixed; all of its nodes."""
    match = _SIZE_OF.match(symbol.source)
    size = symbol.specialized_to
    tree = tree_around(context, at)
    if match is None or size is None or tree is None:
        return {}, [], []
    nodes = [node for node in ast.walk(tree) if _is_within(node, at)]
    others = dict.fromkeys(name for name in _tensors(context, at, nodes, size) if name != match["tensor"])
    numbers = [node for node in nodes if isinstance(node, ast.Constant) and str(node.value) == size]
    return others, numbers, nodes


def equal_size(context: Context, symbol: Symbol, at: Location) -> str:
    """The advice for a size that was fixed on the line `at`; empty if its cause there is not known."""
    others, numbers, nodes = _of_same_size(context, symbol, at)
    size = symbol.specialized_to or ""
    if len(others) == 1 and not numbers:
        name = next(iter(others))
        return "" if name in _varying(context) else _advice(name, symbol.source, size)
    compared = {part for node in nodes if isinstance(node, ast.Compare) for part in ast.walk(node)}
    if len(numbers) == 1 and not others and compared.isdisjoint(numbers):
        return f"Write `{symbol.source}` in the place of the number {size} on this line, which fixes it"
    return ""


def _varying(context: Context) -> set[str]:
    """The tensors that had another size in a later compile."""
    return {
        size.name
        for recompilation in context.report.recompiles
        for entry in recompilation.entries
        for failure in entry.failures
        for size in failure.sizes
    }


def _advice(name: str, source: str, size: str) -> str:
    if "." in name:
        size_of = f"`{name}` has size {size} there"
        return (
            f"{size_of}: slice it to `{source}` if no input is larger, or, if its rows are "
            "equal, create it with size 1 and expand it"
        )
    return (
        f"`{name}` has size {size} there: mark its size dynamic as well, unless it is an nn.Parameter, of which torch "
        "keeps the sizes fixed"
    )


def _tensors(context: Context, at: Location, nodes: list[ast.AST], size: str) -> Iterator[str]:
    """The attributes and the parameters on the line that are tensors with that size."""
    file, values = context.report.facts.files.get(at.path), context.report.facts.values
    if file is None:
        return
    parameters = {name for frame in context.report.frames for name in frame.parameters}
    for node in nodes:
        if not isinstance(node, (ast.Attribute, ast.Name)):
            continue
        name = ast.unparse(node)
        if not name.startswith("self.") and name not in parameters:
            continue  # a value that the function computed has the size of what it was computed from
        start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        for fact in file.facts:
            if ((fact.line, fact.column), (fact.end_line, fact.end_column)) == (start, end):
                shapes = (values[index] for index, _ in fact.values if values[index].kind is FactKind.TENSOR)
                if any(size in _sizes(value.text) for value in shapes):
                    yield name


def _sizes(text: str) -> list[str]:
    match = _SHAPE.match(text)
    return [part.strip() for part in match["sizes"].split(",")] if match is not None else []


def _is_within(node: ast.AST, at: Location) -> bool:
    line = getattr(node, "lineno", None)
    return line is not None and at.line <= line <= (at.end_line or at.line)
