"""A first directive for a target, from its signature: something that runs, for the user to adjust.

Annotations are read where there are any (jaxtyping dimensions, tensors, numbers); otherwise the parameter's name
decides between tensor, token ids and plain numbers. Parameters with a default are left out. The result is valid
directive notation whatever the signature is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuselight_server.static.reading import StaticTarget

_IDS = re.compile(r"(?:.*_)?(?:ids?|idx|indices|index|tokens?|labels?|targets?)$")
_RATIO = re.compile(r"(?:.*_)?(?:p|eps|dropout|rate|lr|alpha|beta|scale|ratio|momentum|temperature)$")
_FLAG = re.compile(r"(?:is|use|has|with|enable|causal|bias)(?:_.*)?$")
_TENSOR = "f32[2, 8]"
_SIZES = (2, 8, 16, 32, 64)
"""For named dimensions, in the order in which they come up."""
_ARRAYS = {
    "BFloat16": "bf16",
    "Bool": "bool",
    "Complex": "c64",
    "Complex64": "c64",
    "Float": "f32",
    "Float16": "f16",
    "Float32": "f32",
    "Float64": "f64",
    "Inexact": "f32",
    "Int": "i64",
    "Int8": "i8",
    "Int16": "i16",
    "Int32": "i32",
    "Int64": "i64",
    "Integer": "i64",
    "Num": "f32",
    "Real": "f32",
    "Shaped": "f32",
    "UInt8": "u8",
}
"""jaxtyping's names to dtypes."""
_PLAIN = {
    "FloatTensor": _TENSOR,
    "IntTensor": "i32[2, 8] % 100",
    "LongTensor": "i64[2, 8] % 100",
    "None": "None",
    "Tensor": _TENSOR,
    "bool": "True",
    "complex": "1j",
    "float": "0.5",
    "int": "8",
    "str": '"text"',
}


@dataclass
class _Sizes:
    """Sizes given to named dimensions, the same name getting the same size."""

    given: dict[str, int]

    def of(self, name: str) -> int:
        return self.given.setdefault(name, _SIZES[min(len(self.given), len(_SIZES) - 1)])


def directive_for(target: StaticTarget, chunks: Iterable[str]) -> str:
    """The text after `# fuselight: `. `chunks` are the top-level statements of the file."""
    definitions = _definitions(target, chunks)
    sizes = _Sizes({})
    name = target.name.rpartition("<locals>.")[2]
    owner, _, last = name.rpartition(".")
    if target.kind == "module":
        call = definitions.get(f"{name}.forward")
        return f"{name}({_constructor(definitions, name)})({_arguments(call, target.parameters, sizes, method=True)})"
    if f"{owner}.__class__" in definitions:  # a method, or an attribute that __init__ compiles
        made = f"{owner}({_constructor(definitions, owner)})"
        return f"{made}.{last}({_arguments(definitions.get(name), target.parameters, sizes, method=True)})"
    wraps = target.wraps or ""
    if (
        made := wraps.partition("(")[0]
    ) != wraps and f"{made}.forward" in definitions:  # x = torch.compile(Net())
        return f"{name}({_arguments(definitions[f'{made}.forward'], target.parameters, sizes, method=True)})"
    wrapped = definitions.get(wraps) or definitions.get(name)
    return f"{name}({_arguments(wrapped, target.parameters, sizes, method=False)})"


def _definitions(target: StaticTarget, chunks: Iterable[str]) -> dict[str, cst.FunctionDef | None]:
    """Functions by qualified name, in the chunks that may define what `target` is about; a class is `Net.__class__`."""
    heads = {target.name.partition(".")[0], target.name.rpartition(".")[2]}
    heads.add((target.wraps or "").partition("(")[0].partition(".")[0])
    wanted = re.compile(rf"\b(?:def|class)\s+(?:{'|'.join(re.escape(head) for head in heads if head)})\b")
    found: dict[str, cst.FunctionDef | None] = {}
    for chunk in chunks:
        if wanted.search(chunk):
            try:
                cst.parse_module(chunk).visit(_Signatures(found))
            except (cst.ParserSyntaxError, RecursionError):
                continue
    return found


