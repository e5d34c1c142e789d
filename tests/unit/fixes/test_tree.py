"""What a name does in its place: it is read, bound, or a label of something else."""

from __future__ import annotations

import libcst as cst
import pytest

from fuselight_server.fixes.syntax.tree import SyntaxTree, descendants, parsed_source


def roles(statement: str, name: str) -> list[str]:
    """The role of each occurrence of a name in a statement, in the order of the text."""
    tree = SyntaxTree(statement, *parsed_source(statement))
    names = [node for node in descendants(tree.module) if isinstance(node, cst.Name) and node.value == name]
    return [
        "bound" if tree.is_bound_at(node) else "read" if tree.is_read_at(node) else "label"
        for node in sorted(names, key=tree.range_of)
    ]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("x = x + 1\n", ["bound", "read"]),
        ("x[0] = x\n", ["read", "read"]),
        ("x.x = 0\n", ["read", "label"]),
        ("f(x=x)\n", ["label", "read"]),
        ("(a, *x), b = x\n", ["bound", "read"]),
        ("x += x\n", ["bound", "read"]),
        ("y = [x for x in x]\n", ["read", "bound", "read"]),
        ("(x := x)\n", ["bound", "read"]),
        ("with x as x: pass\n", ["read", "bound"]),
        ("def x(a): pass\n", ["bound"]),
        ("def f(x, a=x): pass\n", ["bound", "read"]),
        ("def f(a: x): pass\n", ["read"]),
        ("class x(x): pass\n", ["bound", "read"]),
        ("import x\n", ["bound"]),
        ("import x.y.z\n", ["bound"]),
        ("import x.y as z\n", ["label"]),
        ("from x.y import z\n", ["label"]),
        ("from x import a as x\n", ["label", "bound"]),
        ("from a import x as b\n", ["label"]),
        ("del x\n", ["bound"]),
        ("match a:\n    case [x, *b]: x\n", ["bound", "read"]),
    ],
)
def test_the_role_of_a_name(statement: str, expected: list[str]) -> None:
    assert roles(statement, "x") == expected
