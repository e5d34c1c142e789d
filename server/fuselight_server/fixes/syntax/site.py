"""The statement of a finding, parsed, and new texts of its file that differ in chosen places only.

Invariant: `Site.rewritten` gives a text only if the new chunk parses and has the comments of the old one; all
characters outside the replaced ranges stay. Only the top-level chunk of the finding is parsed, by LibCST. Ranges are
offsets in the characters of that chunk.
"""

from __future__ import annotations

import collections
import functools
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from fuselight.shared.report import TracedFacts
from fuselight_server.source.document import lines_of
from fuselight_server.source.file_reader import ReadingCache, chunks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from libcst.metadata import CodePosition, CodeRange

    from fuselight.shared.report import Report, TracedValue
    from fuselight_server.base.finding import Finding
    from fuselight_server.source.facts import Chunk

Node = TypeVar("Node", bound=cst.CSTNode)
Replacement = tuple[int, int, str]
"""First and last offset, and the text between them."""

_LONGEST = 400_000
"""Characters of a chunk that is parsed: LibCST takes a second for 100,000."""
_KEPT = 4
"""Files, and chunks, that stay parsed."""
_KEPT_NODES = 1 << 14
"""Nodes whose children are kept: those of some large functions."""
_UNCOMMON_ENDS = re.compile(r"\r(?!\n)|[\f\v\x1c-\x1e\x85\u2028\u2029]")
"""Line ends on which an editor, Python and LibCST do not agree."""
_IMPORT = re.compile(rb"^(?:import|from)\s", re.MULTILINE)
_TOOLS = re.compile(
    r"#+\s*(?:type:|noqa|pragma|fuselight|fmt:|pylint|ruff|mypy|pyright|nosec|isort|yapf|flake8|NOQA)"
)
"""Comments that act on their own line, so that they cannot move."""


