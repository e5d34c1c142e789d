"""Devices in code that launches Triton kernels, on a machine without a GPU.

Such code refuses tensors of the CPU, or takes another way for them, and a library of kernels makes tensors with
`device="cuda"`. Invariant: positions of the tree stay as they are, and code that does not import Triton is as it was.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.machinery
import re
from collections.abc import Collection, Iterator
from types import CodeType
from typing import Any

from fuselight.shared.kernel_files import is_of_kernel_library

_CUDA = re.compile(r"^cuda(:\d+)?$")
_OTHER = {"cuda": "cpu", "cpu": "cuda"}
_DEVICE_NAMES = frozenset({"device", "device_type", "device_types"})
STREAMS = frozenset({"Event", "Stream"})
"""Classes of torch, torch.cuda and torch.cpu."""
_ANSWERED = "_fuselight_answered"
"""Marks a comparison that was changed: a tree may be compiled several times."""
_NEVER = frozenset({"torch", "triton", "fuselight", "numpy", "torchvision", "torchaudio"})
"""Packages whose code stays as it is."""


def imports_triton(tree: ast.AST) -> bool:
    """Whether a module imports Triton, anywhere."""
    return any(
        (
            isinstance(node, ast.Import)
            and any(alias.name.partition(".")[0] == "triton" for alias in node.names)
        )
        or (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "triton")
        for node in ast.walk(tree)
    )


def answer_comparisons(tree: ast.AST) -> None:
    """Have `x.device.type == "cuda"` be true of a tensor of the CPU, and `== "cpu"` be false, in place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.comparators) == 1 and not hasattr(node, _ANSWERED):
            setattr(node, _ANSWERED, True)
            sides = [node.left, node.comparators[0]]
            for side, other in (sides, sides[::-1]):
                if _is_type_of_device(side):
                    _exchange(other)


def _is_type_of_device(node: ast.expr) -> bool:
    """Whether this is `x.device.type`. A device by itself, as `device.type`, may be one that the program chose."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "type"
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "device"
    )


def _exchange(node: ast.expr) -> None:
    """Exchange the names of the devices in a text, or in each text of a tuple, list or set."""
    for item in node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]:
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            item.value = _OTHER.get(item.value, item.value)


def on_cpu_streams(node: ast.Attribute, torch_names: Collection[str]) -> bool:
    """Change `torch.Stream` and `torch.cuda.Event` to those of `torch.cpu`, in place, and say whether it is such."""
    owner = node.value
    if node.attr not in STREAMS:
        return False
    if isinstance(owner, ast.Attribute) and owner.attr == "cuda" and _is_one_of(owner.value, torch_names):
        owner.attr = "cpu"
        return True
    if _is_one_of(owner, torch_names):
        node.value = ast.copy_location(ast.Attribute(owner, "cpu", ast.Load()), owner)
        return True
    return False


def _is_one_of(node: ast.expr, names: Collection[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def redirect_library(tree: ast.AST) -> None:
    """Have a library's module make its tensors on the CPU; only where a text is clearly a device. In place."""
    answer_comparisons(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in _DEVICE_NAMES:
            node.value = _on_cpu(node.value)
        elif isinstance(node, ast.arguments):
            _redirect_defaults(node)
        elif isinstance(node, ast.Attribute):
            on_cpu_streams(node, {"torch"})
        else:
            _redirect_value(node)


def _redirect_value(node: ast.AST) -> None:
    """Of a choice by `is_available()`, of a variable whose name says that it is a device, or of a call."""
    if isinstance(node, ast.IfExp):
        if any(getattr(part, "attr", "") == "is_available" for part in ast.walk(node.test)):
            _on_cpu(node)
    elif isinstance(node, ast.Assign):
        named = all(
            isinstance(name, ast.Name) and name.id.lower().endswith(("device", "dev"))
            for name in node.targets
        )
        if named or leading_text(node.value).startswith("cuda:"):
            node.value = _on_cpu(node.value)
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in {"to", "device"} and node.args:
            node.args[0] = _on_cpu(node.args[0])
        elif name == "cuda" and isinstance(node.func, ast.Attribute):
            node.func.attr, node.args, node.keywords = "cpu", [], []


def _redirect_defaults(arguments: ast.arguments) -> None:
    positional = [*arguments.posonlyargs, *arguments.args]
    last = positional[len(positional) - len(arguments.defaults) :]
    for names, defaults in ((last, arguments.defaults), (arguments.kwonlyargs, arguments.kw_defaults)):
        for at, (argument, default) in enumerate(zip(names, list(defaults), strict=True)):
            if argument.arg in _DEVICE_NAMES and default is not None:
                defaults[at] = _on_cpu(default)


def _on_cpu(node: ast.expr) -> ast.expr:
    """The device that an expression names, or the CPU for a GPU; `"cuda:" + str(rank)` and its like are one, too."""
    if isinstance(node, (ast.Tuple, ast.List)):
        node.elts = [_on_cpu(item) for item in node.elts]
    elif isinstance(node, ast.IfExp):
        node.body, node.orelse = _on_cpu(node.body), _on_cpu(node.orelse)
    elif _CUDA.match(leading_text(node)) or (
        not isinstance(node, ast.Constant) and leading_text(node).startswith("cuda:")
    ):
        return ast.copy_location(ast.Constant("cpu"), node)
    return node


def leading_text(node: ast.expr) -> str:
    """The text that an expression is, or begins with: of an f-string, `+`, `%` and `format`."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr) and node.values:
        return leading_text(node.values[0])
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        return leading_text(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return leading_text(node.func.value)
    return ""


@contextlib.contextmanager
def libraries_of_kernels_on_cpu() -> Iterator[None]:
    """Have installed modules with Triton kernels, or next to some, make tensors on the CPU, until the block ends.

    Of a module that is imported within it: the code of others is read from their bytecode, and stays as it is.
    """
    loader: Any = importlib.machinery.SourceFileLoader
    real = loader.get_code
    inherited = "get_code" not in vars(loader)

    @functools.wraps(real)
    def get_code(self: Any, fullname: str) -> CodeType | None:
        code: CodeType | None = real(self, fullname)
        if type(self) is not loader or code is None or fullname.partition(".")[0] in _NEVER:
            return code
        path = self.get_filename(fullname)
        if not _names_triton(code) and not _is_next_to_kernels(fullname, code, path):
            return code
        data = self.get_data(path)
        if b"cuda" not in data and b"cpu" not in data:
            return code
        tree = ast.parse(data, path)
        redirect_library(tree)
        changed: CodeType = compile(tree, path, "exec", dont_inherit=True)
        return changed

    loader.get_code = get_code
    try:
        yield
    finally:
        if vars(loader).get("get_code") is get_code:
            if inherited:
                del loader.get_code
            else:
                loader.get_code = real


def _is_next_to_kernels(fullname: str, code: CodeType, path: str) -> bool:
    """Whether a module that names devices is in a library of which other modules have kernels."""
    return _names_device(code) and is_of_kernel_library(fullname, path)


def _names_device(code: CodeType) -> bool:
    return "device" in code.co_names or any(
        isinstance(part, CodeType) and _names_device(part) for part in code.co_consts
    )


def _names_triton(code: CodeType) -> bool:
    """Whether the code of a module imports Triton, at its top or in a function."""
    if any(name == "triton" or name.startswith("triton.") for name in code.co_names):
        return True
    return any(isinstance(part, CodeType) and _names_triton(part) for part in code.co_consts)
