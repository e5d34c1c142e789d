"""One chunk of source to its facts, by tree-sitter, which goes on after what does not parse.

Invariant: the answer depends on the chunk's bytes alone, and no input raises. tree-sitter holds the GIL while it
parses (145 ms for 74,000 lines), so a large chunk is parsed and searched in slices, between which other threads run.
"""

from __future__ import annotations

import bisect
import re
import warnings
from typing import TYPE_CHECKING, Any

import tree_sitter_python
from tree_sitter import Language, Parser, Query, QueryCursor

from fuselight.shared.foreign_data import parse_python
from fuselight_server.source.facts import (
    Binding,
    Comment,
    CompileExpression,
    Definition,
    Expression,
    Extent,
    Facts,
    Import,
    Scope,
)
from fuselight_server.source.tensor_code import computes_with_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tree_sitter import Node, Point, Tree

_PYTHON = Language(tree_sitter_python.language())
_QUERY = Query(
    _PYTHON,
    """
    (function_definition) @definition
    (class_definition) @definition
    (import_statement) @import
    (import_from_statement) @import
    (assignment right: (_)) @binding
    (named_expression) @binding
    (call function: (attribute attribute: (identifier) @method (#eq? @method "compile"))) @compile
    (block) @block
    """,
)
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_SPACE = re.compile(r"\s+")
_SHOWN = 120
_DEPTH = 12
"""Levels that are followed; generated code can nest calls thousands deep."""
_SLICE = 65_536
_LARGE = 262_144
"""Bytes from which a chunk is worked on in slices."""
_COMMENT = re.compile(rb"#[ \t]*fuselight:[ \t]*([^\r\n]*)")
_MAIN = re.compile(r"""\(?(?:__name__==["']__main__["']|["']__main__["']==__name__)\)?$""")
_VALUES = frozenset(
    {"call", "conditional_expression", "parenthesized_expression", "await", "named_expression"}
)

_BLOCKS = Query(_PYTHON, "(block) @block")
_IMPORTS = Query(_PYTHON, "[(import_statement) (import_from_statement)] @import")
_COMMENTS = Query(_PYTHON, "(comment) @comment")
_EMPTY_CONTINUATIONS = re.compile(rb"(?:^[ \t]*\\\r?\n){64,}", re.MULTILINE)
"""Lines with a backslash alone. tree-sitter reads a run of them once for each line of it: long runs are blanked."""
_COMMENT_LINES = re.compile(
    rb"""(?:^[ \t]*(?:\#(?:(?!\"{3}|'{3}|fuselight:|\\\r?$)[^\r\n])*)?\r?\n){64,}""", re.MULTILINE
)
"""Comments and empty lines: tree-sitter reads those that follow a comment once for each comment. Long runs are blanked,
without lines that may end a string, or are read as comments. A line matches in one way alone: with two, the time would
double with each line."""
COMPILE_KEYWORDS = frozenset(
    {"fullgraph", "dynamic", "backend", "mode", "options", "disable", "name"}
    | {"recompile_limit", "isolate_recompiles", "shapes_spec", "dynamic_shapes"}
)
"""Arguments of torch.compile in any release."""


def read_chunk(data: bytes) -> Facts:
    """The facts of `data`, whose lines end in LF or CRLF."""
    root = _parse(data).root_node
    nodes_by_kind: dict[str, list[Any]] = {kind: [] for kind in _READERS}
    around: list[tuple[int, str]] = []
    """End and name of each definition around the current node."""
    for kind, node in sorted(
        _captures(root, len(data)), key=lambda item: (item[1].start_byte, -item[1].end_byte)
    ):
        while around and around[-1][0] <= node.start_byte:
            around.pop()
        read = [*_READERS[kind](node, tuple(name for _, name in around))]
        nodes_by_kind[kind] += read
        if kind == "definition":
            around.extend((node.end_byte, value.name) for value in read)
    return Facts(
        definitions=tuple(nodes_by_kind["definition"]),
        bindings=tuple(nodes_by_kind["binding"]),
        compile_calls=tuple(nodes_by_kind["compile"]),
        imports=tuple(nodes_by_kind["import"]),
        comments=tuple(_comments(data, root)),
        main_row=next((child.start_point[0] for child in root.children if _is_main(child)), None),
        error=_error(data, root) if root.has_error or nodes_by_kind["block"] else None,
    )


def may_not_parse(data: bytes) -> bool:
    """Whether Python may reject `data`: quick, and never False for a text with an error that `read_chunk` reports."""
    root = _parse(data).root_node
    blocks = QueryCursor(_BLOCKS).captures(root).get("block", ())
    return root.has_error or any(node.named_child_count == 0 for node in blocks)


def inside_string(data: bytes, byte: int) -> bool:
    """Whether a string of `data` covers `byte`: no comment can stand there."""
    node = _parse(data).root_node.descendant_for_byte_range(byte, byte + 1)
    while node is not None:
        if node.type == "string":
            return True
        node = node.parent
    return False


