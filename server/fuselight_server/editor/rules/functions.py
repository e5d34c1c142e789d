"""The traced functions in which an edit made new lines: parsed, with what the run knows of them.

Invariant: a function whose `def` line, decorators or parameters are new is not among them, nor one that does not parse,
nor one that ran in eager mode. Only the statements at the top of the file, and the methods, that hold a new line are
parsed.
"""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fuselight.shared.foreign_data import try_parse_python
from fuselight.shared.report import Branch, Fact, FileFacts, Report, TracedValue
from fuselight_server.editor.rules.edited import EditedText, Hunk
from fuselight_server.editor.rules.values import KnownValue, common, value_of
from fuselight_server.source.chunks import Memory, cut

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_LONGEST = 3_000
"""Lines of a statement at the top of the file that is parsed."""
_CLASS = re.compile(rb"^class\b", re.MULTILINE)
_MEMBER = re.compile(rb"([ \t]+)(?:@|(?:async[ \t]+)?def\b)")
_IMPORT = re.compile(rb"(?:import|from)[ \t]")
_DEFINED = re.compile(rb"^(?:(?:async[ \t]+)?def[ \t]+|class[ \t]+)?(\w+)[ \t]*(?:[(:=]|$)", re.MULTILINE)
_DISABLED = re.compile(
    rb"@torch\.(?:compiler|_dynamo)\.disable(?:\([^\r\n]*\))?[ \t]*\r?\n(?:async[ \t]+)?def[ \t]+(\w+)",
)
DISABLED = "torch.compiler.disable"
"""What a function of the file stands for that is decorated so."""
_LOGGER = re.compile(rb"(\w+)[ \t]*(?::[^=\r\n]*)?=[ \t]*(?:\w+\.)*get_?[lL]ogger\(")


@dataclass(frozen=True)
class RunFacts:
    """The facts of one file, as lines of the text that ran."""

    values: Sequence[TracedValue]
    file: FileFacts

    @cached_property
    def _starts(self) -> list[int]:
        return [fact.line for fact in self.file.facts]

    def between(self, first: int, last: int) -> Sequence[Fact]:
        """Facts of expressions that start on these lines."""
        start = bisect.bisect_left(self._starts, first)
        return self.file.facts[start : bisect.bisect_right(self._starts, last)]

    def value(self, fact: Fact) -> KnownValue | None:
        """What a fact says, for all times that the expression was traced."""
        if fact.omitted:
            return None
        return value_of([self.values[index] for index, _ in fact.values])


@dataclass(frozen=True)
class EditedFunction:
    """One function with new lines in its body."""

    path: str
    node: FunctionNode
    edited: EditedText
    facts: RunFacts
    names: Mapping[str, str]
    """Names of the file's imports: local name to what it stands for; `logger` objects stand for `logging.Logger`."""
    module_names: frozenset[str]
    """All names that the file defines at its top, imports left out."""

    @cached_property
    def last_line(self) -> int:
        """Its last line now."""
        return self.node.end_lineno or self.node.lineno

    @cached_property
    def _old_lines(self) -> tuple[int, int]:
        """Its lines in the run."""
        first = self.edited.then(self.node.lineno)
        end = self.last_line
        while self.edited.then(end) == 0:
            end -= 1
        last = self.edited.then(end)
        hunk = self.edited.hunk_of(end + 1)
        return first, max(last, hunk.old_last) if hunk is not None else last

    @cached_property
    def old_facts(self) -> dict[tuple[int, int, int, int, bool], Fact]:
        """The facts of the function by their place in the run and by whether they are of an assigned name."""
        return {
            (fact.line, fact.column, fact.end_line, fact.end_column, fact.assigned): fact
            for fact in self.facts.between(*self._old_lines)
        }

    @cached_property
    def old_lines_traced(self) -> frozenset[int]:
        """Lines of the run in which a traced expression starts."""
        first, last = self._old_lines
        branches = (branch.line for branch in self.facts.file.branches if first <= branch.line <= last)
        return frozenset([*(key[0] for key in self.old_facts), *branches])

    @cached_property
    def _branches(self) -> dict[tuple[int, int, int, int], Branch]:
        first, last = self._old_lines
        return {
            (branch.line, branch.column, branch.end_line, branch.end_column): branch
            for branch in self.facts.file.branches
            if first <= branch.line <= last
        }

    def _then(self, node: ast.expr | ast.stmt) -> tuple[int, int, int, int] | None:
        """The place of a node in the run, None if one of its lines is new."""
        last = node.end_lineno or node.lineno
        if self.edited.is_new(node.lineno, last):
            return None
        then = self.edited.then(node.lineno)
        return then, node.col_offset, then + last - node.lineno, node.end_col_offset or 0

    def fact(self, node: ast.expr, *, assigned: bool = False) -> KnownValue | None:
        """What an old expression was in the run, or a name to which an old statement assigned; None where unknown."""
        place = self._then(node)
        fact = self.old_facts.get((*place, assigned)) if place is not None else None
        return self.facts.value(fact) if fact is not None else None

    def branch(self, test: ast.expr) -> Branch | None:
        """How often each side of an old condition was traced."""
        place = self._then(test)
        return self._branches.get(place) if place is not None else None

    def is_new(self, node: ast.expr | ast.stmt) -> bool:
        """Whether a line of a node is new."""
        return self.edited.is_new(node.lineno, node.end_lineno or node.lineno)

    def replaced(self, hunk: Hunk) -> dict[bytes, KnownValue | None]:
        """What each expression was in the old lines of a hunk, by its text; expressions over several lines left out."""
        known_values = self._replaced.get(hunk)
        if known_values is None:
            known_values = self._replaced[hunk] = {}
            for fact in self.facts.between(hunk.old_first, hunk.old_last):
                if fact.end_line == fact.line and not fact.assigned:
                    text = self.edited.old[fact.line - 1][fact.column : fact.end_column]
                    value = self.facts.value(fact)
                    known_values[text] = common(known_values[text], value) if text in known_values else value
        return known_values

    @cached_property
    def _replaced(self) -> dict[Hunk, dict[bytes, KnownValue | None]]:
        return {}

    def is_traced(self, node: ast.stmt) -> bool:
        """Whether an old line of a statement was traced in the run."""
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        return any(self.edited.then(line) in self.old_lines_traced for line in lines)


