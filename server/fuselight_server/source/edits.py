"""Edits of the user's source: an inputs stub, `mark_dynamic`, ignore comments, moved directives.

Invariant: an edit adds or removes one thing and leaves every other character as it is. When the right place cannot be
told for certain there is no edit. LibCST reads the one top-level chunk that matters, so that the rest of the file may
be half-typed. A stub is valid directive notation whatever the signature is. Slow (tens of milliseconds): for code
actions, never for a keystroke.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from fuselight.shared.foreign_data import parse_python
from fuselight_server.base.finding import Span
from fuselight_server.source.class_sources import FileSource, file_source
from fuselight_server.source.configurations import configurations, construction
from fuselight_server.source.document import lines_of, read_source
from fuselight_server.source.expression_values import Object, Reader
from fuselight_server.source.file_reader import ReadingCache, chunks_of
from fuselight_server.source.first_layers import inputs_of
from fuselight_server.source.names import collect
from fuselight_server.source.syntax import inside_string

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from libcst.metadata import CodePosition

    from fuselight_server.source.facts import Chunk
    from fuselight_server.source.reading import Ignore, StaticTarget


_HEADED = (cst.If, cst.For, cst.With)
"""Statements whose header is evaluated once, so that something can stand above it."""
_BARRIERS = (
    *(cst.IndentedBlock, cst.SimpleStatementSuite, cst.While, cst.Match, cst.Decorator, cst.Parameters),
    *(cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.IfExp, cst.BooleanOperation),
)
"""Inside them the statement outside is no place to insert: what is in them runs again, later, or not at all."""


class _Finder(cst.CSTVisitor):
    """Finds the calls on a line that pass something for a parameter. Raises ParserSyntaxError or RecursionError."""

    def __init__(self, source: str, line: int, parameter: str, parameters: Sequence[str]) -> None:
        super().__init__()
        self.calls: list[tuple[str, tuple[int, int], tuple[int, str] | None]] = []
        """Calls that pass something for the parameter: the last part of the name, the columns, and the line of the
        statement with the name that is passed, None where it has no name."""
        self._rows = source.split("\n")
        self._line = line
        self._parameter = parameter
        self._parameters = parameters
        self._anchors: list[int | None] = [None]
        """Line of the statement above which to insert, None where that is not possible."""
        self._elif: set[cst.CSTNode] = set()
        wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
        self._ranges = wrapper.resolve(PositionProvider)
        wrapper.module.visit(self)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.If) and isinstance(node.orelse, cst.If):
            self._elif.add(node.orelse)
        if isinstance(node, cst.SimpleStatementLine) or (
            isinstance(node, _HEADED) and node not in self._elif
        ):
            self._anchors.append(self._ranges[node].start.line)
        elif isinstance(node, (*_HEADED, *_BARRIERS)):
            self._anchors.append(None)
        elif isinstance(node, cst.Call):
            self._look_at(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, (cst.SimpleStatementLine, *_HEADED, *_BARRIERS)):
            self._anchors.pop()

    def _look_at(self, call: cst.Call) -> None:
        place, anchor = self._ranges[call], self._anchors[-1]
        if anchor is None or not place.start.line <= self._line <= place.end.line:
            return
        argument = self._argument(call.args)
        if argument is not None:
            site = (anchor, argument.value) if isinstance(argument, cst.Name) else None
            columns = (self._bytes(place.start), self._bytes(place.end))
            self.calls.append((_last_name(call.func), columns, site))

    def _bytes(self, at: CodePosition) -> int:
        return len(self._rows[at.line - 1][: at.column].encode())

    def _argument(self, arguments: Sequence[cst.Arg]) -> cst.BaseExpression | None:
        value: cst.BaseExpression | None = None
        for index, argument in enumerate(arguments):
            if argument.keyword is not None:
                if argument.keyword.value == self._parameter:
                    value = argument.value
            elif argument.star:
                return None
            elif index < len(self._parameters) and self._parameters[index] == self._parameter:
                value = argument.value
        return value


def _last_name(function: cst.BaseExpression) -> str:
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""


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
class _KnownValues:
    """What is known of the values of one call."""

    known: Mapping[str, str] = field(default_factory=dict)
    """Parameters whose values are known, as texts."""
    dimensions: dict[str, int] = field(default_factory=dict)
    """Sizes given to named dimensions, the same name getting the same size."""


def directive_for(target: StaticTarget, chunks: Iterable[str]) -> str:
    """The text after `# fuselight: `. `chunks` are the top-level statements of the file.

    Inputs are what the first layers that take them need; what no layer decides comes from annotations and names.
    """
    chunks = tuple(chunks)
    definitions = _definitions(target, chunks)
    file = file_source(target.span.path, chunks)
    name = target.name.rpartition("<locals>.")[2]
    owner, _, last = name.rpartition(".")
    if target.kind == "module":
        text = f"{name}({_constructor(file, definitions, name)})"
        sizes = _KnownValues(_needs(file, text, "forward"))
        call = definitions.get(f"{name}.forward")
        return f"{text}({_arguments(call, target.parameters, sizes, method=True)})"
    if f"{owner}.__class__" in definitions:  # a method, or an attribute that __init__ compiles
        text = f"{owner}({_constructor(file, definitions, owner)})"
        sizes = _KnownValues(_needs(file, text, last))
        return f"{text}.{last}({_arguments(definitions.get(name), target.parameters, sizes, method=True)})"
    wraps = target.wraps or ""
    if (
        text := wraps.partition("(")[0]
    ) != wraps and f"{text}.forward" in definitions:  # x = torch.compile(Net())
        sizes = _KnownValues(_needs(file, wraps, "forward"))
        return f"{name}({_arguments(definitions[f'{text}.forward'], target.parameters, sizes, method=True)})"
    wrapped = definitions.get(wraps) or definitions.get(name)
    known = _KnownValues(_objects(file, wrapped))
    return f"{name}({_arguments(wrapped, target.parameters, known, method=False)})"


def _objects(file: FileSource, function: cst.FunctionDef | None) -> dict[str, str]:
    """Texts that make the arguments of a function that are annotated with a class of the workspace."""
    parameters = function.params if function is not None else cst.Parameters()
    objects = {}
    for parameter in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params):
        written = parameter.annotation and cst.Module([]).code_for_node(parameter.annotation.annotation)
        text = _object(file, written or "", _NESTED)
        if text and parameter.default is None:
            objects[parameter.name.value] = text
    return objects


def _object(file: FileSource, annotation: str, depth: int) -> str:
    """A text that makes an object of an annotation's class, and the objects that it is made of."""

    def field_value(name: str, written: str) -> str:
        return (_object(file, written, depth - 1) if depth else "") or _plain_value(name, written)

    return construction(file, _without_none(annotation), field_value)


