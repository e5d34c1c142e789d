"""Elements of dicts and sets that torch names by their position, as the line that reads them names them.

`self.state[list(self.state)[3]]['step']` is `s['step']` on the line `s["step"] += 1`. Invariant: a name is one that
the line has, and the only one on it that fits; else the element is named by its number.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable, Iterator

from fuselight.shared.report import GuardFailure
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import tree_around

_ELEMENT = re.compile(
    r"(?P<entry>[\w.]+\[)?list\((?P<owner>[\w.]+)\)\[(?P<number>\d+)\](?(entry)\])(?P<rest>[^()]*)$"
)
_ATTRIBUTE = re.compile(r"(?P<entry>)(?P<owner>\w+)(?P<number>)(?P<rest>\.\w+)$")
"""That of a class, which a line may read as `type(self).calls`."""
_LAST = re.compile(r"(?:\.\w+|\[(?:\d+|'[^'\[\]]*')\])$")


def with_element_name(context: Context, failure: GuardFailure) -> GuardFailure:
    """The failure with the name that its line has for an element; as it is if it is on no element, or on a key."""
    is_of_class = failure.expression.startswith(("type(", "dict(type("))
    element = (_ATTRIBUTE if is_of_class else _ELEMENT).match(failure.source)
    if element is None or not (element["entry"] or element["rest"]):
        return failure
    place = context.innermost_user_frame(failure.born)
    tree = tree_around(context, place) if place is not None else None
    nodes = list(ast.walk(tree or ast.Module([], [])))
    line = place.line if place is not None else 0
    names = set(_on_line(nodes, line, element["owner"], element["rest"]))
    if not names and not element["rest"]:
        names = {
            name for node in nodes if isinstance(node, ast.For) for name in _of_loop(node, element["owner"])
        }
    if len(names) == 1:
        name = names.pop()
    elif element["rest"]:
        return failure
    else:
        name = f"value {element['number']} of {element['owner']}"
    difference = failure.difference.replace(failure.source, name)
    return dataclasses.replace(failure, source=name, difference=difference)


def _on_line(nodes: Iterable[ast.AST], line: int, owner: str, rest: str) -> Iterator[str]:
    """The expressions of a line that may be the element, or the part of it that `rest` leads to."""
    last = _LAST.search(rest)
    for node in nodes:
        if not isinstance(node, (ast.Attribute, ast.Subscript)) or node.lineno != line:
            continue
        text = ast.unparse(node)
        if last is not None and text.endswith(last[0]):
            yield text
        elif not rest and isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            yield from [text] if _is_same(ast.unparse(node.value), owner) else []


def _of_loop(loop: ast.For, owner: str) -> Iterator[str]:
    """`self.scales[key]` for the loop `for key, scale in self.scales.items()`."""
    called = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    is_of_items = isinstance(called, ast.Attribute) and called.attr == "items"
    if is_of_items and isinstance(called, ast.Attribute) and isinstance(loop.target, ast.Tuple):
        text = ast.unparse(called.value)
        if _is_same(text, owner):
            yield f"{text}[{ast.unparse(loop.target.elts[0])}]"


def _is_same(text: str, owner: str) -> bool:
    """Whether two expressions end in the same name: a method says `self.state` for the `state` of `optimizer`."""
    return text.rpartition(".")[2] == owner.rpartition(".")[2]