def functions_of(report: Report, path: str, edited: EditedText) -> Iterator[EditedFunction]:
    """The traced functions with new lines, in the order of the file; an outer function before an inner one."""
    facts = RunFacts(report.facts.values, report.facts.files[path])
    eager = _eager_functions(report, path)
    data = b"".join(edited.new)
    chunks = cut(data, Memory())
    names: dict[str, str] | None = None
    others: frozenset[str] = frozenset()
    for tree in _statements(chunks, edited):
        for node in ast.walk(tree):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or not _fits(node, edited):
                continue
            if names is None:
                names = _names(chunks)
                others = frozenset(match[1].decode("utf-8", "replace") for match in _DEFINED.finditer(data))
            function = EditedFunction(path, node, edited, facts, names, others - names.keys())
            def_lines = {edited.then(line) for line in (node.lineno, *_decorator_lines(node))}
            if function.old_lines_traced and not def_lines & eager:
                yield function


def _fits(node: FunctionNode, edited: EditedText) -> bool:
    """Whether the body has a new line and what precedes the body has none."""
    first, last = min((node.lineno, *_decorator_lines(node))), _signature_end(node)
    head_is_old = last < node.body[0].lineno and not edited.is_new(first, last)
    return head_is_old and edited.is_new(node.lineno, (node.end_lineno or node.lineno) + 1)


def _signature_end(node: FunctionNode) -> int:
    """The last line of the parameters and the return type."""
    given = node.args
    parts = [*given.posonlyargs, *given.args, *given.kwonlyargs, *given.defaults, node.returns]
    parts += [given.vararg, given.kwarg, *given.kw_defaults]
    return max([node.lineno, *(part.end_lineno or 0 for part in parts if part is not None)])


def _decorator_lines(node: FunctionNode) -> list[int]:
    return [expression.lineno for expression in node.decorator_list]


def _eager_functions(report: Report, path: str) -> set[int]:
    """First lines of functions that ran in eager mode, at least in part: code after such a break is not traced."""
    lines = {
        uncompiled_code.location.line
        for uncompiled_code in report.not_compiled
        if uncompiled_code.location.path == path
    }
    skipped = {graph_break.compile_id for graph_break in report.breaks if graph_break.frame_skipped}
    frames = {
        record.frame
        for record in report.compiles
        if record.id in skipped and record.frame < len(report.frames)
    }
    places = [report.frames[index].location for index in frames]
    return lines | {location.line for location in places if location.path == path}


def _statements(chunks: Sequence[bytes], edited: EditedText) -> Iterator[ast.Module]:
    """The parsed statements at the top of the file, or members of a class there, that have new lines."""
    line = 1
    for chunk in chunks:
        rows = chunk.splitlines(keepends=True)
        last = line + len(rows) - 1
        if edited.is_new(line, last + 1) and len(rows) <= _LONGEST:
            yield from _parsed(chunk, rows, line, edited)
        line += len(rows)


def _parsed(chunk: bytes, rows: list[bytes], line: int, edited: EditedText) -> Iterator[ast.Module]:
    if not _CLASS.search(chunk):
        tree = _parse(chunk, line)
        if tree is not None:
            yield tree
        return
    for first, last in _members(rows):
        if edited.is_new(line + first, line + last + 1):
            tree = _parse(b"if 1:\n" + b"".join(rows[first : last + 1]), line + first - 1)
            if tree is not None:
                yield tree


def _members(rows: list[bytes]) -> Iterator[tuple[int, int]]:
    """First and last row of each method of a class, with its decorators, by indentation alone."""
    starts: list[int] = []
    indent: bytes | None = None
    for row, text in enumerate(rows):
        match = _MEMBER.match(text)
        if match is None:
            continue
        own: bytes = match[1]
        indent = indent or own
        if own == indent and (not starts or not rows[row - 1].startswith(own + b"@")):
            starts.append(row)
    lasts = (start - 1 for start in starts[1:])
    yield from zip(starts, [*lasts, len(rows) - 1] if starts else (), strict=True)


def _parse(text: bytes, line: int) -> ast.Module | None:
    tree = try_parse_python(text)
    return None if tree is None else ast.increment_lineno(tree, line - 1)


def _names(chunks: Sequence[bytes]) -> dict[str, str]:
    """What the imports at the top of the file stand for, its loggers, and its functions that are not traced."""
    names: dict[str, str] = {}
    for chunk in chunks:
        if _IMPORT.match(chunk):
            names |= _imported(chunk)
        elif (logger := _LOGGER.match(chunk)) is not None:
            names[logger[1].decode("utf-8", "replace")] = "logging.Logger"
        elif (disabled := _DISABLED.match(chunk)) is not None:
            names[disabled[1].decode("utf-8", "replace")] = DISABLED
    return names


def _imported(chunk: bytes) -> dict[str, str]:
    tree = try_parse_python(chunk)
    if tree is None:
        return {}
    imported: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for name in node.names:
                top = name.name.partition(".")[0]
                imported[name.asname or top] = name.name if name.asname else top
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            imported |= {alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names}
    return imported
