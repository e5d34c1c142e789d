"""Replaces a hard-coded CUDA device in a syntax tree, on a machine without a GPU.

Invariant: every node keeps its position, so that lines and columns of the running code are those of the file, and each
change is a Note. The tree is changed rather than torch: a wrapper around torch's functions would be traced, guarded and
shown as user code. A program's own choice by `is_available()` stays, and features without a CPU counterpart
(`torch.cuda.get_device_properties`, a CUDA graph) fail on their own line.
"""

from __future__ import annotations

import ast
import re

from fuselight.capture.calls.kernel_devices import answer_comparisons, imports_triton
from fuselight.shared.report import Location, Note

_CUDA = re.compile(r"^cuda(:\d+)?$")
_ON_CPU = frozenset(
    {"Event", "Stream", "current_device", "current_stream", "set_device", "stream", "synchronize"}
)
"""Names that torch.cuda and torch.cpu share."""
_AMP = frozenset({"GradScaler", "autocast"})
"""Names that torch.cuda.amp and torch.cpu.amp share: the former do nothing without a GPU, with a warning at most."""
_OTHER_DEVICES = frozenset({"cpu", "mps", "xpu", "xla", "hpu", "mtia", "npu", "meta"})
_METHODS = frozenset({"cuda", "pin_memory"})
"""Methods that move a tensor or module, or ready it for that: `cpu()` is the move that always works."""


def redirect_devices(tree: ast.AST, path: str, *, numbers: bool = False) -> list[Note]:
    """Change `tree` in place: `.cuda()` to `.cpu()`, "cuda" to "cpu", `torch.cuda` to `torch.cpu`. One Note a line.

    `numbers`: whether a device may be a number, as in `.to(rank)`; a variable is asked when it is used. Code that
    imports Triton believes that tensors are on a GPU.
    """
    redirection = _Redirection(_names_of_torch(tree), numbers=numbers)
    redirection.visit(tree)
    if imports_triton(tree):
        answer_comparisons(tree)
    notes = []
    for line, (node, text) in sorted(redirection.changed.items()):
        location = Location(path, line, node.col_offset, node.end_lineno, node.end_col_offset)
        notes.append(
            Note(
                "device_redirected",
                f"{text} means the CPU in a run here: this machine has no CUDA device",
                location,
            )
        )
    return notes


