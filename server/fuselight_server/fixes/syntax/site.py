"""The statement of a finding, parsed, and new texts of its file that differ in chosen places only.

Invariant: `Site.rewritten` gives a text only if the new chunk parses and has the comments of the old one; all
characters outside the replaced ranges stay. Only the top-level chunk of the finding is parsed.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import libcst as cst

from fuselight.shared.report import Report, TracedFacts, TracedValue
from fuselight_server.fixes.syntax.file_chunks import UNCOMMON_ENDS, chunks_of_text, insert_statements
from fuselight_server.fixes.syntax.tree import SyntaxTree, descendants, parsed_source
from fuselight_server.source.document import lines_of

if TYPE_CHECKING:
    from libcst.metadata import CodePosition

    from fuselight_server.base.finding import Finding
    from fuselight_server.source.facts import Chunk


Node = TypeVar("Node", bound=cst.CSTNode)
Replacement = tuple[int, int, str]
"""First and last offset, and the text between them."""

_LONGEST = 400_000
"""Characters of a chunk that is parsed: LibCST takes a second for 100,000."""


@dataclass(frozen=True)
class Site(SyntaxTree):
    """A finding in the parsed chunk of its file."""

    finding: Finding
    report: Report
    text: str
    start: int
    """Offset of the chunk in `text`."""
    line: int
    """Line of the chunk in the file, 1-based."""
    shift: int
    """Bytes before the chunk on its first line: those of a byte order mark."""
    chunks: tuple[Chunk, ...]
    """All chunks of the file."""
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
            if UNCOMMON_ENDS.search(source) or text[start : start + len(source)] != source:
                return None
            tree = parsed_source(source)
        except (UnicodeError, cst.ParserSyntaxError, RecursionError):
            return None
        return cls(
            source,
            *tree,
            finding=finding,
            report=report,
            text=text,
            start=start,
            line=chunk.line,
            shift=chunk.column,
            chunks=chunks,
        )

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

    def line_number(self, node: cst.CSTNode) -> int:
        """The line of a node in the file, 1-based."""
        return self.ranges[node].start.line + self.line - 1

    # Nodes.

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


def _comments(module: cst.Module) -> collections.Counter[str]:
    return collections.Counter(node.value for node in descendants(module) if isinstance(node, cst.Comment))