@dataclass(frozen=True)
class Site:
    """A finding in the parsed chunk of its file."""

    finding: Finding
    report: Report
    text: str
    start: int
    """Offset of the chunk in `text`."""
    source: str
    """The chunk."""
    line: int
    """Line of the chunk in the file, 1-based."""
    shift: int
    """Bytes before the chunk on its first line: those of a byte order mark."""
    chunks: tuple[Chunk, ...]
    """All chunks of the file."""
    module: cst.Module
    ranges: Mapping[cst.CSTNode, CodeRange]
    parents: Mapping[cst.CSTNode, cst.CSTNode]
    origin: Site | None = None
    """The finding in the text that ran, where this is a text in between: positions of facts hold there only."""

    @classmethod
    def of(cls, finding: Finding, report: Report, text: str) -> Site | None:
        """Parse the chunk of the finding; None where it is half-typed, too large, or has uncommon line ends."""
        lines = lines_of(text)
        chunks = chunks_of_text(finding.span.path, text)
        chunk = next((chunk for chunk in reversed(chunks) if chunk.line <= finding.span.line), None)
        if chunk is None or chunk.facts.error is not None or len(chunk.data) > _LONGEST:
            return None
        data = b"".join(lines)
        first = sum(map(len, lines[: chunk.line - 1])) + chunk.column
        try:
            source = chunk.data.decode()
            start = len(data[:first].decode())
            if _UNCOMMON_ENDS.search(source) or text[start : start + len(source)] != source:
                return None
            parsed = parsed_source(source)
        except (UnicodeError, cst.ParserSyntaxError, RecursionError):
            return None
        return cls(finding, report, text, start, source, chunk.line, chunk.column, chunks, *parsed)

    @classmethod
    def at(cls, site: Site, text: str, start: int, end: int) -> Site | None:
        """The same finding at other offsets of its chunk, in another text of its file, where no facts hold."""
        before, there = text[: site.start + start], text[: site.start + end]
        span = replace(
            site.finding.span,
            line=before.count("\n") + 1,
            column=len(before[before.rfind("\n") + 1 :].encode()),
            end_line=there.count("\n") + 1,
            end_column=len(there[there.rfind("\n") + 1 :].encode()),
        )
        moved = cls.of(replace(site.finding, span=span), replace(site.report, facts=TracedFacts()), text)
        return replace(moved, origin=site.origin or site) if moved is not None else None

    # Places.

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(at.end() for at in re.finditer("\n", self.source))]

    def _offset(self, at: CodePosition) -> int:
        return self._starts[at.line - 1] + at.column

    def range_of(self, node: cst.CSTNode) -> tuple[int, int]:
        """First and last offset of a node, its parentheses left out."""
        there = self.ranges[node]
        return self._offset(there.start), self._offset(there.end)

    def outer_range(self, node: cst.BaseExpression) -> tuple[int, int]:
        """First and last offset of an expression with its parentheses."""
        start, end = self.range_of(node)
        if node.lpar:
            start = self.range_of(node.lpar[0])[0]
            end = self.range_of(node.rpar[-1])[1]
        return start, end

    @cached_property
    def span(self) -> tuple[int, int]:
        """Offsets of the finding's span: the whole line where it has no columns, empty if it is stale."""
        span = self.finding.span
        first = self._at(span.line, span.column)
        if span.column is None:
            row = self._row(span.line)
            return first + len(row) - len(row.lstrip()), first + len(row.rstrip())
        if span.end_column is None:
            return first, first
        return first, self._at(span.last_line, span.end_column)

    def _row(self, line: int) -> str:
        index = line - self.line
        if not 0 <= index < len(self._starts):
            return ""
        end = self._starts[index + 1] if index + 1 < len(self._starts) else len(self.source)
        return self.source[self._starts[index] : end]

    def _at(self, line: int, column: int | None) -> int:
        index = line - self.line
        if not 0 <= index < len(self._starts):
            return len(self.source)
        before = self._row(line).encode()[: max((column or 0) - (self.shift if index == 0 else 0), 0)]
        return self._starts[index] + len(before.decode("utf-8", "replace"))

    def code(self, node: cst.CSTNode) -> str:
        """The text of a node as it is written, its parentheses left out."""
        start, end = self.range_of(node)
        return self.source[start:end]

    def operand(self, node: cst.BaseExpression) -> str:
        """The text of an expression so that an attribute can follow."""
        if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
            return self.code(node)
        return f"({self.code(node)})"

    def operand_of(self, node: cst.BaseExpression) -> str:
        """The text of an expression as the operand of an operator."""
        return self.code(node) if isinstance(node, (cst.Integer, cst.Float)) else self.operand(node)

    def line_number(self, node: cst.CSTNode) -> int:
        """The line of a node in the file, 1-based."""
        return self.ranges[node].start.line + self.line - 1

    # Nodes.

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around a node, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def nodes(self, kind: type[Node] | tuple[type[Node], ...]) -> list[Node]:
        """Nodes of a kind in the place of the finding: the one at its span, else those around it, innermost first.

        Where the finding has no end column, those that start on its line. None is in an f-string, a decorator, a
        parameter's default, a lambda, a comprehension or outside of a function.
        """
        first, last = self.span
        exact, around, on_line = [], [], []
        for node in self.parents:
            if not isinstance(node, kind) or node not in self.ranges:
                continue
            start, end = self.range_of(node)
            if (start, end) == (first, last):
                exact.append(node)
            elif start <= first and last <= end and self._is_close(node):
                around.append((end - start, node))
            elif first <= start and end <= last and self.finding.span.end_column is None:
                on_line.append(node)
        around.sort(key=lambda pair: pair[0])
        nodes = exact or [node for _, node in around] or on_line
        return [node for node in nodes if self.is_plain(node)]

    def _is_close(self, node: cst.CSTNode) -> bool:
        """Whether the span is in the condition of the node, if it has one."""
        if isinstance(node, (cst.If, cst.IfExp, cst.Assert)):
            start, end = self.range_of(node.test)
            return start <= self.span[0] and self.span[1] <= end
        return True

    def is_plain(self, node: cst.CSTNode) -> bool:
        """Whether the node runs once each time that the body of its function reaches it."""
        inner = node
        for parent in self.ancestors(node):
            if isinstance(
                parent,
                (
                    *(cst.FormattedString, cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp),
                    *(cst.GeneratorExp, cst.Decorator, cst.Parameters, cst.Annotation, cst.ClassDef),
                ),
            ):
                return False
            if isinstance(parent, cst.FunctionDef):
                return inner is parent.body
            inner = parent
        return False

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The function around a node."""
        return next(
            (ancestor for ancestor in self.ancestors(node) if isinstance(ancestor, cst.FunctionDef)), None
        )

    def assigned(self, function: cst.FunctionDef, name: str) -> list[cst.BaseExpression | None]:
        """What a function assigns to a name, None where it binds it in another way than `name = value`."""
        expressions: list[cst.BaseExpression | None] = []
        for descendant in descendants(function.body):
            if (
                isinstance(descendant, cst.Name)
                and descendant.value == name
                and self._is_bound_at(descendant)
            ):
                statement = self.parents[self.parents[descendant]]
                expressions.append(statement.value if isinstance(statement, cst.Assign) else None)
        return expressions

    def loads(self, function: cst.FunctionDef, name: str) -> list[cst.BaseExpression]:
        """Where a function reads a name, nested functions included."""
        return [
            descendant
            for descendant in descendants(function.body)
            if isinstance(descendant, cst.Name)
            and descendant.value == name
            and not self._is_bound_at(descendant)
            and not (
                isinstance(parent := self.parents[descendant], cst.Attribute) and parent.attr is descendant
            )
            and not (isinstance(parent, cst.Arg) and parent.keyword is descendant)
        ]

    def names_bound(self, nodes: Iterable[cst.CSTNode]) -> set[str]:
        """The names that statements bind, nested functions included."""
        children = (descendant for node in nodes for descendant in descendants(node))
        return {child.value for child in children if isinstance(child, cst.Name) and self._is_bound_at(child)}

    def names_read(self, node: cst.CSTNode) -> set[str]:
        """The names that an expression reads, without those of attributes and of keyword arguments."""
        return {
            descendant.value
            for descendant in descendants(node)
            if isinstance(descendant, cst.Name)
            and not (
                isinstance(parent := self.parents.get(descendant), cst.Attribute)
                and parent.attr is descendant
            )
            and not (isinstance(parent, cst.Arg) and parent.keyword is descendant)
        }

    def is_declared(self, function: cst.FunctionDef, name: str) -> bool:
        """Whether a function says that a name is of the module or of a function around it."""
        declared = (
            descendant
            for descendant in descendants(function.body)
            if isinstance(descendant, (cst.Global, cst.Nonlocal))
        )
        return any(item.name.value == name for node in declared for item in node.names)

    def is_bound(self, name: str) -> bool:
        """Whether a definition or an assignment at top level of the file binds a name."""
        return any(
            definition.name == name and definition.scope == ()
            for chunk in self.chunks
            for definition in chunk.facts.definitions
        ) or any(
            binding.target == name and binding.scope == ()
            for chunk in self.chunks
            for binding in chunk.facts.bindings
        )

    def contains(self, node: cst.CSTNode, offset: int) -> bool:
        """Whether an offset is in a node."""
        start, end = self.range_of(node)
        return start <= offset < end

    def _is_bound_at(self, name: cst.Name) -> bool:
        """Whether a name is the target of a binding there."""
        inner: cst.CSTNode = name
        for parent in self.ancestors(name):
            if isinstance(parent, (cst.Element, cst.StarredElement, cst.Tuple, cst.List)):
                inner = parent
                continue
            if isinstance(parent, (cst.Attribute, cst.Subscript, cst.Arg)):
                return False
            if isinstance(parent, (cst.AugAssign, cst.AnnAssign, cst.NamedExpr, cst.For, cst.CompFor)):
                return parent.target is inner
            return isinstance(parent, (cst.AssignTarget, cst.AsName, cst.Del, cst.NameItem, cst.Param))
        return False

    def line_of(self, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """The line of a simple statement that has the line to itself, None where it shares it."""
        line = next(
            (ancestor for ancestor in self.ancestors(node) if isinstance(ancestor, cst.SimpleStatementLine)),
            None,
        )
        return line if line is not None and len(line.body) == 1 else None

    def values(self, node: cst.CSTNode) -> tuple[TracedValue, ...]:
        """What Dynamo saw at a node; empty where it was not traced."""
        facts = self.report.facts.files.get(self.finding.span.path)
        if facts is None or node not in self.ranges:
            return ()
        there = self.ranges[node]
        wanted = (*self._bytes(there.start), *self._bytes(there.end))
        for fact in facts.facts:
            if (fact.line, fact.column, fact.end_line, fact.end_column) == wanted:
                return tuple(self.report.facts.values[index] for index, _ in fact.values)
        return ()

    def is_computed(self, node: cst.CSTNode) -> bool:
        """Whether code of the user's ran for an attribute or an operator: a property, `__getattr__`, `__eq__`."""
        facts = self.report.facts.files.get(self.finding.span.path)
        if facts is None or not facts.computed or node not in self.ranges:
            return False
        there = self.ranges[node]
        return (*self._bytes(there.start), *self._bytes(there.end)) in facts.computed

    def breaks_inside(self, node: cst.CSTNode) -> bool:
        """Whether the run also broke at a part of a node, as the clock in `print(time.time())`.

        Where torch gives no columns, at another cause on the lines of the node.
        """
        there = self.ranges[node]
        first, last = self._bytes(there.start), self._bytes(there.end)
        own = {self.finding.code, *self.finding.gb_ids[:1]}
        for graph_break in self.report.breaks:
            if not graph_break.stack or graph_break.stack[-1].path != self.finding.span.path:
                continue
            at = graph_break.stack[-1]
            if at.column is None or at.end_column is None:
                if first[0] <= at.line <= last[0] and not own & {*graph_break.ids[:1]}:
                    return True
                continue
            start, end = (at.line, at.column), (at.end_line or at.line, at.end_column)
            if first <= start and end <= last and (start, end) != (first, last):
                return True
        return False

    def _bytes(self, at: CodePosition) -> tuple[int, int]:
        row = self.source[self._starts[at.line - 1] :][: at.column]
        return at.line + self.line - 1, len(row.encode()) + (self.shift if at.line == 1 else 0)

    # New texts.

    @cached_property
    def newline(self) -> str:
        """The line end of the chunk."""
        return "\r\n" if "\r\n" in self.source else "\n"

    def indentation(self, node: cst.CSTNode) -> str | None:
        """The blanks before a statement, None where something else precedes it on its line."""
        start = self.range_of(node)[0]
        before = self.source[self.source.rfind("\n", 0, start) + 1 : start]
        return before if not before.strip(" \t") else None

    def step(self, node: cst.CSTNode) -> str:
        """One level of indentation, as the innermost block around a node uses it."""
        block = next(
            (ancestor for ancestor in self.ancestors(node) if isinstance(ancestor, cst.IndentedBlock)), None
        )
        return (block.indent if block is not None else None) or self.module.default_indent

    def comments(self, start: int, end: int) -> list[str] | None:
        """The comments between two offsets, in order; None if one of them acts on its line and so cannot move."""
        comments = sorted(
            (self.range_of(node)[0], node.value)
            for node in self.parents
            if isinstance(node, cst.Comment) and start <= self.range_of(node)[0] < end
        )
        texts = [text for _, text in comments]
        return None if any(_TOOLS.match(text) for text in texts) else texts

    def end_of_line(self, offset: int) -> int:
        """Offset of the line end after `offset`."""
        end = self.source.find("\n", offset)
        end = len(self.source) if end < 0 else end
        return end - 1 if self.source[end - 1 : end] == "\r" else end

    def free_name(self, node: cst.CSTNode, wanted: str) -> str:
        """A name that does not occur in the function around a node."""
        function = self.function(node) or self.module
        taken = {descendant.value for descendant in descendants(function) if isinstance(descendant, cst.Name)}
        return next(
            name
            for name in (wanted, *(f"{wanted}_{number}" for number in range(1, len(taken) + 2)))
            if name not in taken
        )

    @cached_property
    def torch(self) -> str:
        """The name that `torch` has in the file; `torch` where it is not imported yet."""
        for chunk in self.chunks:
            for imported in chunk.facts.imports:
                if imported.full == "torch" and imported.scope == ():
                    return imported.name
        return "torch"

    def rewritten(self, *replacements: Replacement) -> str | None:
        """The file's text with the ranges of the chunk replaced, None where that would damage it.

        `import torch` is added where the new code needs it.
        """
        source, last = self.source, len(self.source) + 1
        for start, end, new in sorted(replacements, reverse=True):
            if end > last:
                return None
            source, last = source[:start] + new + source[end:], start
        try:
            module = cst.parse_module(source)
        except (cst.ParserSyntaxError, RecursionError):
            return None
        if _comments(module) != _comments(self.module) or source == self.source:
            return None
        text = self.text[: self.start] + source + self.text[self.start + len(self.source) :]
        if any("torch." in new for _, _, new in replacements) and not self._imports_torch:
            return insert_statements(self.finding.span.path, text, ("import torch",))
        return text

    @cached_property
    def _imports_torch(self) -> bool:
        return any(
            imported.full == "torch" and imported.scope == ()
            for chunk in self.chunks
            for imported in chunk.facts.imports
        )