_NESTED = 3
"""Objects within objects that are written out."""


def _without_none(annotation: str) -> str:
    """`Config` of `"Config | None"` and `Optional[Config]`."""
    inner = annotation.strip("'\"")
    optional = _OPTIONAL.fullmatch(inner)
    return optional[1] if optional else inner.removesuffix("| None").strip()


_OPTIONAL = re.compile(r"(?:\w+\.)?Optional\[(.*)\]")


def _needs(file: FileSource, text: str, method: str) -> dict[str, str]:
    """What the first layers need of the parameters of an object's method; `text` constructs the object."""
    try:
        value = Reader(file, {}).value(parse_python(text, mode="eval").body)
        return inputs_of(value, method) if isinstance(value, Object) else {}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}


_SHAPE = re.compile(r"\b[a-z]+\d*\[([^\]]*)\]")


def shape_columns(line: str) -> tuple[int, int] | None:
    """The byte columns of the first shape in a directive's line, without its brackets; else of its last arguments."""
    start = line.find("# fuselight:")
    match = _SHAPE.search(line, start) if start >= 0 else None
    if match is not None:
        ends = match.span(1)
    elif start >= 0 and line.rstrip().endswith(")"):
        ends = line.rindex("(") + 1, len(line.rstrip()) - 1
    else:
        return None
    first, last = (len(line[:end].encode("utf-8", "surrogatepass")) for end in ends)
    return first, last


