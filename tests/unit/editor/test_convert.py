"""Positions between the editor's encodings and Fuselight's."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from fuselight.shared.report import Tier
from fuselight_server.base.finding import Finding, Related, Severity, Span
from fuselight_server.base.remedies import advice
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results import shown_findings
from fuselight_server.editor.results.finding_hover import ExplainedFinding, explain, explanations
from fuselight_server.explain.findings.common.text import compose

LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=30)
ENCODINGS = st.sampled_from(list(types.PositionEncodingKind))


def view(
    text: str, encoding: types.PositionEncodingKind = types.PositionEncodingKind.Utf16
) -> convert.Client:
    lines = text.split("\n")
    return convert.Client(
        encoding=encoding,
        read_line=lambda _path, line: lines[line - 1] if line <= len(lines) else None,
        uri_of=lambda path: f"file://{path}",
    )


@given(LINES, ENCODINGS, st.data())
def test_a_column_survives_the_way_there_and_back(
    text: str, encoding: types.PositionEncodingKind, data: st.DataObject
) -> None:
    characters = data.draw(st.integers(0, len(text)))
    column = len(text[:characters].encode())
    there = convert.units(text, column, encoding)
    assert convert.byte_column(text, there, encoding) == column


@given(LINES, ENCODINGS, st.integers(0, 500))
def test_a_column_beyond_the_end_is_the_end(
    text: str, encoding: types.PositionEncodingKind, column: int
) -> None:
    assert convert.byte_column(text, column, encoding) <= len(text.encode())
    assert convert.units(text, column, encoding) <= convert.units(text, 10_000, encoding)


@given(LINES)
def test_utf_16_counts_as_the_editor_does(text: str) -> None:
    assert (
        convert.units(text, len(text.encode()), types.PositionEncodingKind.Utf16)
        == len(text.encode("utf-16-le")) // 2
    )


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (Span("/a.py", 2, 4, 2, 6), (1, 4, 1, 6)),
        (Span("/a.py", 2), (1, 4, 1, 10)),
        (Span("/a.py", 1, 0, 2, 6), (0, 0, 1, 6)),
        (Span("/a.py", 3, 5, 3, 6), (2, 3, 2, 4)),
        (Span("/a.py", 99), (98, 0, 98, 0)),
    ],
)
def test_ranges(span: Span, expected: tuple[int, int, int, int]) -> None:
    result = convert.range_(span, view("def f():\n    return\n'\N{SLICE OF PIZZA}'x"))
    assert (result.start.line, result.start.character, result.end.line, result.end.character) == expected


def test_an_edited_finding_is_information_and_marked() -> None:
    finding = Finding(
        code="GB0059", severity=Severity.WARNING, title="graph break", message="why", span=Span("/a.py", 1),
        tier=Tier.CAPTURE, target="f", inputs="directive on line 3", torch="2.13.0", link="https://x",
        related=(Related(Span("/b.py", 2), "called here"),),
    )  # fmt: skip
    fresh = convert.diagnostic(finding, view("x"))
    edited = convert.diagnostic(finding, view("x"), edited=True)
    assert fresh.severity is types.DiagnosticSeverity.Warning
    assert edited.severity is types.DiagnosticSeverity.Information
    assert edited.message == convert.BEFORE_EDIT + fresh.message
    assert fresh.code_description == types.CodeDescription(href="https://x")
    assert fresh.related_information is not None
    assert fresh.related_information[0].location.uri == "file:///b.py"
    assert fresh.tags is None


def test_a_diagnostic_is_one_line_and_the_hover_explains_it() -> None:
    finding = Finding(
        code="GB0059", severity=Severity.WARNING, title="graph break", message="a long explanation",
        span=Span("/a.py", 1), tier=Tier.CAPTURE, target="f", inputs="directive on line 3", torch="2.13.0",
        remedies=advice(("Take it out.", "Or log it.")), cost=("2 graphs", "1 operator in eager"), count=3,
    )  # fmt: skip
    assert shown_findings.message(finding) == "graph break (3 times)"
    shown = explain(ExplainedFinding(finding, edited=False))
    assert "GB0059" not in shown, "so does it the code"
    assert "a long explanation" in shown
    message = compose("why it broke", cost=("2 graphs",), hints=("Take it out", "Or log it"))
    hints = ("Take it out", "Or log it")
    advised = dataclasses.replace(
        finding, code="FL101", message=message, remedies=advice(hints), cost=("2 graphs",)
    )
    ordered = explain(ExplainedFinding(advised, edited=False))
    assert ordered.startswith("What to do:")
    assert ordered.index("Or log it") < ordered.index("Cost: 2 graphs") < ordered.index("why it broke")
    assert ordered.index("why it broke") < ordered.index("directive on line 3")
    assert "graph break" not in shown, "the diagnostic above it says so"
    both = explanations([ExplainedFinding(finding, edited=False), ExplainedFinding(advised, edited=False)])
    assert both[0].startswith("**GB0059**"), "which of several it is"
    assert "**FL101**\n\nWhat to do:\n\n- Take it out.\n- Or log it." in both[0], "advice for all comes first"
    assert [text.partition("\n")[0] for text in both] == ["**GB0059**", "**GB0059**", "**FL101**"]
    longer = dataclasses.replace(finding, message="graph break.\n\nAnd what it means.")
    assert "\n\nAnd what it means.\n\n" in explain(ExplainedFinding(longer, edited=False))
    assert "graph break" not in explain(ExplainedFinding(longer, edited=False))


def test_a_trace_through_a_library_is_folded_to_its_innermost_and_the_user_frame() -> None:
    library = [Related(Span(f"/env/site-packages/{name}.py", 1), name) for name in ("broke", "b", "c", "d")]
    users = [Related(Span("/a.py", line), "called from") for line in (2, 3)]
    kept = list(convert.folded([*library, *users], lambda path: "site-packages" not in path))
    assert kept == [library[0], *users]


def test_only_files_have_paths() -> None:
    assert convert.path("file:///a%20b/c.py") == "/a b/c.py"
    assert convert.path("file:///a/.virtual_documents/b/c.ipynb") == "/a/b/c.ipynb"  # as JupyterLab names it
    assert convert.path("file:///a/.virtual_documents/b/c.py") == "/a/.virtual_documents/b/c.py"
    assert convert.path("untitled:Untitled-1") is None
    assert convert.path(convert.uri("/é/c d.py")) == "/é/c d.py"


@pytest.mark.parametrize("uri", ["file://[", "file://[::1", "file:///a%00b.py", "file:"])
def test_a_damaged_uri_names_no_file(uri: str) -> None:
    assert convert.path(uri) is None


@pytest.mark.parametrize(
    ("sent", "line"),
    [
        (0, 0), (7.0, 7), (-1, None), (1e300, None), (float("inf"), None), (float("nan"), None),
        ("5", None), (True, None), (None, None), ([], None),
    ],
)  # fmt: skip
def test_an_invalid_line_of_a_client_is_ignored(sent: object, line: int | None) -> None:
    assert convert.line_of(sent) == line


@pytest.mark.parametrize(
    ("link", "address"),
    [
        ("https://meta-pytorch.github.io/gb0059.html", "https://meta-pytorch.github.io/gb0059.html"),
        ("file:///opt/docs/FL101%20a.md", "file:///opt/docs/FL101%20a.md"),
        ("command:workbench.action.terminal.new", None),
        ("http://example.org", None),
        ("https://a.org> [x](command:y", None),
        (None, None),
    ],
)
def test_a_link_leads_only_to_a_page(link: str | None, address: str | None) -> None:
    finding = Finding(
        code="GB0059", severity=Severity.WARNING, title="", message="", span=Span("/a.py", 1), tier=Tier.CAPTURE,
        target="f", inputs="", torch="", link=link,
    )  # fmt: skip
    assert shown_findings.address(finding) == address
    shown = convert.diagnostic(finding, view("x"))
    assert (shown.code_description.href if shown.code_description else None) == address
    assert ("command:" in explain(ExplainedFinding(finding, edited=False))) is False