def imported_names(data: bytes) -> tuple[str, ...]:
    """Dotted names that the imports of `data` may load: of `from .a import b`, `.a.b`; of `from a import *`, `a`."""
    root = _parse(data).root_node
    imported_names: dict[str, None] = {}
    for node in QueryCursor(_IMPORTS).captures(root).get("import", ()):
        origin = node.child_by_field_name("module_name")
        module = flat(origin) if origin else ""
        names = [""] if any(child.type == "wildcard_import" for child in node.children) else []
        for child in node.children_by_field_name("name"):
            imported = child.child_by_field_name("name") if child.type == "aliased_import" else child
            names += [flat(imported)] if imported is not None else []
        for name in names:
            between = "." if module and name and not module.endswith(".") else ""
            imported_names[f"{module}{between}{name}"] = None
    return tuple(imported_names)


def _parse(data: bytes) -> Tree:
    parser = Parser(_PYTHON)
    data = _EMPTY_CONTINUATIONS.sub(lambda run: run[0].replace(b"\\", b" "), data)
    data = _COMMENT_LINES.sub(_blanked, data)
    if len(data) < _LARGE:
        return parser.parse(data)

    def slice_at(byte: int, _point: Point) -> bytes:
        return data[byte : byte + _SLICE]

    tree = parser.parse(slice_at, progress_callback=lambda _byte, _error: False)
    return parser.parse(data, tree)  # parses nothing again, and makes the text of a node cheap to read


def _blanked(run: re.Match[bytes]) -> bytes:
    """A run of lines as blanks, but for the first, which may be the rest of a string on the line before."""
    first, end, rest = run[0].partition(b"\n")
    return first + end + re.sub(rb"[^\r\n]", b" ", rest)


def _captures(root: Node, size: int) -> Iterator[tuple[str, Node]]:
    seen: set[tuple[str, int]] = set()
    for start in range(0, max(size, 1), _LARGE):
        cursor = QueryCursor(_QUERY)
        if size >= _LARGE:
            cursor.set_byte_range(start, start + _LARGE)
        for kind, nodes in cursor.captures(root).items():
            for node in nodes if kind in _READERS else ():
                if (kind, node.id) not in seen:
                    seen.add((kind, node.id))
                    yield kind, node


def _bindings(node: Node, scope: Scope) -> Iterator[Binding]:
    walrus = node.type == "named_expression"
    left = node.child_by_field_name("name" if walrus else "left")
    right = node.child_by_field_name("value" if walrus else "right")
    while right is not None and right.type == "assignment":
        right = right.child_by_field_name("right")
    if left is None or right is None:
        return
    names, values = [left], [right]
    if left.type in {"pattern_list", "tuple_pattern"}:
        names, values = left.named_children, right.named_children
        if right.type not in {"expression_list", "tuple"} or len(values) != len(names):
            return
    for name, value in zip(names, values, strict=True):
        if name.type not in {"identifier", "attribute"}:
            continue
        alias = value.type in {"identifier", "attribute"} and not scope
        target = expression(name).dotted
        if target and (alias or value.type in _VALUES):
            yield Binding(target, scope, _extent(node), _extent(name), expression(value))


def _compile_calls(node: Node, scope: Scope) -> Iterator[CompileExpression]:
    function = node.child_by_field_name("function")
    owner = function and function.child_by_field_name("object")
    dotted = expression(owner).dotted if owner else ""
    if owner and dotted:
        as_torch = _takes_torch_keywords(node.child_by_field_name("arguments"))
        value = Expression(dotted, dotted=dotted)
        yield CompileExpression(dotted, scope, _extent(node), _extent(owner), value, as_torch)


def _definitions(node: Node, scope: Scope) -> Iterator[Definition]:
    name = node.child_by_field_name("name")
    if name is None or name.is_missing:
        return
    outer = node.parent if node.parent and node.parent.type == "decorated_definition" else node
    decorators = (
        [child.named_child(0) for child in outer.children if child.type == "decorator"]
        if outer is not node
        else []
    )
    is_class = node.type == "class_definition"
    superclasses = node.child_by_field_name("superclasses") if is_class else None
    parameters, annotations = ([], []) if is_class else _parameters(node.child_by_field_name("parameters"))
    yield Definition(
        name=text_of(name),
        scope=scope,
        is_class=is_class,
        extent=_extent(outer),
        name_extent=_extent(name),
        def_row=node.start_point[0],
        decorators=tuple(expression(decorator) for decorator in decorators if decorator),
        bases=tuple(
            expression(base) for base in superclasses.named_children if base.type != "keyword_argument"
        )
        if superclasses
        else (),
        parameters=tuple(parameters),
        annotations=tuple(annotations),
        computes=not is_class and not scope and _computes(node, tuple(parameters)),
    )