def _definitions(target: StaticTarget, chunks: Iterable[str]) -> dict[str, cst.FunctionDef | None]:
    """Functions by qualified name, in the chunks that may define what `target` is about; a class is `Net.__class__`."""
    heads = {target.name.partition(".")[0], target.name.rpartition(".")[2]}
    heads.add((target.wraps or "").partition("(")[0].partition(".")[0])
    wanted = re.compile(rf"\b(?:def|class)\s+(?:{'|'.join(re.escape(head) for head in heads if head)})\b")
    functions: dict[str, cst.FunctionDef | None] = {}
    for chunk in chunks:
        if wanted.search(chunk):
            try:
                cst.parse_module(chunk).visit(_Signatures(functions))
            except (cst.ParserSyntaxError, RecursionError):
                continue
    return functions


class _Signatures(cst.CSTVisitor):
    def __init__(self, functions: dict[str, cst.FunctionDef | None]) -> None:
        super().__init__()
        self._nodes = functions
        self._path: list[str] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.ClassDef, cst.FunctionDef)):
            self._path.append(node.name.value)
        if isinstance(node, cst.ClassDef):
            self._nodes[".".join((*self._path, "__class__"))] = None
        elif isinstance(node, cst.FunctionDef):
            self._nodes.setdefault(".".join(self._path), node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, (cst.ClassDef, cst.FunctionDef)):
            self._path.pop()


def _constructor(file: FileSource, definitions: dict[str, cst.FunctionDef | None], name: str) -> str:
    function = definitions.get(f"{name}.__init__")
    try:
        known = configurations(file, name, _plain_value)
    except RecursionError:  # classes that are bases of each other
        known = {}
    return "" if function is None else _call(function.params, _KnownValues(known), tensors=False, skip=1)


def _plain_value(name: str, annotation: str) -> str:
    """A value for a field of a configuration."""
    try:
        value = _by_annotation(cst.parse_expression(annotation), _KnownValues()) if annotation else None
    except cst.ParserSyntaxError:
        value = None
    return value or _by_name(name, tensors=False)


def _arguments(
    function: cst.FunctionDef | None, names: Sequence[str], sizes: _KnownValues, *, method: bool
) -> str:
    if function is None:
        return ", ".join(sizes.known.get(name) or _by_name(name, tensors=True) for name in names)
    static = any(
        isinstance(item.decorator, cst.Name) and item.decorator.value == "staticmethod"
        for item in function.decorators
    )
    return _call(function.params, sizes, tensors=True, skip=1 if method and not static else 0)


def _call(parameters: cst.Parameters, sizes: _KnownValues, *, tensors: bool, skip: int) -> str:
    positional = [*parameters.posonly_params, *parameters.params][skip:]
    given = [_value(item, sizes, tensors=tensors) for item in positional if item.default is None]
    given += [
        f"{item.name.value}={_value(item, sizes, tensors=tensors)}"
        for item in parameters.kwonly_params
        if item.default is None
    ]
    return ", ".join(given)


def _value(parameter: cst.Param, sizes: _KnownValues, *, tensors: bool) -> str:
    if parameter.name.value in sizes.known:
        return sizes.known[parameter.name.value]
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


def _by_annotation(node: cst.BaseExpression, sizes: _KnownValues) -> str | None:
    """A value of the annotated type, None when the annotation says too little."""
    if isinstance(node, cst.SimpleString):
        try:
            return _by_annotation(cst.parse_expression(str(node.evaluated_value)), sizes)
        except cst.ParserSyntaxError:
            return None
    if isinstance(node, cst.BinaryOperation):  # X | None
        return _by_annotation(node.left, sizes)
    if isinstance(node, cst.Subscript):
        return _by_subscript(_last_name(node.value), [element.slice for element in node.slice], sizes)
    known = _PLAIN.get(_last_name(node))
    if known is None and isinstance(node, cst.Name) and node.value[:1].isupper() and node.value != "Any":
        return f"{node.value}()"
    return known


def _by_subscript(name: str, slices: list[cst.BaseSlice], sizes: _KnownValues) -> str | None:
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