def _names_of_torch(tree: ast.AST) -> frozenset[str]:
    names = {"torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.asname for alias in node.names if alias.name == "torch" and alias.asname)
    return frozenset(names)


class _Redirection(ast.NodeTransformer):
    def __init__(self, torch_names: frozenset[str], *, numbers: bool = False) -> None:
        self._torch_names = torch_names
        self._numbers = numbers
        self.changed: dict[int, tuple[ast.expr | ast.stmt, str]] = {}
        self._is_choice = False
        """Whether the visited branch is the program's own choice by a device: what it chooses may well be the CPU."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and _CUDA.match(node.value):
            self._note(node, repr(node.value))
            return ast.copy_location(ast.Constant("cpu"), node)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Replace `f"cuda:{rank}"`; any other text is no device."""
        first = node.values[0] if node.values else None
        if isinstance(first, ast.Constant) and first.value == "cuda:" and len(node.values) == 2:  # noqa: PLR2004 - it and the number
            self._note(node, ast.unparse(node))
            return ast.copy_location(ast.Constant("cpu"), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in _METHODS:
            self._note(node, f".{function.attr}()")
            function.value = self.visit(function.value)
            function.attr = "cpu"
            node.args, node.keywords = [], []
            return node
        if _is_device_with_index(node):
            node.args, node.keywords = node.args[:1], []  # to torch "cpu:0" is another device than "cpu"
        self.generic_visit(node)
        if self._numbers:
            _redirect_numbers(node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node.attr in _ON_CPU and self._is_cuda(node.value):
            self._note(node, f"torch.cuda.{node.attr}")
            node.value.attr = "cpu"  # type: ignore[attr-defined]  # `_is_cuda` has seen that it is one
            return node
        owner = node.value
        if node.attr in _AMP and isinstance(owner, ast.Attribute) and owner.attr == "amp":
            if self._is_cuda(owner.value):
                self._note(node, f"torch.cuda.amp.{node.attr}")
                owner.value.attr = "cpu"  # type: ignore[attr-defined]  # the same
            return node
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        names = {alias.name for alias in node.names}
        shared = {"torch.cuda": _ON_CPU, "torch.cuda.amp": _AMP}.get(node.module or "", frozenset())
        if not node.level and names <= shared:
            self._note(node, f"{node.module}.{min(names)}")
            node.module = (node.module or "").replace(".cuda", ".cpu")
        return node

    def visit_If(self, node: ast.If | ast.IfExp) -> ast.AST:
        if any(
            isinstance(node, ast.Attribute) and node.attr == "is_available" for node in ast.walk(node.test)
        ):
            return node
        around = self._is_choice
        self._is_choice = around or _asks_for_cuda(node.test)
        self.generic_visit(node)
        self._is_choice = around
        return node

    visit_IfExp = visit_If  # noqa: N815 - the name that NodeTransformer calls

    def visit_Tuple(self, node: ast.Tuple | ast.List | ast.Set) -> ast.AST:
        """Of a list of the devices that the code knows, such as `("cpu", "cuda")`, none is the one that it uses."""
        around = self._is_choice
        self._is_choice = around or any(
            isinstance(element, ast.Constant) and element.value in _OTHER_DEVICES for element in node.elts
        )
        self.generic_visit(node)
        self._is_choice = around
        return node

    visit_List = visit_Tuple  # noqa: N815 - the names that NodeTransformer calls
    visit_Set = visit_Tuple  # noqa: N815 - the same

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Leave `device == "cuda"` as it is: of a device that became the CPU it is rightly false."""
        node.left = self._operand(node.left)
        node.comparators = [self._operand(operand) for operand in node.comparators]
        return node

    def _operand(self, node: ast.expr) -> ast.expr:
        if isinstance(node, (ast.Constant, ast.Tuple, ast.List, ast.Set)):
            return node
        visited: ast.expr = self.visit(node)
        return visited

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """Keep keys: two of them could become one."""
        node.values = [self.visit(value) for value in node.values]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        node.subject = self.visit(node.subject)
        for case in node.cases:
            case.body = [self.visit(statement) for statement in case.body]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def _is_cuda(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Attribute)
            and node.attr == "cuda"
            and isinstance(node.value, ast.Name)
            and node.value.id in self._torch_names
        )

    def _note(self, node: ast.expr | ast.stmt, text: str) -> None:
        if not self._is_choice:
            self.changed.setdefault(node.lineno, (node, text))


def _redirect_numbers(node: ast.Call) -> None:
    """Replace `x.to(rank)` and `device=rank` by the CPU where the variable is a number."""
    name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
    if name in {"to", "device"} and node.args:
        node.args[0] = _unless_number(node.args[0])
    for keyword in node.keywords:
        if keyword.arg == "device":
            keyword.value = _unless_number(keyword.value)


def _unless_number(value: ast.expr) -> ast.expr:
    """`"cpu" if type(rank) is int else rank`, of a variable or an attribute; the CPU for a written number."""
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return ast.copy_location(ast.Constant("cpu"), value)
    if not isinstance(value, (ast.Name, ast.Attribute)):
        return value
    text = ast.unparse(value)
    choice = ast.parse(f'"cpu" if type({text}) is int else {text}', mode="eval").body
    for node in ast.walk(choice):
        ast.copy_location(node, value)
    return choice


def _is_device_with_index(node: ast.Call) -> bool:
    """Whether this is `torch.device("cuda", 0)`."""
    name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
    first = node.args[0] if node.args else None
    return name == "device" and isinstance(first, ast.Constant) and first.value == "cuda"


def _asks_for_cuda(test: ast.expr) -> bool:
    """Whether this is `"cuda" in args.device`, `device.type == "cuda"` or `x.is_cuda`."""
    return any(isinstance(node, ast.Attribute) and node.attr == "is_cuda" for node in ast.walk(test)) or any(
        isinstance(operand, ast.Constant) and isinstance(operand.value, str) and _CUDA.match(operand.value)
        for node in ast.walk(test)
        if isinstance(node, ast.Compare)
        for operand in (node.left, *node.comparators)
    )
