"""Activations that write into their argument, where it is a new tensor that nothing else reads.

Invariant: the argument is what arithmetic or a layer of torch has just made, so that no caller sees the change. Whether
autograd still has what it needs is for those who try the edit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from fuselight.shared.report import EditKind
from fuselight_server.fixes.rewrites.memory_edit import MemoryEdit, full_name, imports_of, ordered_calls
from fuselight_server.fixes.syntax.file_tree import Change, FileTree
from fuselight_server.fixes.syntax.tree import descendants

_FUNCTIONS = frozenset(
    f"torch.nn.functional.{name}"
    for name in (
        *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "hardtanh", "silu", "mish"),
        *("hardswish", "hardsigmoid", "dropout"),
    )
)
"""Those with an argument `inplace`."""
_UNDERSCORED = frozenset({"torch.relu", "torch.sigmoid", "torch.tanh"})
_MODULES = frozenset(
    f"torch.nn.{name}"
    for name in (
        *("ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "Hardtanh", "SiLU", "Mish"),
        *("Hardswish", "Hardsigmoid", "Dropout"),
    )
)
_LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in (
        *("Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d"),
        *("ConvTranspose3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm", "GroupNorm"),
        *("RMSNorm", "Embedding"),
    )
)
"""Layers whose result is always a new tensor."""


def in_place_activations(tree: FileTree, lines: Collection[int]) -> Iterator[MemoryEdit]:
    """Each activation of the lines, and those that a file constructs after a layer, all of a class at once."""
    imports = imports_of(tree.path, tree.source)
    for node in ordered_calls(tree):
        if tree.line(node) in lines:
            change = _of_function(tree, imports, node)
            new = tree.changed({node: change}) if change is not None else None
            if new is not None:
                title = f"`{' '.join(tree.code(node.func).split())}` in place"
                yield MemoryEdit(EditKind.IN_PLACE, title, tree.path, tree.line(node), new)
    for name in sorted(_MODULES):
        constructors = [
            node for node in _after_layers(tree, imports) if full_name(imports, node.func) == name
        ]
        new = tree.changed(dict.fromkeys(constructors, _with_flag)) if constructors else None
        if new is not None:
            title = f"`{tree.code(constructors[0].func)}` in place"
            yield MemoryEdit(EditKind.IN_PLACE, title, tree.path, min(map(tree.line, constructors)), new)


def _of_function(tree: FileTree, imports: dict[str, str], node: cst.Call) -> Change | None:
    name = full_name(imports, node.func)
    if name not in _FUNCTIONS | _UNDERSCORED or not node.args or _has_flag(node):
        return None
    first = node.args[0]
    if first.keyword is not None or first.star or not _is_new(tree, imports, node, first.value):
        return None
    return _with_flag if name in _FUNCTIONS else _underscored


def _has_flag(node: cst.Call) -> bool:
    return any(
        argument.star or (argument.keyword is not None and argument.keyword.value == "inplace")
        for argument in node.args
    )


def _with_flag(node: cst.CSTNode) -> cst.Call:
    call = cst.ensure_type(node, cst.Call)
    blank = cst.SimpleWhitespace("")
    flag = cst.Arg(cst.Name("True"), keyword=cst.Name("inplace"), equal=cst.AssignEqual(blank, blank))
    return call.with_changes(args=[*call.args, flag])


def _underscored(node: cst.CSTNode) -> cst.Call:
    call = cst.ensure_type(node, cst.Call)
    if isinstance(call.func, cst.Attribute):
        func: cst.BaseExpression = call.func.with_changes(attr=cst.Name(f"{call.func.attr.value}_"))
    else:  # imported by its own name: `from torch import relu`
        func = call.func
    return call.with_changes(func=func)


def _is_new(tree: FileTree, imports: dict[str, str], node: cst.Call, value: cst.BaseExpression) -> bool:
    """Whether an argument is a tensor that was just made, and that nothing else can read."""
    if isinstance(value, cst.BinaryOperation):
        return True
    if isinstance(value, cst.Call):
        return _is_layer_call(tree, imports, value)
    return isinstance(value, cst.Name) and _is_replaced(tree, imports, node, value)


def _is_layer_call(tree: FileTree, imports: dict[str, str], call: cst.Call) -> bool:
    """Whether `self.NAME` is called, which the class has made as a layer once."""
    func = call.func
    if (
        not isinstance(func, cst.Attribute)
        or not isinstance(func.value, cst.Name)
        or func.value.value != "self"
    ):
        return False
    owner = next((outer for outer in tree.ancestors(call) if isinstance(outer, cst.ClassDef)), None)
    if owner is None:
        return False
    constructors = [
        node.value
        for node in descendants(owner)
        if isinstance(node, (cst.Assign, cst.AnnAssign))
        for target in (
            [item.target for item in node.targets] if isinstance(node, cst.Assign) else [node.target]
        )
        if isinstance(target, cst.Attribute) and target.attr.value == func.attr.value
    ]
    return (
        len(constructors) == 1
        and isinstance(constructors[0], cst.Call)
        and full_name(imports, constructors[0].func) in _LAYERS
    )


def _is_replaced(tree: FileTree, imports: dict[str, str], node: cst.Call, name: cst.Name) -> bool:
    """Whether the statement before binds the name to a new tensor, and this one, `x = relu(x)`, binds it again."""
    statement = tree.line_of(node)
    block = tree.parents.get(statement) if statement is not None else None
    body = list(getattr(block, "body", ()))
    if statement is None or statement not in body or body.index(statement) == 0:
        return False
    now, before = _assigned(statement), _assigned(body[body.index(statement) - 1])
    if now is None or before is None or not now[0] == before[0] == name.value or now[1] is not node:
        return False
    if [read.value for read in tree.loads(node, name.value)] != [name.value]:
        return False
    value = before[1]
    is_layer = isinstance(value, cst.Call) and _is_layer_call(tree, imports, value)
    return is_layer or isinstance(value, cst.BinaryOperation)


def _assigned(statement: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    """The name and the value of `name = value`, alone on its line."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    assign = statement.body[0]
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return None
    target = assign.targets[0].target
    return (target.value, assign.value) if isinstance(target, cst.Name) else None


def _after_layers(tree: FileTree, imports: dict[str, str]) -> Iterator[cst.Call]:
    """The modules of activations in `nn.Sequential(...)` that follow a layer there, or another such activation."""
    for node in ordered_calls(tree):
        if full_name(imports, node.func) != "torch.nn.Sequential":
            continue
        follows = False
        for argument in node.args:
            value = argument.value
            name = full_name(imports, value.func) if isinstance(value, cst.Call) and not argument.star else ""
            if isinstance(value, cst.Call) and follows and name in _MODULES and not _has_flag(value):
                yield value
            follows = name in _LAYERS or (follows and name in _MODULES)