def insert_statements(path: str, text: str, statements: Sequence[str], *, after: str = "") -> str | None:
    """The text with statements on lines of their own after its last import at top level.

    With a name in `after`, they follow the first statement that binds it at top level. None without such a place, and
    where a statement of the file is half-typed.
    """
    lines, chunks = lines_of(text), chunks_of_text(path, text)
    if any(chunk.facts.error is not None for chunk in chunks) or _UNCOMMON_ENDS.search(text):
        return None
    if after:
        binding = (chunk for chunk in chunks if _binds(chunk, after))
        last = next(binding, None)
    else:
        last = next((chunk for chunk in reversed(chunks) if _is_import(chunk)), None)
    if last is None:
        return None
    try:
        wrapper = MetadataWrapper(cst.parse_module(last.data.decode()), unsafe_skip_copy=True)
        ranges = wrapper.resolve(PositionProvider)
        data = b"".join(lines)
        text_again = data.decode("utf-8", "surrogatepass")
    except (cst.ParserSyntaxError, RecursionError, UnicodeError):
        return None
    if len(wrapper.module.body) != 1 or text_again != text:
        return None
    rows = last.data.splitlines(keepends=True)[: ranges[wrapper.module.body[0]].end.line]
    if not rows[-1].endswith(b"\n"):
        return None
    end = sum(map(len, lines[: last.line - 1])) + last.column + sum(map(len, rows))
    newline = b"\r\n" if rows[-1].endswith(b"\r\n") else b"\n"
    inserted = b"".join(statement.encode() + newline for statement in statements)
    return (data[:end] + inserted + data[end:]).decode("utf-8", "surrogatepass")