def _shape(written: str, sizes: _KnownValues) -> str:
    dimensions = []
    for word in written.split():
        name = word.lstrip("*#?_").partition("=")[2] or word.lstrip("*#?_")
        if name.isdecimal():
            dimensions.append(int(name))
        elif name != "..." and not word.startswith(("*", "...")):
            given = sizes.dimensions
            dimensions.append(given.setdefault(name, _SIZES[min(len(given), len(_SIZES) - 1)]))
    return ", ".join(map(str, dimensions))


_BOM = b"\xef\xbb\xbf"
_FUTURE = re.compile(rb"from\s+__future__\b")
_DIRECTIVE = re.compile(rb"#[ \t]*fuselight:(?!.*#[ \t]*fuselight:).*$")
_IMPORT = re.compile(rb"(?:import|from)\s")


@dataclass(frozen=True)
class TextEdit:
    """Put `new_text` in the place of `span`, which has all its columns; an empty span inserts."""

    span: Span
    new_text: str


def insert_inputs_stub(text: str, target: StaticTarget) -> list[TextEdit]:
    """A directive above `target`, its arguments made from the signature and its annotations."""
    return insert_directives(text, target, [call_for(text, target)])


def call_for(text: str, target: StaticTarget) -> str:
    """The call of a target as a directive has it; `text` is that of its file."""
    chunks = chunks_of(target.span.path, lines_of(text), ReadingCache())
    return directive_for(target, [chunk.data.decode("utf-8", "replace") for chunk in chunks])


def insert_directives(text: str, target: StaticTarget, calls: Sequence[str]) -> list[TextEdit]:
    """Directives with these calls above `target`, in their order."""
    lines = lines_of(text)
    path, line = target.span.path, target.span.line
    if not calls or not 1 <= line <= len(lines):
        return []
    return [_insert_line(path, lines, line, *(f"# fuselight: {call}" for call in calls))]


def insert_mark_dynamic(
    path: str,
    text: str,
    line: int,
    *,
    parameter: str,
    dimension: int,
    parameters: tuple[str, ...],
    callee: str | None = None,
    column: int | None = None,
    end_column: int | None = None,
) -> list[TextEdit]:
    """`torch._dynamo.mark_dynamic(argument, dimension)` above the statement on `line` that passes `parameter`.

    `parameters` are those of what is called, `self` excluded; `callee` is the last part of its name; the columns, in
    bytes, are those of the call, which is then known for certain. Empty when
    the argument there is not a plain name, when several calls fit, or when the statement is in a place before which
    nothing can be put (a loop's condition, a comprehension).
    """
    lines = lines_of(text)
    chunks = chunks_of(path, lines, ReadingCache())
    chunk = _chunk_at(chunks, line)
    if chunk is None:
        return []
    source = chunk.data.decode("utf-8", "replace")
    try:
        calls = _Finder(source, line - chunk.line + 1, parameter, parameters).calls
    except (cst.ParserSyntaxError, RecursionError):
        return []
    exact = [site for _, columns, site in calls if columns == (column, end_column)]
    named = [site for name, _, site in calls if name == callee]
    sites = set(exact or named or [site for _, _, site in calls])
    site = sites.pop() if len(sites) == 1 else None
    if site is None:
        return []
    imported = collect(chunk.facts for chunk in chunks).imported.items()
    torch = next((name for (scope, name), full in imported if not scope and full == "torch"), None)
    first = next((c.line for c in chunks if _IMPORT.match(c.data) and not _FUTURE.match(c.data)), None)
    if torch is None and first is None:
        return []
    importing = [_insert_line(path, lines, first, "import torch")] if torch is None and first else []
    at, argument = chunk.line + site[0] - 1, site[1]
    statement = f"{torch or 'torch'}._dynamo.mark_dynamic({argument}, {dimension})"
    if at > 1 and lines[at - 2].strip().decode("utf-8", "replace") == statement:
        return []
    return [*importing, _insert_line(path, lines, at, statement)]


