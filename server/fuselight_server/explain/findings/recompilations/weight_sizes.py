"""Sizes that a weight fixes: no call can pass another size, so nothing has to be dynamic there.

Invariant: an answer is certain. The size was fixed inside a layer of torch's that has weights of that size, or on a
line whose operator needs the size of a tensor that is no argument, and nothing else on the line has that size.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import TypeGuard

from fuselight.shared.report import Fact, FactKind, FileFacts, Location, Symbol
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import tree_around

_SIZE_OF = re.compile(r"(?P<tensor>.+)\.size\((?P<dimension>\d+)\)$")
_SHAPE = re.compile(r"\w+\[(?P<sizes>[^\]]*)\]")
_LAYERS = frozenset({"batchnorm", "conv", "instancenorm", "linear", "normalization", "rnn"})
"""Modules of torch.nn whose layers take only the number of features that they were made for."""
_LAST_DIMENSION_LAYERS = frozenset({"activation", "transformer"})
"""Those whose other dimensions may be any size, as of attention."""
_MULTIPLYING = re.compile(
    r"(?:linear|bilinear|matmul|mm|addmm|bmm|conv\dd|conv_transpose\dd|(?:layer|batch|rms)_norm)$"
)


def weight_of_size(context: Context, symbol: Symbol, at: Location | None) -> str:
    """What has the size to which a symbol was fixed at the line `at`; empty unless no other size can come."""
    match = _SIZE_OF.match(symbol.source)
    if match is None or symbol.specialized_to is None:
        return ""
    layer = _layer_of(symbol)
    if layer in _LAYERS:
        return "the layer"
    if at is None:
        return ""
    dimension = int(match["dimension"])
    is_last = any(
        len(sizes) == dimension + 1 and sizes[-1] == symbol.specialized_to
        for sizes in _sizes_of(context, at.path, match["tensor"])
    )
    if layer in _LAST_DIMENSION_LAYERS and is_last:
        return "the layer"
    tree, file = tree_around(context, at), context.report.facts.files.get(at.path)
    if tree is None or file is None or not symbol.stack or not _is_same_line(symbol.stack[-1], at):
        return ""
    weights = dict.fromkeys(_weights(context, tree, file, at, symbol.specialized_to, is_last=is_last))
    return f"`{next(iter(weights))}`" if len(weights) == 1 else ""


def _layer_of(symbol: Symbol) -> str:
    """The module of torch.nn in which the size was fixed."""
    path = PurePath(symbol.stack[-1].path) if symbol.stack else PurePath()
    return path.stem if path.parts[-4:-1] == ("torch", "nn", "modules") else ""


def _is_same_line(place: Location, at: Location) -> bool:
    return (place.path, place.line) == (at.path, at.line)


def _weights(
    context: Context, tree: ast.Module, file: FileFacts, at: Location, size: str, *, is_last: bool
) -> Iterator[str]:
    """The tensors of the size that operators on the line need, and that the function gets from elsewhere.

    Such a tensor (a weight, a buffer) fixes the size, so marking the input's size as dynamic cannot cure. That is said
    only if a single expression of the line has the size and no literal has it; with two, either could be the reason.
    """
    nodes = [
        node for node in ast.walk(tree) if at.line <= getattr(node, "lineno", 0) <= (at.end_line or at.line)
    ]
    others = [node for node in nodes if _is_name(node) and _has(size, _shapes_at(context, file, node))]
    numbers = [node for node in nodes if isinstance(node, ast.Constant) and str(node.value) == size]
    local = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    local |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    outer = [node for node in others if not (isinstance(node, ast.Name) and node.id in local)]
    outer += [node for node in nodes if _is_result(node) and _has(size, _shapes_at(context, file, node))]
    if len({ast.unparse(node) for node in outer}) != 1 or numbers:
        return
    for node in nodes:
        is_product, operands = _operands(node)
        for operand in operands:
            if operand not in outer:
                continue
            shapes = list(_shapes_at(context, file, operand))
            if _is_result(operand):
                is_features = is_last and all(sizes[-1:] == [size] for sizes in shapes)
                yield from [ast.unparse(operand)] if is_features else []
            elif is_product or (is_last and all(len(sizes) == 1 for sizes in shapes)):
                yield ast.unparse(operand)


def _operands(node: ast.AST) -> tuple[bool, list[ast.expr]]:
    """The names among the operands of an operator, and whether it is one of matrices or of features."""
    is_product, operands = False, list[ast.expr]()
    if isinstance(node, ast.BinOp):
        is_product, operands = isinstance(node.op, ast.MatMult), [node.left, node.right]
    elif isinstance(node, ast.Call) and _MULTIPLYING.match(ast.unparse(node.func).rpartition(".")[2]):
        is_product, operands = True, list(node.args)
    operands = list(map(_untransposed, operands))
    return is_product, [operand for operand in operands if _is_name(operand) or _is_result(operand)]


def _is_result(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether it is the result of a layer: `self.net(x)`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("self.")


def _untransposed(node: ast.expr) -> ast.expr:
    """`self.weight` of `self.weight.t()`."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"t", "transpose"}
    ):
        return node.func.value
    if isinstance(node, ast.Attribute) and node.attr in {"T", "mT"}:
        return node.value
    return node


def _is_name(node: ast.AST) -> TypeGuard[ast.expr]:
    return isinstance(node, ast.Name) or (
        isinstance(node, ast.Attribute) and ast.unparse(node).startswith("self.")
    )


def _has(size: str, shapes: Iterable[list[str]]) -> bool:
    return any(size in sizes for sizes in shapes)


def _shapes_at(context: Context, file: FileFacts, node: ast.expr) -> Iterator[list[str]]:
    """The shapes of the tensors that an expression was in the run: objects of a class have weights of other sizes."""
    place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    for fact in file.facts:
        if (fact.line, fact.column, fact.end_line, fact.end_column) == place:
            yield from _shapes(context, fact)


def _sizes_of(context: Context, path: str, tensor: str) -> Iterator[list[str]]:
    """All shapes of a tensor by its name, where the run has its values."""
    file = context.report.facts.files.get(path)
    for fact in file.facts if file is not None else ():
        line = (context.read_line(path, fact.line) or "").encode()
        if fact.line == fact.end_line and line[fact.column : fact.end_column] == tensor.encode():
            yield from _shapes(context, fact)


def _shapes(context: Context, fact: Fact) -> Iterator[list[str]]:
    for index, _ in fact.values:
        value = context.report.facts.values[index]
        match = _SHAPE.match(value.text) if value.kind is FactKind.TENSOR else None
        if match is not None:
            yield [part.strip() for part in match["sizes"].split(",")]