def imported_name(path: str, text: str, module: str) -> str | None:
    """The name that a module has at top level of a file; None where it is not imported there."""
    imports = (imported for chunk in chunks_of_text(path, text) for imported in chunk.facts.imports)
    return next(
        (imported.name for imported in imports if imported.full == module and imported.scope == ()), None
    )


def _is_import(chunk: Chunk) -> bool:
    """Whether the chunk is an import statement at top level."""
    return bool(chunk.facts.imports) and _IMPORT.search(chunk.data) is not None


def _binds(chunk: Chunk, name: str) -> bool:
    """Whether the chunk is a plain assignment to the name at top level."""
    pattern = rb"^%s\s*=[^=]" % re.escape(name.encode())
    return any(binding.target == name and binding.scope == () for binding in chunk.facts.bindings) and bool(
        re.search(pattern, chunk.data, re.MULTILINE)
    )


@functools.lru_cache(maxsize=_KEPT_NODES)
def children_of(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """The nodes directly below a node, which LibCST finds by a visit of the whole node each time."""
    return tuple(node.children)


def descendants(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all nodes below it."""
    waiting = [node]
    while waiting:
        descendant = waiting.pop()
        yield descendant
        waiting += children_of(descendant)


def dotted(node: cst.BaseExpression) -> str:
    """`torch.nn.Linear` for such an expression, empty for any other."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    return ".".join((node.value, *reversed(parts))) if isinstance(node, cst.Name) else ""


_Parsed = tuple[cst.Module, "Mapping[cst.CSTNode, CodeRange]", "Mapping[cst.CSTNode, cst.CSTNode]"]


@functools.lru_cache(maxsize=_KEPT)  # a file has several findings, and each of their fixes is a new text
def chunks_of_text(path: str, text: str) -> tuple[Chunk, ...]:
    """The top-level chunks of a file."""
    return tuple(chunks_of(path, lines_of(text), ReadingCache()))


@functools.lru_cache(maxsize=_KEPT)
def parsed_source(source: str) -> _Parsed:
    """A chunk, the ranges of its nodes and the parent of each. Raises ParserSyntaxError or RecursionError."""
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    parents: dict[cst.CSTNode, cst.CSTNode] = {}
    waiting: list[cst.CSTNode] = [wrapper.module]
    while waiting:
        node = waiting.pop()
        for child in children_of(node):
            parents[child] = node
            waiting.append(child)
    return wrapper.module, wrapper.resolve(PositionProvider), parents


def _comments(module: cst.Module) -> collections.Counter[str]:
    return collections.Counter(node.value for node in descendants(module) if isinstance(node, cst.Comment))