def insert_ignore(path: str, text: str, line: int, code: str) -> list[TextEdit]:
    """Return the edit that adds `# fuselight: ignore[code]` to `line`, or `code` to the line's existing ignore.

    Empty if the line already ignores the code, or cannot end in a comment: inside a string, or after a backslash.
    """
    lines = lines_of(text)
    if not 1 <= line <= len(lines):
        return []
    data = lines[line - 1].rstrip(b"\r\n")
    present = _ignore_at(path, text, line)
    if present is not None:
        if not present.codes or code in present.codes:
            return []
        closes = data.index(b"]", present.span.start[1])
        return [TextEdit(Span(path, line, closes, line, closes), f", {code}")]
    if data.endswith(b"\\") or _ends_in_string(path, lines, line):
        return []
    kept = data.rstrip()
    gap = "  " if kept and not kept.isspace() else ""
    span = Span(path, line, len(kept), line, len(data))
    return [TextEdit(span, f"{gap}# fuselight: ignore[{code}]")]


def move_directive(path: str, text: str, line: int, above: int) -> list[TextEdit]:
    """The directive on `line` to a line of its own above the line `above`."""
    lines = lines_of(text)
    if not (1 <= line <= len(lines) and 1 <= above <= len(lines)):
        return []
    data = lines[line - 1].rstrip(b"\r\n")
    match = _DIRECTIVE.search(data)
    if match is None:
        return []
    code = data[: match.start()].rstrip()
    if code or line == len(lines):
        removed = TextEdit(Span(path, line, len(code), line, len(data)), "")
    else:
        removed = TextEdit(Span(path, line, 0, line + 1, 0), "")
    return [_insert_line(path, lines, above, match[0].decode("utf-8", "replace").rstrip()), removed]


def remove_ignore(path: str, text: str, line: int, code: str | None = None) -> list[TextEdit]:
    """`code` out of the ignore on `line`; the whole comment when nothing else is in it, or when `code` is None."""
    present = _ignore_at(path, text, line)
    if present is None or (code is not None and code not in present.codes):
        return []
    lines = lines_of(text)
    data = lines[line - 1].rstrip(b"\r\n")
    start = present.span.start[1]
    left = tuple(item for item in present.codes if item != code)
    if code is not None and left:
        opens, closes = data.index(b"[", start) + 1, data.index(b"]", start)
        return [TextEdit(Span(path, line, opens, line, closes), ", ".join(left))]
    if not data[:start].strip() and line < len(lines):
        return [TextEdit(Span(path, line, 0, line + 1, 0), "")]
    return [TextEdit(Span(path, line, len(data[:start].rstrip()), line, len(data)), "")]


def _ignore_at(path: str, text: str, line: int) -> Ignore | None:
    return next((ignore for ignore in read_source(path, text).ignores if ignore.span.line == line), None)


def _chunk_at(chunks: list[Chunk], line: int) -> Chunk | None:
    return next((chunk for chunk in reversed(chunks) if chunk.line <= line), None)


def _ends_in_string(path: str, lines: list[bytes], line: int) -> bool:
    chunk = _chunk_at(chunks_of(path, lines, ReadingCache()), line)
    if chunk is None:
        return False
    rows = chunk.data.splitlines(keepends=True)[: line - chunk.line + 1]  # an empty last line is no row
    end = sum(map(len, rows))
    return end > 0 and rows[-1].endswith(b"\n") and inside_string(chunk.data, end - 1)


def _insert_line(path: str, lines: list[bytes], line: int, *new: str) -> TextEdit:
    """Each of `new` on a line of its own above `line`, indented and ended as that line is."""
    there = lines[line - 1]
    start = len(_BOM) if line == 1 and there.startswith(_BOM) else 0
    body = there[start:].rstrip(b"\r\n")
    indent = body[: len(body) - len(body.lstrip())].decode()
    ended = next((end for end in (_line_end(there), _line_end(lines[0])) if end), "\n")
    return TextEdit(Span(path, line, start, line, start), "".join(f"{indent}{text}{ended}" for text in new))


def _line_end(line: bytes) -> str:
    return line[len(line.rstrip(b"\r\n")) :].decode()
