"""Facts of the last run in the editor: hovers, inlay hints and faded lines, before and after edits."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fuselight.shared.report import (
    Branch,
    Fact,
    FactKind,
    FileFacts,
    TracedFacts,
    TracedValue,
    data_key,
)
from fuselight_server.base.settings import Settings
from fuselight_server.editor.handlers.diagnostics import diagnostics_of
from fuselight_server.editor.handlers.hover import hover
from fuselight_server.editor.handlers.inlay_hints import inlay_hints
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results import captures
from fuselight_server.editor.results.captures import CaptureResult, capture_result_of
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.results.traced_values import values_at
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings.common.fact_words import FactWords
from fuselight_server.source.document import SourceDocument
from tests.support.reports import FILE, ROOT, report

TEXT = """\
class Net:
    def forward(self, x):
        b, t = x.shape
        width = self.width
        y = self.proj(x) * 2
        pair = (y, y.mT)
        if self.training and (
            b > 3
        ):
            y = dropout(y)

            y = y.sum(
                1,
            )
        n: int = x.size(0)
        return self.act(y)

    def other(self, é, x): x = é @ x; return x
"""
LINES = TEXT.splitlines()
F32 = TracedValue(FactKind.TENSOR, "f32[2, 8]", "cpu", "contiguous", requires_grad=True)
OTHER = TracedValue(FactKind.TENSOR, "f32[4, 8]", "cpu", "strided", requires_grad=False)
MORE = TracedValue(FactKind.TENSOR, "f32[6, 8]", "cpu", "contiguous", requires_grad=True)
VALUES = (
    F32,
    OTHER,
    MORE,
    TracedValue(FactKind.CONSTANT, "2"),
    TracedValue(FactKind.MODULE, "Linear"),
    TracedValue(FactKind.CONTAINER, "tuple of 2: f32[2, 8], f32[8, 2]"),
    TracedValue(FactKind.NUMBER, "s0"),
    TracedValue(FactKind.CONTAINER, "Size of 2: 2, 8"),
    TracedValue(FactKind.CONSTANT, "1.8158535957336426"),
)


def fact(line: int, text: str, *values: tuple[int, int], assigned: bool = False, omitted: int = 0) -> Fact:
    """A fact of the first expression with this text on a line."""
    start = len(LINES[line - 1][: LINES[line - 1].index(text)].encode())
    return Fact(line, start, line, start + len(text.encode()), values, assigned, omitted)


FACTS = (
    fact(3, "b", (3, 1), assigned=True),
    fact(3, "t", (6, 1), assigned=True),
    fact(3, "x.shape", (7, 1)),
    fact(3, "x", (0, 1)),
    fact(4, "width", (3, 1), assigned=True),
    fact(5, "y", (0, 12), (1, 2), assigned=True),
    fact(5, "self.proj", (4, 14)),
    fact(5, "self.proj(x)", (0, 14)),
    fact(5, "self.proj(x) * 2", (0, 14)),
    fact(6, "pair", (5, 1), assigned=True),
    fact(6, "(y, y.mT)", (5, 1)),
    Fact(7, 29, 9, 9, ((3, 1),)),
    fact(15, "n", (3, 1), assigned=True),
    fact(16, "self.act(y)", (0, 9), (1, 2), omitted=3),
    fact(18, "x = é".removesuffix(" = é"), (0, 1)),
    Fact(18, 28, 18, 29, ((1, 1),), assigned=True),
)
BRANCHES = (Branch(7, 11, 7, 24, 0, 4), Branch(8, 12, 8, 17, 2, 2))


class Editor:
    """A document, the state, and the results of runs of its text."""

    def __init__(self, text: str = TEXT, **chosen: Any) -> None:
        self.state = State()
        self.source = SourceDocument(FILE, text)
        self.document = Document("file:///project/model.py", FILE, 1, self.source, runnable=True)
        self.state.folders[ROOT] = Folder(ROOT, f"file://{ROOT}", Settings(**chosen))
        self.state.open(self.document)
        view = convert.Client("utf-16", self.state.documents.read_line, lambda path: f"file://{path}")
        self.server: Any = SimpleNamespace(
            state=self.state,
            encoding="utf-16",
            view=view,
            snapshot=lambda uri: self.state.snapshot(uri, {}),
        )

    def accept(
        self,
        name: str = "Net",
        *,
        facts: tuple[Fact, ...] = FACTS,
        untraced: tuple[tuple[int, int], ...] = ((10, 10), (12, 13)),
        generation: int = 1,
    ) -> CaptureResult:
        """Accept a run of the text as it is."""
        traced_facts = TracedFacts(VALUES, {FILE: FileFacts(facts, BRANCHES, untraced)})
        ran = {FILE: data_key(self.source.text.encode())}
        result = capture_result_of(Key(FILE, name), generation, report(facts=traced_facts, files=ran), ())
        self.state.accept_result(result)
        return result

    def edit(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        self.state.edit(FILE, self.source.edit(start, end, text))
        self.state.compare_with_text(FILE, self.source)

    def hover(self, line: int, text: str, *, offset: int = 0) -> str:
        """The hover on the first place of a text in a 1-based line."""
        row = self.document.line(line) or ""
        at = types.Position(line - 1, row.index(text) + offset)
        params = types.HoverParams(types.TextDocumentIdentifier(self.document.uri), at)
        actual_hover = asyncio.run(hover(self.server, params))
        if actual_hover is None:
            return ""
        assert isinstance(actual_hover.contents, types.MarkupContent)
        return actual_hover.contents.value

    def hints(self, first: int = 1, last: int = 99) -> list[str]:
        """Each line of the range with its hints in place."""
        start, end = types.Position(first - 1, 0), types.Position(last - 1, 0)
        params = types.InlayHintParams(
            types.TextDocumentIdentifier(self.document.uri), types.Range(start, end)
        )
        shown: dict[int, str] = {}
        for hint in sorted(
            inlay_hints(self.server, params) or (), key=lambda inlay_hint: -inlay_hint.position.character
        ):
            line = hint.position.line + 1
            row = shown.get(line, self.document.line(line) or "")
            label = f"{' ' if hint.padding_left else ''}{hint.label}"
            shown[line] = f"{row[: hint.position.character]}<{label}>{row[hint.position.character :]}"
        return [shown[line].strip() for line in sorted(shown)]

    def faded(self) -> list[tuple[int, int]]:
        """The first and the last line of each faded range."""
        return [
            (diagnostic.range.start.line + 1, diagnostic.range.end.line + 1)
            for diagnostic in diagnostics_of(self.server, FILE)
            if diagnostic.tags == [types.DiagnosticTag.Unnecessary]
        ]


SOURCE = "*capture: Net; directive on line 9: Net()(`f32[4, 8]`)*"


def test_a_hover_says_what_the_smallest_expression_was() -> None:
    editor = Editor()
    editor.accept()
    assert editor.hover(3, "x") == f"`x`: `f32[2, 8]` (cpu)\n\n{SOURCE}"
    assert editor.hover(5, "self.proj") == f"`self.proj`: module `Linear` (14 times)\n\n{SOURCE}"
    assert editor.hover(5, "(x)") == f"`self.proj`: module `Linear` (14 times)\n\n{SOURCE}"
    assert editor.hover(5, "* 2").startswith("`self.proj(x) * 2`: `f32[2, 8]` (cpu, 14 times)")
    assert editor.hover(4, "width").startswith("`width`: constant `2`\n")
    dynamic = "`s0` is dynamic: the compiled code takes more than one value."
    assert editor.hover(3, "t") == f"`t`: number `s0`\n\n{dynamic}\n\n{SOURCE}"
    assert editor.hover(2, "self") == ""


def test_the_values_of_an_expression_are_folded() -> None:
    editor = Editor()
    editor.accept()
    assert editor.hover(5, "y") == (
        "`y`: 14 times, 2 shapes\n\n- `f32[2, 8]` (cpu, 12 times)\n"
        f"- `f32[4, 8]` (cpu, not contiguous, no gradient, 2 times)\n\n{SOURCE}"
    )
    hover = editor.hover(16, "self.act(y)", offset=5)
    assert hover.startswith("`self.act(y)`: at least 11 times, 5 values")
    assert "- and 3 more values\n" in hover


def test_a_condition_says_which_side_was_traced() -> None:
    editor = Editor()
    editor.accept()
    hover = editor.hover(7, "self.training")
    assert hover.startswith(
        "The condition `self.training` was always false: its other side was never traced."
    )
    assert "never traced" not in editor.hover(8, "b > 3")


def test_the_span_of_a_statement_says_nothing_in_its_body() -> None:
    editor = Editor()
    whole = Branch(7, 8, 14, 13, 0, 4)
    facts = TracedFacts(VALUES, {FILE: FileFacts(FACTS, (whole,), ())})
    editor.state.accept_result(capture_result_of(Key(FILE, "Net"), 1, report(facts=facts), ()))
    assert "`self.training and ( ...` was always false" in editor.hover(7, "self.training")
    assert editor.hover(10, "dropout") == ""


def test_an_edited_line_has_no_fact_and_others_say_that_they_are_older() -> None:
    editor = Editor()
    editor.accept()
    editor.edit((5, 25), (5, 25), " + 1")
    assert editor.hover(5, "self.proj") == ""
    editor.edit((1, 0), (1, 0), "# one\n")
    moved = SOURCE.replace("line 9", "line 10")
    assert editor.hover(4, "x") == f"`x`: `f32[2, 8]` (cpu)\n\n{moved} *(from before your last edit)*"
    editor.edit((1, 0), (2, 0), "")
    editor.edit((5, 25), (5, 29), "")
    assert editor.source.text == TEXT
    assert editor.hover(5, "self.proj") == f"`self.proj`: module `Linear` (14 times)\n\n{SOURCE}"


def test_a_line_in_an_expression_of_several_lines_edits_it() -> None:
    editor = Editor()
    editor.accept()
    assert values_at(editor.state.captures.values(), editor.document, 8, 10).parts[0].startswith("`( ...`")
    editor.edit((8, 0), (8, 0), "# new\n")
    assert not values_at(editor.state.captures.values(), editor.document, 9, 10).parts


def test_a_file_that_changed_on_disk_has_no_facts_until_its_text_is_back() -> None:
    editor = Editor()
    result = editor.accept()
    result.mark_changed(FILE)
    assert editor.hover(3, "x") == ""
    assert editor.hints() == []
    result.mark_current(FILE)
    assert editor.hover(3, "x")


def test_runs_with_other_values_are_listed_and_those_of_the_text_come_first() -> None:
    editor = Editor()
    editor.accept("old")
    editor.edit((1, 0), (1, 0), "# one\n")
    moved = tuple(
        Fact(fact.line + 1, fact.column, fact.end_line + 1, fact.end_column, fact.values)
        for fact in FACTS[:5]
    )
    editor.accept("new", facts=moved, untraced=(), generation=2)
    assert "before your last edit" not in editor.hover(4, "x")
    assert "before your last edit" in editor.hover(6, "self.proj")
    editor.accept("third", facts=(fact(3, "x", (1, 1)),), generation=3)


def test_hints_are_on_assigned_tensors_and_sizes() -> None:
    editor = Editor()
    editor.accept()
    assert editor.hints() == [
        "b<: 2>, t<: s0> = x.shape",
        "y<: f32[2, 8] +1> = self.proj(x) * 2",
        "pair<: tuple(f32[2, 8], f32[8, 2])> = (y, y.mT)",
        "n< 2>: int = x.size(0)",
        "def other(self, é, x): x<: f32[4, 8]> = é @ x; return x",
    ]
    assert editor.hints(5, 5) == ["y<: f32[2, 8] +1> = self.proj(x) * 2"]
    assert editor.hints(16, 17) == []


def test_data_of_one_run_has_no_hint() -> None:
    editor = Editor()
    editor.accept(facts=(fact(4, "width", (8, 1), (6, 1), assigned=True),))
    assert editor.hints() == []


def test_all_hints_are_on_calls_too() -> None:
    editor = Editor(inlay_hints="all")
    editor.accept()
    assert editor.hints(5, 6) == [
        "y<: f32[2, 8] +1> = self.proj(x)< f32[2, 8]> * 2",
        "pair<: tuple(f32[2, 8], f32[8, 2])> = (y, y.mT)",
    ]
    assert editor.hints(16, 16) == ["return self.act(y)< f32[2, 8] +4>"]


def test_no_hints_where_the_setting_says_so_or_a_line_was_edited() -> None:
    editor = Editor(inlay_hints="off")
    editor.accept()
    assert editor.hints() == []
    editor = Editor()
    editor.accept()
    editor.edit((5, 8), (5, 9), "z")
    editor.edit((4, 0), (4, 0), "\n")
    assert editor.hints(4, 7) == ["pair<: tuple(f32[2, 8], f32[8, 2])> = (y, y.mT)"]


def test_lines_that_were_not_traced_are_faded_if_the_user_wants_it() -> None:
    editor = Editor()
    editor.accept()
    assert editor.faded() == []
    editor = Editor(fade_untraced=True)
    editor.accept()
    assert editor.faded() == [(10, 14)]
    (diagnostic,) = diagnostics_of(editor.server, FILE)
    assert diagnostic.severity == types.DiagnosticSeverity.Hint
    assert diagnostic.message == "not traced with these inputs: directive on line 9: Net()(f32[4, 8])"
    assert diagnostic.code is None


def test_faded_lines_move_and_return_when_their_function_is_edited() -> None:
    editor = Editor(fade_untraced=True)
    editor.accept()
    editor.edit((1, 0), (1, 0), "# one\n\n")
    assert editor.faded() == [(12, 16)]
    editor.edit((5, 0), (5, 0), "        # in the function\n")
    assert editor.faded() == []
    editor.edit((5, 0), (6, 0), "")
    assert editor.faded() == [(12, 16)]
    editor.edit((20, 0), (20, 0), "        # in another one\n")
    assert editor.faded() == [(12, 16)]
    editor.edit((5, 0), (6, 0), "")
    assert editor.faded() == [], "a line of the function was deleted"


def test_a_line_that_another_run_reached_is_not_faded() -> None:
    editor = Editor(fade_untraced=True)
    editor.accept()
    editor.accept("trains", facts=(fact(10, "dropout(y)", (0, 1)), fact(12, "y", (0, 1))), untraced=())
    assert editor.faded() == []
    editor.accept("trains", facts=(fact(10, "dropout(y)", (0, 1)),), untraced=((12, 13),))
    assert editor.faded() == [(12, 14)]


def test_an_unusual_gradient_is_named() -> None:
    words = FactWords(TracedFacts(VALUES))
    (first, second) = words.values(FACTS[5])
    assert first.details == ("cpu",)
    assert second.details == ("cpu", "not contiguous", "no gradient")
    alike = FactWords(TracedFacts((F32, OTHER)))
    assert [value.details[0] for value in alike.values(Fact(1, 0, 1, 1, ((0, 1), (1, 1))))] == ["cpu", "cpu"]
    assert alike.values(Fact(1, 0, 1, 1, ((1, 1),)))[0].details == ("cpu", "not contiguous")


def test_the_oldest_captures_give_up_their_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "MAX_FACTS", 2 * len(FACTS))
    editor = Editor()
    results = [editor.accept(name) for name in ("one", "two", "three")]
    assert [capture_result.facts.count for capture_result in results] == [0, len(FACTS), len(FACTS)]
    assert not results[0].report.facts.files
