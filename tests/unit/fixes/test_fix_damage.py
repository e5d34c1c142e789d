"""Random remedies on the repository's own sources damage no file."""

from __future__ import annotations

import ast
import collections
import functools
import io
import random
import tokenize
from pathlib import Path

import pytest

from fuselight.shared.report import (
    FactKind,
    Report,
    TargetRef,
    Tier,
    TracedFacts,
    TracedValue,
    Versions,
)
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.fixes.rewrites.families import rewrites
from tests.support.offered_remedies import traced

ROOT = Path(__file__).parents[3]
SOURCES = sorted([*ROOT.glob("examples/*.py"), *ROOT.glob("tests/cases/**/*.py")])
CODES = ("GB0170", "GB0124", "GB0036", "GB0033", "GB0059", "GB0264")
COMMON_KINDS = {"where", "keep_tensor", "is_compiling", "assert_async", "hoist"}
APPLICATIONS = 300
VERSIONS = Versions("3.11", "2.13.0", None, "0", "linux", "python")
INSERTED = ("import torch", "torch._dynamo.config.")


class Places(ast.NodeVisitor):
    """Expressions at which a break could be reported, each with the lines that its remedy may change."""

    def __init__(self) -> None:
        self.expressions: list[tuple[ast.expr, int, int, int, int]] = []
        """A node, the first and last line that change, and those of the function at top level around it."""
        self.function_start, self.function_end = 0, 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer = self.function_start, self.function_end
        if not self.function_end:
            self.function_start, self.function_end = node.lineno, node.end_lineno or 0
        self.generic_visit(node)
        self.function_start, self.function_end = outer

    def generic_visit(self, node: ast.AST) -> None:
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                for at, statement in enumerate(value):
                    after = value[min(at + 1, len(value) - 1)]
                    self._note(statement, after)
        super().generic_visit(node)

    def _note(self, statement: ast.stmt, after: ast.stmt) -> None:
        last = after if isinstance(statement, ast.If) and isinstance(after, ast.Return) else statement
        is_used_later = isinstance(
            statement, (ast.If, ast.Assign)
        )  # `continue`, a flag, the name of a number
        end = max(last.end_lineno or 0, self.function_end if is_used_later else 0)
        headers = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]
        self.expressions += [
            (node, statement.lineno, end, self.function_start or statement.lineno, self.function_end or end)
            for header in headers
            for node in ast.walk(header)
            if isinstance(node, (ast.Call, ast.Subscript, ast.Compare))
        ]


@functools.lru_cache(maxsize=2)
def comments(text: str) -> collections.Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text.replace("\r\n", "\n").removeprefix("\ufeff")).readline)
    return collections.Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def variants(text: str) -> list[str]:
    """The text, and the same with other line ends, with tabs and with a byte order mark."""
    tabbed = "".join(
        "\t" * ((len(line) - len(line.lstrip(" "))) // 4) + line.lstrip(" ")
        for line in text.splitlines(keepends=True)
    )
    same = ast.dump(ast.parse(tabbed)) == ast.dump(ast.parse(text))
    kinds = [text, *([tabbed] if same else [])]
    kinds += [kind.replace("\n", "\r\n") for kind in kinds]
    return [*kinds, *(f"\ufeff{kind}" for kind in kinds)]


def finding_at(node: ast.expr, text: str, code: str) -> tuple[Finding, Report]:
    """A break at an expression, and a report that says that all names are tensors."""
    shift = 3 if text.startswith("\ufeff") and node.lineno == 1 else 0
    end = (node.end_col_offset or 0) + shift
    span = Span("m.py", node.lineno, node.col_offset + shift, node.end_lineno, end)
    finding = Finding(code, Severity.WARNING, "", "", span, Tier.CAPTURE, "f", "", "2.13.0")
    facts = facts_of(text)
    return finding, Report(VERSIONS, TargetRef("m.py", "f", 1, "function"), Tier.CAPTURE, 1, facts=facts)


@functools.lru_cache(maxsize=1)
def facts_of(text: str) -> TracedFacts:
    tree = ast.parse(text.removeprefix("\ufeff"))
    tensor = TracedValue(FactKind.TENSOR, "f32[4]", requires_grad=False)
    return traced(text, {node.id: tensor for node in ast.walk(tree) if isinstance(node, ast.Name)})


def check_undamaged(text: str, after: str, first: int, last: int) -> None:
    assert after != text
    ast.parse(after.removeprefix("\ufeff"))
    assert comments(after) == comments(text)
    assert after.startswith("\ufeff") == text.startswith("\ufeff")
    if "\r\n" in text:
        assert after.count("\n") == after.count("\r\n")
    else:
        assert "\r" not in after
    old, new = text.splitlines(keepends=True), after.splitlines(keepends=True)
    at = 0
    for line in old[: first - 1]:
        while new[at] != line and new[at].startswith(INSERTED):
            at += 1
        if new[at] != line and line.startswith(("import ", "from ")):
            continue  # only the statement used it
        assert new[at] == line
        at += 1
    assert new[len(new) - (len(old) - last) :] == old[last:]


def function_around(text: str, line: int) -> tuple[int, int]:
    """First and last line of the outermost function around a line, its decorators included."""
    return next((first, last) for first, last in functions(text) if first <= line <= last)


@functools.lru_cache(maxsize=1)
def functions(text: str) -> list[tuple[int, int]]:
    """First and last line of each function, the outer ones first."""
    return [
        (min([node.lineno, *(expression.lineno for expression in node.decorator_list)]), node.end_lineno or 0)
        for node in ast.walk(ast.parse(text.removeprefix("\ufeff")))
        if isinstance(node, ast.FunctionDef)
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_file_is_damaged() -> None:
    chance = random.Random(12)  # noqa: S311 - the same places each time
    texts = [variant for path in SOURCES for variant in variants(path.read_text(encoding="utf-8"))]
    chance.shuffle(texts)
    texts.sort(key=lambda text: "] hoist " not in text)  # the rarest kind first
    applied: collections.Counter[str] = collections.Counter()
    for text in texts:
        visitor = Places()
        visitor.visit(ast.parse(text.removeprefix("\ufeff")))
        sample = chance.sample(visitor.expressions, min(len(visitor.expressions), 40))
        for node, first, last, start, stop in sorted(
            sample, key=lambda entry: entry[1]
        ):  # a chunk stays parsed for a while
            for remedy in rewrites(
                *finding_at(node, text, chance.choice(CODES)), {"m.py": text}.get
            ).remedies:
                is_whole = remedy.kind == "custom_op" or "random numbers" in remedy.changes
                is_split = remedy.kind in {"hoist", "check"} or "measure" in remedy.changes
                changed = (start, stop) if is_whole else (first, last)
                changed = function_around(text, first) if is_split else changed
                check_undamaged(text, remedy.texts["m.py"], *changed)
                applied[remedy.kind] += 1
        if applied.total() >= APPLICATIONS and applied.keys() >= COMMON_KINDS:
            break
    assert applied.total() >= APPLICATIONS, applied
    assert applied.keys() >= COMMON_KINDS, applied