def _computes(function: Node, parameters: tuple[str, ...]) -> bool:
    header, body = function.child_by_field_name("parameters"), function.child_by_field_name("body")
    if header is None or body is None:
        return False
    return computes_with_tensors(text_of(header), text_of(body), parameters)


def _parameters(node: Node | None) -> tuple[list[str], list[tuple[str, str]]]:
    names: list[str] = []
    annotations: list[tuple[str, str]] = []
    for child in node.named_children if node else ():
        name = child if child.type == "identifier" else child.child_by_field_name("name")
        if name is None and child.type == "typed_parameter":
            name = child.named_child(0)
        if name is None or name.type != "identifier":
            continue
        names.append(text_of(name))
        annotation = child.child_by_field_name("type")
        written = flat(annotation).strip("\"'") if annotation else ""
        if re.fullmatch(r"[\w.]+", written):
            annotations.append((names[-1], written))
    return names, annotations


def _imports(node: Node, scope: Scope) -> Iterator[Import]:
    origin = node.child_by_field_name("module_name")
    module = flat(origin) if origin else ""
    if any(child.type == "wildcard_import" for child in node.children):
        yield Import("*", module, scope)
    for child in node.children_by_field_name("name"):
        aliased = child.type == "aliased_import"
        imported = child.child_by_field_name("name") if aliased else child
        alias = child.child_by_field_name("alias") if aliased else None
        if imported is None:
            continue
        name = flat(imported)
        if origin:
            full = module + name if module.endswith(".") else f"{module}.{name}"
            yield Import(text_of(alias) if alias else name, full, scope)
        elif alias:
            yield Import(text_of(alias), name, scope)
        else:
            head = name.partition(".")[0]
            yield Import(head, head, scope)


def _comments(data: bytes, root: Node) -> Iterator[Comment]:
    if b"fuselight:" not in data:
        return
    row, counted = 0, 0
    nodes = (node for nodes in QueryCursor(_COMMENTS).captures(root).values() for node in nodes)
    comments = sorted((node.start_byte, node.end_byte) for node in nodes)
    for match in _COMMENT.finditer(data):
        at = match.start()
        around = bisect.bisect_right(comments, (at, len(data))) - 1
        if around < 0 or at >= comments[around][1]:
            continue
        row, counted = row + data.count(b"\n", counted, at), at
        line = data.rfind(b"\n", 0, at) + 1
        text = match.group(1).rstrip()
        start = match.start(1)
        yield Comment(
            extent=Extent(row, at - line, row, start + len(text) - line),
            text_column=start - line,
            text=text.decode("utf-8", "replace"),
            alone=not data[line:at].strip(),
        )


def _is_main(node: Node) -> bool:
    condition = node.child_by_field_name("condition") if node.type == "if_statement" else None
    return condition is not None and _MAIN.match(flat(condition)) is not None


def _takes_torch_keywords(arguments: Node | None) -> bool:
    """Whether a call could be `nn.Module.compile`: no value by position, no keyword but torch.compile's."""
    for child in arguments.named_children if arguments else ():
        name = child.child_by_field_name("name") if child.type == "keyword_argument" else None
        if child.type == "comment" or (name is not None and text_of(name) in COMPILE_KEYWORDS):
            continue
        return False
    return True


def _error(data: bytes, root: Node) -> Extent | None:
    """Where `data` goes wrong, or None when Python itself can read it after all: a newer grammar than the parser's."""
    if len(data) < _LARGE:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                parse_python(data.decode("utf-8", "replace"))
        except SyntaxError as error:
            return _python_error(data, error)
        except (ValueError, MemoryError, RecursionError):
            pass
        else:
            return None
    node = root
    while not (node.is_error or node.is_missing):
        child = next((child for child in node.children if child.has_error or child.is_missing), None)
        if child is None:
            break
        node = child
    return _extent(node)


def _python_error(data: bytes, error: SyntaxError) -> Extent:
    rows = data.split(b"\n")
    row = min(max((error.lineno or 1) - 1, 0), len(rows) - 1)
    line = rows[row].rstrip(b"\r")
    text = line.decode("utf-8", "replace")
    column = len(text[: max((error.offset or 1) - 1, 0)].encode())
    end = column
    if error.end_lineno == error.lineno and error.end_offset:
        end = len(text[: max(error.end_offset - 1, 0)].encode())
    column = min(column, len(line))
    return Extent(row, column, row, min(max(end, column), len(line)))


def _extent(node: Node) -> Extent:
    start, end = node.start_point, node.end_point
    return Extent(start[0], start[1], end[0], end[1])


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


def _empty_block(node: Node, _scope: Scope) -> Iterator[Node]:
    if node.named_child_count == 0:
        yield node


_READERS: dict[str, Callable[[Node, Scope], Iterator[Any]]] = {
    "definition": _definitions,
    "binding": _bindings,
    "import": _imports,
    "compile": _compile_calls,
    "block": _empty_block,
}
"""What is read from a node, by the name that the query gives it."""