class _Signatures(cst.CSTVisitor):
    def __init__(self, found: dict[str, cst.FunctionDef | None]) -> None:
        super().__init__()
        self._found = found
        self._path: list[str] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.ClassDef, cst.FunctionDef)):
            self._path.append(node.name.value)
        if isinstance(node, cst.ClassDef):
            self._found[".".join((*self._path, "__class__"))] = None
        elif isinstance(node, cst.FunctionDef):
            self._found.setdefault(".".join(self._path), node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, (cst.ClassDef, cst.FunctionDef)):
            self._path.pop()


def _constructor(definitions: dict[str, cst.FunctionDef | None], name: str) -> str:
    function = definitions.get(f"{name}.__init__")
    return "" if function is None else _call(function.params, _Sizes({}), tensors=False, skip=1)


def _arguments(function: cst.FunctionDef | None, names: Sequence[str], sizes: _Sizes, *, method: bool) -> str:
    if function is None:
        return ", ".join(_by_name(name, tensors=True) for name in names)
    static = any(
        isinstance(item.decorator, cst.Name) and item.decorator.value == "staticmethod"
        for item in function.decorators
    )
    return _call(function.params, sizes, tensors=True, skip=1 if method and not static else 0)


def _call(parameters: cst.Parameters, sizes: _Sizes, *, tensors: bool, skip: int) -> str:
    positional = [*parameters.posonly_params, *parameters.params][skip:]
    given = [_value(item, sizes, tensors=tensors) for item in positional if item.default is None]
    given += [
        f"{item.name.value}={_value(item, sizes, tensors=tensors)}"
        for item in parameters.kwonly_params
        if item.default is None
    ]
    return ", ".join(given)


def _value(parameter: cst.Param, sizes: _Sizes, *, tensors: bool) -> str:
    if parameter.annotation is not None:
        value = _by_annotation(parameter.annotation.annotation, sizes)
        if value is not None:
            tensor = value == _TENSOR and tensors
            return _by_name(parameter.name.value, tensors=True) if tensor else value
    return _by_name(parameter.name.value, tensors=tensors)


def _by_name(name: str, *, tensors: bool) -> str:
    if tensors:
        return "i64[2, 8] % 100" if _IDS.match(name) else _TENSOR
    if _FLAG.match(name):
        return "True"
    return "0.1" if _RATIO.match(name) else "8"


def _by_annotation(node: cst.BaseExpression, sizes: _Sizes) -> str | None:
    """A value of the annotated type, None when the annotation says too little."""
    if isinstance(node, cst.SimpleString):
        try:
            return _by_annotation(cst.parse_expression(str(node.evaluated_value)), sizes)
        except cst.ParserSyntaxError:
            return None
    if isinstance(node, cst.BinaryOperation):  # X | None
        return _by_annotation(node.left, sizes)
    if isinstance(node, cst.Subscript):
        return _by_subscript(_last(node.value), [element.slice for element in node.slice], sizes)
    known = _PLAIN.get(_last(node))
    if known is None and isinstance(node, cst.Name) and node.value[:1].isupper() and node.value != "Any":
        return f"{node.value}()"
    return known


def _by_subscript(name: str, slices: list[cst.BaseSlice], sizes: _Sizes) -> str | None:
    inner = [
        item.value
        for item in slices
        if isinstance(item, cst.Index) and not isinstance(item.value, cst.Ellipsis)
    ]
    if name in _ARRAYS and isinstance(inner[-1], cst.SimpleString):
        return f"{_ARRAYS[name]}[{_shape(str(inner[-1].evaluated_value), sizes)}]"
    values = [_by_annotation(item, sizes) for item in inner]
    if name in {"Optional", "Annotated", "Final", "Union"}:
        return values[0]
    shown = [value or _TENSOR for value in values]
    forms = {
        "[{}]": ({"list", "List", "Sequence", "Iterable"}, shown[:1]),
        "({},)": ({"tuple", "Tuple"}, shown),
        '{{"x": {}}}': ({"dict", "Dict", "Mapping"}, shown[-1:]),
    }
    return next(
        (form.format(", ".join(items)) for form, (names, items) in forms.items() if name in names), None
    )


def _shape(written: str, sizes: _Sizes) -> str:
    dimensions = []
    for word in written.split():
        name = word.lstrip("*#?_").partition("=")[2] or word.lstrip("*#?_")
        if name.isdecimal():
            dimensions.append(int(name))
        elif name != "..." and not word.startswith(("*", "...")):
            dimensions.append(sizes.of(name))
    return ", ".join(map(str, dimensions))


def _last(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""
