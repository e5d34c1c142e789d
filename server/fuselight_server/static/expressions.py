"""Syntax nodes to `Expression`: only the shapes that can name, call or wrap what is compiled."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fuselight_server.static.facts import Expression

if TYPE_CHECKING:
    from tree_sitter import Node

_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_SPACE = re.compile(r"\s+")
_SHOWN = 120
_DEPTH = 12
"""Levels that are followed; generated code can nest calls thousands deep."""


def text_of(node: Node) -> str:
    """The node's source."""
    return (node.text or b"").decode("utf-8", "replace")


def flat(node: Node) -> str:
    """The node's source without white space and line continuations."""
    return _SPACE.sub("", text_of(node).replace("\\", ""))


def expression(node: Node, depth: int = 0) -> Expression:
    """The expression at `node`."""
    while node.type in {"parenthesized_expression", "await", "subscript", "named_expression"}:
        inner = node.child_by_field_name("value") or next(
            (c for c in node.named_children if c.type != "comment"), None
        )
        if inner is None:
            break
        node = inner
    text = _SPACE.sub(" ", text_of(node))
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    if depth >= _DEPTH:
        return Expression(text)
    if node.type in {"identifier", "attribute"}:
        return _name(node, text, depth)
    if node.type == "call":
        return _call(node, text, depth)
    if node.type == "conditional_expression":
        parts = [child for child in node.named_children if child.type != "comment"]
        return Expression(text, choices=tuple(expression(part, depth + 1) for part in (parts[0], parts[-1])))
    return Expression(text)


def _name(node: Node, text: str, depth: int) -> Expression:
    dotted = flat(node) if len(text) < _SHOWN else ""
    if _DOTTED.fullmatch(dotted):
        return Expression(text, dotted=dotted)
    owner, attribute = node.child_by_field_name("object"), node.child_by_field_name("attribute")
    if owner is None or attribute is None:
        return Expression(text)
    return Expression(text, owner=expression(owner, depth + 1), attribute=text_of(attribute))


def _call(node: Node, text: str, depth: int) -> Expression:
    function, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if function is None:
        return Expression(text)
    called = expression(function, depth + 1)
    if called.dotted.rpartition(".")[2][
        :1
    ].isupper():  # a class: its arguments tell nothing, and there are many
        return Expression(text, function=called)
    arguments: list[Expression] = []
    keywords: list[tuple[str, Expression]] = []
    for child in given.named_children if given and given.type == "argument_list" else ():
        if child.type == "keyword_argument":
            name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
            if name is not None and value is not None:
                keywords.append((text_of(name), expression(value, depth + 1)))
        elif child.type != "comment":
            arguments.append(expression(child, depth + 1))
    return Expression(text, function=called, arguments=tuple(arguments), keywords=tuple(keywords))
