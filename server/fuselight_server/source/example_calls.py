"""The call of a target that has no inputs, as an example: made from its text, its annotations and its first layers.

Invariant: nothing is run, and the text is valid directive notation whatever the signature is. It names only classes
that the file knows, and those that an annotation names.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fuselight.shared.foreign_data import parse_python
from fuselight_server.source.class_sources import (
    ClassSource,
    FileSource,
    dotted_name,
    file_source,
    super_call,
)
from fuselight_server.source.document import lines_of
from fuselight_server.source.expression_values import Object, Reader, built
from fuselight_server.source.file_reader import ReadingCache, chunks_of
from fuselight_server.source.first_layers import inputs_of
from fuselight_server.source.reading import StaticTarget

_Function = ast.FunctionDef | ast.AsyncFunctionDef

_IDS = re.compile(r"(?:.*_)?(?:ids?|idx|indices|index|tokens?|labels?|targets?)$")
_RATIO = re.compile(r"(?:.*_)?(?:p|eps|dropout|rate|lr|alpha|beta|scale|ratio|momentum|temperature)$")
_FLAG = re.compile(r"(?:is|use|has|with|enable|causal|bias)(?:_.*)?$")
_CONFIGURATION = re.compile(r"(?:.*_)?(?:config|cfg|conf|args|opts?|options|hparams|params|settings)$")
_OPTIONAL = re.compile(r"(?:\w+\.)?Optional\[(.*)\]")
_TENSOR = "f32[2, 8]"
_TOKENS = "i64[2, 8] % 100"
_SIZES = (2, 8, 16, 32, 64)
"""For named dimensions, in the order in which they come up."""
_NESTED = 3
"""Objects within objects that are written out."""
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
    "LongTensor": _TOKENS,
    "Tensor": _TENSOR,
    "bool": "True",
    "complex": "1j",
    "float": "0.5",
    "int": "8",
    "str": '"text"',
}
_FORMS = (
    ("[{}]", {"list", "List", "Sequence", "Iterable"}, slice(1)),
    ("({},)", {"tuple", "Tuple"}, slice(None)),
    ('{{"x": {}}}', {"dict", "Dict", "Mapping"}, slice(-1, None)),
)
"""Texts of containers, the names of their types, and which of the types in brackets their entries have."""


def call_for(text: str, target: StaticTarget) -> str:
    """The call of a target as a directive has it; `text` is that of its file."""
    chunks = chunks_of(target.span.path, lines_of(text), ReadingCache())
    texts = (chunk.data.decode("utf-8", "replace").removeprefix("\ufeff") for chunk in chunks)
    try:
        return _CallExample(file_source(target.span.path, texts)).call(target)
    except RecursionError:  # an annotation or a default that is nested too deeply
        return _CallExample(FileSource(target.span.path, ())).call(target)


@dataclass
class _CallExample:
    """Writes the values of one call. Inputs are what the first layers that take them need."""

    file: FileSource
    known: dict[str, str] = field(default_factory=dict)
    """Parameters whose values the first layers decide."""
    dimensions: dict[str, int] = field(default_factory=dict)
    """Sizes given to named dimensions, the same name getting the same size."""

    def call(self, target: StaticTarget) -> str:
        """The text after `# fuselight: `."""
        name = target.name.rpartition("<locals>.")[2]
        owner, _, method = name.rpartition(".")
        if target.kind == "module":
            text = f"{name}({self._constructor(self._class(name))})"
            return f"{text}({self._method(self._class(name), text, 'forward', target)})"
        kind = self._class(owner)
        if kind is not None:  # a method, or an attribute that __init__ compiles
            text = f"{owner}({self._constructor(kind)})"
            return f"{text}.{method}({self._method(kind, text, method, target)})"
        wraps = target.wraps or ""
        kind = self._class(wraps.partition("(")[0]) if "(" in wraps else None
        if kind is not None and kind.method("forward") is not None:  # x = torch.compile(Net())
            return f"{name}({self._method(kind, wraps, 'forward', target)})"
        return (
            f"{name}({self._arguments(self._function(wraps) or self._function(name), 0, target.parameters)})"
        )

    def _class(self, name: str) -> ClassSource | None:
        node = next(_defined(self.file.statements, name), None)
        return ClassSource(node, self.file) if isinstance(node, ast.ClassDef) else None

    def _function(self, name: str) -> _Function | None:
        node = next(_defined(self.file.statements, name), None)
        return node if node is not None and not isinstance(node, ast.ClassDef) else None

    def _constructor(self, kind: ClassSource | None) -> str:
        function = kind.method("__init__") if kind is not None else None
        if kind is None or function is None:
            return ""
        positional, keywords = _constructor_needs(kind)
        given = [self._value(argument, function=function) for argument in positional]
        given += [f"{argument.arg}={self._value(argument, function=function)}" for argument in keywords]
        return ", ".join(given)

    def _method(self, kind: ClassSource | None, text: str, method: str, target: StaticTarget) -> str:
        """The arguments of an object's method; `text` constructs the object."""
        try:
            value = Reader(self.file, {}).value(parse_python(text, mode="eval").body)
            self.known = inputs_of(value, method) if isinstance(value, Object) else {}
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.known = {}
        function = kind.method(method) if kind is not None else None
        is_static = function is not None and "staticmethod" in map(dotted_name, function.decorator_list)
        return self._arguments(function, 0 if is_static else 1, target.parameters)

    def _arguments(self, function: _Function | None, skip: int, names: Sequence[str]) -> str:
        if function is None:
            return (
                ", ".join(self.known.get(name) or _by_name(name, tensors=True) for name in names) or _TENSOR
            )
        positional, keywords = _required(function, skip)
        given = [self._value(argument) for argument in positional]
        given += [f"{argument.arg}={self._value(argument)}" for argument in keywords]
        return ", ".join(given)

    def _value(self, argument: ast.arg, *, function: ast.FunctionDef | None = None) -> str:
        """A value of a parameter; `function`: the constructor that has it, which takes no tensors."""
        if argument.arg in self.known and function is None:
            return self.known[argument.arg]
        text = ast.unparse(argument.annotation) if argument.annotation is not None else ""
        kind = None
        if function is not None and not text and _CONFIGURATION.match(argument.arg):
            text, kind = self._class_with(_attributes_read(function, argument.arg))
        known = self._object(text, _NESTED if kind is None else 0)
        if known or argument.annotation is None:
            return known or _by_name(argument.arg, tensors=function is None)
        value = self._by_annotation(argument.annotation)
        if value is None or (value == _TENSOR and function is None):
            return _by_name(argument.arg, tensors=function is None)
        return value

    def _object(self, annotation: str, depth: int) -> str:
        """A text that makes an object of the class that an annotation names; empty for no class of the workspace."""
        inner = annotation.strip("'\"")
        optional = _OPTIONAL.fullmatch(inner)
        name = optional[1] if optional else inner.removesuffix("| None").strip()
        kind = self.file.find_class(name) if name else None
        if kind is None or name.partition(".")[0] not in {*self.file.classes, *self.file.imported}:
            return ""
        member = kind.first_member()
        return f"{name}.{member}" if member else f"{name}({', '.join(self._fields(kind, depth))})"

    def _fields(self, kind: ClassSource, depth: int) -> Iterator[str]:
        """The arguments that an object cannot be made without."""
        function = kind.method("__init__")
        needed: list[tuple[str, ast.expr | None]] = []
        if function is not None:
            needed = [
                (argument.arg, argument.annotation) for part in _constructor_needs(kind) for argument in part
            ]
        elif kind.is_dataclass:
            needed = [(name, annotation) for name, default, annotation in kind.fields() if default is None]
        for name, annotation in needed:
            text = ast.unparse(annotation) if annotation is not None else ""
            value = (self._object(text, depth - 1) if depth else "") or (
                self._by_annotation(annotation) if annotation is not None else None
            )
            yield f"{name}={value or _by_name(name, tensors=False)}"

    def _class_with(self, attributes: set[str]) -> tuple[str, ClassSource | None]:
        """A class of the file's names that has the attributes."""
        for name in (*self.file.classes, *self.file.imported):
            kind = self.file.find_class(name) if attributes and name[:1].isupper() else None
            if kind is not None and kind.method("forward") is None:
                known = built(kind, (), {}).attributes
                if attributes <= known.keys():
                    return name, kind
        return "", None

    def _by_annotation(self, node: ast.expr) -> str | None:
        """A value of the annotated type, None when the annotation says too little."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            with contextlib.suppress(SyntaxError):
                return self._by_annotation(parse_python(node.value, mode="eval").body)
        if isinstance(node, ast.Constant):
            return "None" if node.value is None else None
        if isinstance(node, ast.BinOp):  # X | None
            return self._by_annotation(node.left)
        if isinstance(node, ast.Subscript):
            return self._by_subscript(dotted_name(node.value).rpartition(".")[2], node.slice)
        known = _PLAIN.get(dotted_name(node).rpartition(".")[2])
        if known is None and isinstance(node, ast.Name) and node.id[:1].isupper() and node.id != "Any":
            return f"{node.id}()"
        return known

    def _by_subscript(self, name: str, bracketed: ast.expr) -> str | None:
        parts = bracketed.elts if isinstance(bracketed, ast.Tuple) else [bracketed]
        inner = [part for part in parts if not (isinstance(part, ast.Constant) and part.value is ...)]
        last = inner[-1] if inner else None
        if name in _ARRAYS and isinstance(last, ast.Constant) and isinstance(last.value, str):
            return f"{_ARRAYS[name]}[{', '.join(map(str, self._shape(last.value)))}]"
        values = [self._by_annotation(part) for part in inner]
        if name in {"Optional", "Annotated", "Final", "Union"}:
            return values[0] if values else None
        shown = [value or _TENSOR for value in values]
        return next(
            (form.format(", ".join(shown[which])) for form, names, which in _FORMS if name in names), None
        )

    def _shape(self, written: str) -> Iterator[int]:
        for word in written.split():
            name = word.lstrip("*#?_").partition("=")[2] or word.lstrip("*#?_")
            if name.isdecimal():
                yield int(name)
            elif name != "..." and not word.startswith(("*", "...")):
                given = self.dimensions
                yield given.setdefault(name, _SIZES[min(len(given), len(_SIZES) - 1)])


def _defined(statements: Iterable[ast.stmt], name: str) -> Iterator[_Function | ast.ClassDef]:
    """The definitions of a qualified name, also those within `if` and `try`."""
    first, _, rest = name.partition(".")
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if statement.name == first and rest:
                yield from _defined(statement.body, rest)
            elif statement.name == first:
                yield statement
        else:
            for block in ("body", "orelse", "finalbody"):
                yield from _defined(getattr(statement, block, ()), name)


def _required(function: _Function, skip: int) -> tuple[list[ast.arg], list[ast.arg]]:
    """The parameters without a default, from number `skip` on: by position, and by keyword."""
    positional = [*function.args.posonlyargs, *function.args.args]
    keywords = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    given = len(positional) - len(function.args.defaults)
    return positional[skip:given], [argument for argument, default in keywords if default is None]


def _constructor_needs(kind: ClassSource) -> tuple[list[ast.arg], list[ast.arg]]:
    """The parameters that a class needs, by position and by keyword; also of a base class that gets `**kwargs`."""
    definition = kind.definition_of("__init__")
    if definition is None:
        return [], []
    positional, keywords = _required(definition[1], 1)
    for _ in range(_NESTED):
        owner, function = definition
        call = next(filter(None, (super_call(statement, "__init__") for statement in function.body)), None)
        definition = owner.inherited("__init__")
        if definition is None or call is None or not _forwards_keywords(function, call):
            break
        passed = {keyword.arg for keyword in call.keywords} | {argument.arg for argument in keywords}
        above = _required(definition[1], 1 + len(call.args))
        keywords = keywords + [argument for part in above for argument in part if argument.arg not in passed]
    return positional, keywords


def _forwards_keywords(function: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether a call passes the `**kwargs` of the function that it is in."""
    kwarg = function.args.kwarg
    is_plain = not any(isinstance(expression, ast.Starred) for expression in call.args)
    return (
        kwarg is not None
        and is_plain
        and any(keyword.arg is None and dotted_name(keyword.value) == kwarg.arg for keyword in call.keywords)
    )


def _attributes_read(function: ast.FunctionDef, name: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }


def _by_name(name: str, *, tensors: bool) -> str:
    if tensors:
        return _TOKENS if _IDS.match(name) else _TENSOR
    if _FLAG.match(name):
        return "True"
    return "0.1" if _RATIO.match(name) else "8"
