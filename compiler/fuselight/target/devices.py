"""Take a hard-coded CUDA device out of a file's syntax tree, on a machine that has no GPU.

Invariant: every node keeps its place, so that lines and columns of what runs are those of the file, and each change
is a Note. The tree is changed rather than torch: a wrapper around torch's functions would be traced, guarded and
shown to the user as if it were theirs. A device that the program itself chooses by `is_available()` is left alone.
"""

from __future__ import annotations

import ast
import re

from fuselight.report import Location, Note

_CUDA = re.compile(r"^cuda(:\d+)?$")


def redirect_devices(tree: ast.Module, path: str) -> list[Note]:
    """Change `tree` in place: `.cuda()` to `.cpu()`, "cuda" to "cpu". One Note a line."""
    redirection = _Redirection()
    redirection.visit(tree)
    notes = []
    for line, (node, text) in sorted(redirection.changed.items()):
        location = Location(path, line, node.col_offset, node.end_lineno, node.end_col_offset)
        notes.append(
            Note(
                "device_redirected", f"{text} runs on the CPU here: this machine has no CUDA device", location
            )
        )
    return notes


class _Redirection(ast.NodeTransformer):
    def __init__(self) -> None:
        self.changed: dict[int, tuple[ast.expr, str]] = {}

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and _CUDA.match(node.value):
            self._note(node, repr(node.value))
            return ast.copy_location(ast.Constant("cpu"), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "cuda":
            self._note(node, ".cuda()")
            function.value = self.visit(function.value)
            function.attr = "cpu"
            node.args, node.keywords = [], []
            return node
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return node if _asks_for_cuda(node.test) else self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Leave `device == "cuda"` as it is: of a device that became the CPU it is rightly false."""
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """Keep keys: two of them could become one."""
        node.values = [self.visit(value) for value in node.values]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        node.subject = self.visit(node.subject)
        for case in node.cases:
            case.body = [self.visit(statement) for statement in case.body]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def _note(self, node: ast.expr, text: str) -> None:
        self.changed.setdefault(node.lineno, (node, text))


def _asks_for_cuda(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "is_available" for node in ast.walk(test))
