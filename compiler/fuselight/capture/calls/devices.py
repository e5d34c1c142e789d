"""Replaces a hard-coded CUDA device in a syntax tree, on a machine without a GPU.

Invariant: every node keeps its position, so that lines and columns of the running code are those of the file, and each
change is a Note. The tree is changed rather than torch: a wrapper around torch's functions would be traced, guarded and
shown as user code. A program's own choice by `is_available()` stays, questions about the GPU are answered
(adapters.torch_api.device_questions), and features without a CPU counterpart (a CUDA graph) fail on their own line.
"""

from __future__ import annotations

import ast
import re

from fuselight.capture.calls.kernel_devices import (
    STREAMS,
    answer_comparisons,
    imports_triton,
    leading_text,
    on_cpu_streams,
)
from fuselight.shared.report import Location, Note

_CUDA = re.compile(r"^cuda(:\d+)?$")
_ON_CPU = frozenset({*STREAMS, "current_stream", "stream", "synchronize"})
"""Names that torch.cuda and torch.cpu share, except for questions about the device."""
_INDEX = frozenset({"current_device", "current_device_index", "current_device_idx"})
"""Functions that return the index of the device, which may be used as the device."""
_SELECTIONS = _INDEX | {"set_device", "set_device_index", "set_device_idx"}
_WORDS = ("cuda", "triton", "accelerator", "Event", "Stream")
_AMP = frozenset({"GradScaler", "autocast"})
"""Names that torch.cuda.amp and torch.cpu.amp share: the former do nothing without a GPU, with a warning at most."""
_SHARED = {
    "torch": ("torch.cpu", STREAMS),
    "torch.cuda": ("torch.cpu", _ON_CPU),
    "torch.cuda.amp": ("torch.cpu.amp", _AMP),
}
"""Where the names are imported from in place of a module."""
_OTHER_DEVICES = frozenset({"cpu", "mps", "xpu", "xla", "hpu", "mtia", "npu", "meta"})
_METHODS = frozenset({"cuda", "pin_memory"})
"""Methods that move a tensor or module, or ready it for that: `cpu()` is the move that always works."""


def may_name_device(text: str) -> bool:
    """Whether a module with this text may name a device."""
    return any(word in text for word in _WORDS)


def redirect_devices(tree: ast.AST, path: str, *, numbers: bool = False) -> list[Note]:
    """Change `tree` in place: `.cuda()` to `.cpu()`, "cuda" to "cpu", `torch.cuda` to `torch.cpu`. One Note a line.

    `numbers`: whether a device may be a number, as in `.to(rank)`, which it may in code that asks for the index of the
    device or selects one; a variable is asked when it is used. Code that imports Triton believes that tensors are on a
    GPU.
    """
    redirection = _Redirection(_names_of_torch(tree), numbers=numbers or _selects_device(tree))
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

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Replace `"cuda:" + str(rank)` and `"cuda:%d" % rank`."""
        if leading_text(node).startswith("cuda:"):
            self._note(node, ast.unparse(node))
            return ast.copy_location(ast.Constant("cpu"), node)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if leading_text(node).startswith("cuda:"):  # of `"cuda:{}".format(rank)`
            self._note(node, ast.unparse(node))
            return ast.copy_location(ast.Constant("cpu"), node)
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
        if node.attr == "index" and isinstance(node.ctx, ast.Load) and _is_device_of(node.value):
            self.generic_visit(node)
            choice = ast.BoolOp(ast.Or(), [node, ast.copy_location(ast.Constant(0), node)])
            return ast.copy_location(choice, node)
        is_of_cuda = self._is_cuda(node.value)
        if on_cpu_streams(node, self._torch_names):
            self._note(node, f"torch.cuda.{node.attr}" if is_of_cuda else f"torch.{node.attr}")
            return node
        if node.attr in _ON_CPU and is_of_cuda:
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

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.ImportFrom]:
        module = node.module or ""
        on_cpu, shared = _SHARED.get("" if node.level else module, ("", frozenset()))
        moved = [alias for alias in node.names if alias.name in shared]
        if not moved:
            return node
        self._note(node, f"{module}.{min(alias.name for alias in moved)}")
        others = [alias for alias in node.names if alias.name not in shared]
        parts = [ast.copy_location(ast.ImportFrom(on_cpu, moved, 0), node)]
        return [ast.copy_location(ast.ImportFrom(module, others, 0), node), *parts] if others else parts

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
        """Visit what is compared or looked up, unless it is written out."""
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
        node.slice = self._operand(node.slice)
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
    name = _name_of(node)
    if name in {"to", "device", "set_default_device"} and node.args:
        node.args[0] = _unless_number(node.args[0])
    for keyword in node.keywords:
        if keyword.arg in {"device", "device_id", "map_location"}:
            keyword.value = _unless_number(keyword.value)


def _unless_number(value: ast.expr) -> ast.expr:
    """`"cpu" if type(rank) is int else rank`, of a variable or an attribute; the CPU for the index of a device."""
    if (isinstance(value, ast.Constant) and type(value.value) is int) or (
        isinstance(value, ast.Call) and _name_of(value) in _INDEX
    ):
        return ast.copy_location(ast.Constant("cpu"), value)
    if not isinstance(value, (ast.Name, ast.Attribute)):
        return value
    text = ast.unparse(value)
    choice = ast.parse(f'"cpu" if type({text}) is int else {text}', mode="eval").body
    for node in ast.walk(choice):
        ast.copy_location(node, value)
    return choice


def _selects_device(tree: ast.AST) -> bool:
    """Whether code asks for the index of the device or selects one."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr in _SELECTIONS)
        or (isinstance(node, ast.alias) and node.name in _SELECTIONS)
        for node in ast.walk(tree)
    )


def _name_of(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def _is_device_of(node: ast.expr) -> bool:
    """Whether this is `x.device`."""
    return isinstance(node, ast.Attribute) and node.attr == "device"


def _is_device_with_index(node: ast.Call) -> bool:
    """Whether this is `torch.device("cuda", 0)`."""
    first = node.args[0] if node.args else None
    return _name_of(node) == "device" and isinstance(first, ast.Constant) and first.value == "cuda"


def _asks_for_cuda(test: ast.expr) -> bool:
    """Whether this is `"cuda" in args.device`, `device.type == "cuda"` or `x.is_cuda`."""
    return any(isinstance(node, ast.Attribute) and node.attr == "is_cuda" for node in ast.walk(test)) or any(
        isinstance(operand, ast.Constant) and isinstance(operand.value, str) and _CUDA.match(operand.value)
        for node in ast.walk(test)
        if isinstance(node, ast.Compare)
        for operand in (node.left, *node.comparators)
    )
