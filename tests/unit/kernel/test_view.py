"""What a kernel shows of a report: names and lines of cells, and no markup of the user's."""

from __future__ import annotations

import pytest

from fuselight.shared.kernel_cells import CellText, ReportHeading
from fuselight.shared.report import Break, Location, Report
from fuselight_server.kernel.cell_names import named_cells, with_cell_names
from fuselight_server.kernel.view import MAX_SHOWN, view
from tests.support.reports import report

FOLDER = "/cells/ipykernel_7"
CODE = f"{FOLDER}/123.py"
OTHER = f"{FOLDER}/45.py"


def cell(text: str, code: str | None = None, path: str = CODE, label: str = "cell [3]") -> CellText:
    return CellText(path, label, text, text if code is None else code)


def breaking(*lines: int, path: str = CODE) -> Report:
    kind = "Failed to trace builtin operator"
    places = [Location(path, line, 4, line, 14, "f") for line in lines]
    breaks = tuple(Break("0/0", ("GB0059",), (kind,), (place,), reason=kind) for place in places)
    return report(breaks=breaks, roots=(FOLDER,))


def test_a_line_of_compiled_code_is_the_line_of_the_cell() -> None:
    named = named_cells(
        {CODE: cell("\n\n%%fuselight\nx = 1\n%cd \\\n  /tmp\nprint(x)", "\nx = 1\nrun('cd')\nprint(x)")}
    )
    assert [named[CODE].line(line) for line in (2, 3, 4, 5)] == [4, 5, 7, 7]
    assert named[CODE].path.endswith("cell [3]")


def test_every_place_of_a_report_is_renamed() -> None:
    named = named_cells(
        {CODE: cell("\nprint(1)", "print(1)"), OTHER: cell("y", path=OTHER, label="cell [9]")}
    )
    renamed = with_cell_names(breaking(1), named)
    (graph_break,) = renamed.breaks
    assert (graph_break.stack[0].path, graph_break.stack[0].line) == (named[CODE].path, 2)
    assert "ipykernel_7/" not in str(renamed.breaks)


def test_a_report_has_the_cell_and_its_source() -> None:
    shown = view(
        breaking(2),
        {CODE: cell("def f(x):\n    print('<i>')  # é")},
        ReportHeading("cell [4]", ["A remark."]),
    )
    assert shown.text.startswith("Fuselight\ncell [4]: 0 graphs, 1 break, 0 recompilations\nA remark.\n")
    assert "--> cell [3]:2:5" in shown.text
    assert "2 |     print('<i>')  # é" in shown.text
    assert "<code>cell [3]:2</code>" in shown.html
    assert "print(&#x27;&lt;i&gt;" in shown.html
    assert "<i>" not in shown.html
    assert "<script" not in shown.html


def test_an_ignore_comment_of_a_cell_counts() -> None:
    text = "def f(x):\n    print(x)  # fuselight: ignore[GB0059]"
    assert "No finding" not in view(breaking(2), {CODE: cell(text)}, ReportHeading("cell [4]")).text
    assert "GB0059]:" not in view(breaking(2), {CODE: cell(text)}, ReportHeading("cell [4]")).text


def test_the_output_of_a_cell_is_bounded() -> None:
    lines = "\n".join(f"    print({number})" for number in range(MAX_SHOWN + 10))
    shown = view(breaking(*range(1, MAX_SHOWN + 11)), {CODE: cell(lines)}, ReportHeading("cell [4]"))
    assert shown.html.count("<details") == MAX_SHOWN
    assert f"The first {MAX_SHOWN} of {MAX_SHOWN + 10} findings are shown." in shown.text


@pytest.mark.parametrize("cells", [{}, {OTHER: cell("y", path=OTHER)}])
def test_a_cell_that_is_gone_keeps_the_name_of_its_file(cells: dict[str, CellText]) -> None:
    assert f"--> {CODE}:2:5" in view(breaking(2), cells, ReportHeading("cell [4]")).text
