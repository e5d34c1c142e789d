"""Open notebooks: the text of the document after any changes of cells, and messages about them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fuselight_server.base.finding import Span
from fuselight_server.editor.handlers.notebook_messages import CellMessages, in_cells
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.notebooks import Notebook, OpenCell, OpenNotebooks
from fuselight_server.source.document import SourceDocument
from fuselight_server.source.text_changes import moved

URI = "file:///a/n.ipynb"
TEXTS = ("", "x = 1", "x = 1\ny = 2\n", "%%bash\nls", "!ls\nz = 3", "x = (", "# %% fuselight", "é = '''\n'''")


def open_cell(uri: str, text: str, language: str = "python", *, is_code: bool = True) -> OpenCell:
    document = Document(uri, uri, 1, SourceDocument(uri, text), runnable=False)
    return OpenCell(document, language, is_code)


def notebook(*texts: str) -> Notebook:
    return Notebook(
        URI, "/a/n.ipynb", 1, [open_cell(f"cell:{number}", text) for number, text in enumerate(texts)]
    )


def test_the_document_has_the_text_of_the_cells_after_any_changes() -> None:
    chance = random.Random(11)  # noqa: S311 - nothing is kept secret
    for _ in range(60):
        book = notebook(*chance.choices(TEXTS, k=chance.randrange(5)))
        count = 100
        for _ in range(12):
            cells = book.cells
            kind = chance.randrange(5) if cells else 0
            index = chance.randrange(len(cells) + (kind == 0)) if cells else 0
            if kind == 0:
                count += 1
                cells.insert(index, open_cell(f"cell:{count}", chance.choice(TEXTS)))
            elif kind == 1:
                del cells[index]
            elif kind == 2:
                cells.insert(chance.randrange(len(cells)), cells.pop(index))
            elif kind == 3:
                cells[index].document.source.become(chance.choice(TEXTS))
            else:
                cells[index].is_code = not cells[index].is_code
            book.follow_cells()
            assert book.document.source.text == book.module.text
            assert [cell.id for cell in book.module.cells] == [c.document.uri for c in cells if c.is_code]


def test_a_change_of_one_cell_leaves_places_in_others() -> None:
    book = notebook("a = 1", "b = 2\nc = 3", "d = 4")
    place = Span("/a/n.ipynb", 5, 0, 5, 5)  # c = 3
    book.cells.insert(0, open_cell("cell:9", "new\nnew"))
    book.cells[3].document.source.become("d = 5\ne = 6")
    del book.cells[1]
    for change in book.follow_cells():
        now = moved(place, change)
        assert now is not None
        assert not now.edited
        place = now.span
    assert place.line == 6
    assert book.document.line(6) == "c = 3"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("directive on line 2: f(x)", "directive on cell 1, line 1: f(x)"),
        ("see lines 4-5 and line 2", "see cell 2, lines 1-2 and cell 1, line 1"),
        ("n.ipynb on line 5", "cell 2, line 2"),
        ("/a/n.ipynb:5:3 and b.ipynb:5", "/a/n.ipynb, cell 2, line 2 and b.ipynb:5"),
        (
            "other.ipynb on line 5, model.py on line 2, `line 2`",
            "other.ipynb on line 5, model.py on line 2, `line 2`",
        ),
        ("train.py on lines 2, 3 and 5", "train.py on lines 2, 3 and 5"),
        ("on line 3 and line 99", "on line 3 and line 99"),
        ("a baseline 2 of pipeline 5", "a baseline 2 of pipeline 5"),
    ],
)
def test_a_line_is_named_by_its_cell(text: str, named: str) -> None:
    assert in_cells(text, notebook("a = 1", "b = 2\nc = 3")) == named


def messages(book: Notebook) -> CellMessages:
    books = OpenNotebooks()
    books.add_notebook(book)
    return CellMessages(books)


def at(line: int, character: int = 0) -> dict[str, int]:
    return {"line": line, "character": character}


def span(line: int, end: int | None = None) -> dict[str, Any]:
    return {"start": at(line), "end": at(line if end is None else end, 5)}


def test_a_request_about_a_cell_is_one_about_the_notebook_and_back() -> None:
    translate = messages(notebook("a = 1", "b = 2\nc = 3"))
    request = {
        "id": 7,
        "method": "textDocument/codeAction",
        "params": {
            "textDocument": {"uri": "cell:1"},
            "range": span(1),
            "context": {"diagnostics": [{"range": span(1), "message": "line 1"}]},
        },
    }
    params = translate.incoming(request)["params"]
    assert params["textDocument"] == {"uri": URI}
    assert params["range"] == span(4)
    assert params["context"]["diagnostics"][0]["range"] == span(4)
    edits = {"changes": {URI: [{"range": {"start": at(1), "end": at(1)}, "newText": "x\n"}]}}
    answer = {
        "id": 7,
        "result": [
            {"range": span(4), "title": "on line 5", "edit": edits, "command": {"arguments": [{"uri": URI}]}},
            {"range": span(1), "title": "in another cell"},
            {"title": "of no place"},
        ],
    }
    [translated] = translate.outgoing(answer)
    first, second = translated["result"]
    assert (first["range"], first["title"]) == (span(1), "on cell 2, line 2")
    assert first["edit"]["changes"] == {
        "cell:0": [{"range": {"start": at(0), "end": at(0)}, "newText": "x\n"}]
    }
    assert first["command"] == {"arguments": [{"uri": URI}]}
    assert second == {"title": "of no place"}
    # The answer of a request without a cell is about the document.
    assert translate.outgoing({"id": 8, "result": {"range": span(4)}}) == [
        {"id": 8, "result": {"range": span(4)}}
    ]


def test_an_action_whose_edit_fits_into_no_cell_is_left_out() -> None:
    translate = messages(notebook("a = 1\n!ls", "b = 2"))
    joins, fits, command = (
        {"changes": {URI: [{"range": {"start": at(start), "end": at(end)}, "newText": "x\n"}]}}
        for start, end in ((1, 4), (1, 2), (2, 3))
    )
    actions = [{"title": name, "edit": edit} for name, edit in (("a", joins), ("b", fits), ("c", command))]
    [answer] = translate.outgoing({"id": 1, "result": actions})
    assert [action["title"] for action in answer["result"]] == ["b"]
    [request] = translate.outgoing({"id": 2, "method": "workspace/applyEdit", "params": {"edit": joins}})
    assert request["params"]["edit"] == {"changes": {}}


def test_our_own_messages_name_lines_next_to_a_uri() -> None:
    translate = messages(notebook("a = 1", "b = 2\nc = 3"))
    command = {"command": "x", "arguments": [{"uri": "cell:1", "line": 1, "last": 1, "target": "f"}]}
    params = translate.incoming({"id": 1, "method": "workspace/executeCommand", "params": command})["params"]
    assert params["arguments"] == [{"uri": URI, "line": 4, "last": 4, "target": "f"}]
    copied = {"id": 1, "result": "GB1 at n.ipynb:5"}
    assert translate.outgoing(copied) == [{"id": 1, "result": "GB1 at n.ipynb, cell 2, line 2"}]
    shown = {"method": "window/showDocument", "id": 3, "params": {"uri": URI, "selection": span(4)}}
    assert translate.outgoing(shown)[0]["params"] == {"uri": "cell:1", "selection": span(1)}
    place = {"uri": URI, "path": "n.ipynb", "line": 4, "text": "c = 3"}
    (measured,) = translate.outgoing({"id": 4, "result": {"lines": [place]}})
    assert measured["result"]["lines"] == [
        {"uri": "cell:1", "path": "n.ipynb:cell 2", "line": 1, "text": "c = 3"}
    ]
    translate.incoming({"id": 5, "method": "fuselight/graphs", "params": {"uri": URI, "target": "f"}})
    boxes = [
        {"uri": URI, "range": span(4), "facts": ["from line 5 on"]},
        {"uri": "file:///a/m.py", "range": span(4), "facts": ["from line 5 on", "reached from n.ipynb:5"]},
    ]
    (page,) = translate.outgoing({"id": 5, "result": {"description": "inputs from line 4", "boxes": boxes}})
    assert page["result"]["description"] == "inputs from cell 2, line 1"
    assert [box["facts"] for box in page["result"]["boxes"]] == [
        ["from cell 2, line 2 on"],
        ["from line 5 on", "reached from n.ipynb, cell 2, line 2"],
    ]
    changed = {"method": "fuselight/reportChanged", "params": {"uri": URI}}
    assert translate.outgoing(changed) == [changed]


def test_a_request_about_a_notebook_that_was_closed_meanwhile_has_no_answer() -> None:
    books = OpenNotebooks()
    books.add_notebook(notebook("a = 1", "b = 2"))
    translate = CellMessages(books)
    translate.incoming(
        {"id": 5, "method": "textDocument/hover", "params": {"textDocument": {"uri": "cell:1"}}}
    )
    books.remove(URI)
    assert translate.is_active, "the answer is still to come"
    assert translate.outgoing({"id": 5, "result": {"range": span(3)}}) == [{"id": 5, "result": None}]
    assert not translate.is_active


def test_diagnostics_are_sent_to_their_cells_once_and_end_with_the_cell() -> None:
    book = notebook("a = 1", "b = 2\nc = 3")
    books = OpenNotebooks()
    books.add_notebook(book)
    translate = CellMessages(books)

    def published(*lines: int) -> list[tuple[str, list[int]]]:
        diagnostics = [{"range": span(line), "message": "m", "code": "GB1"} for line in lines]
        message = {
            "method": "textDocument/publishDiagnostics",
            "params": {"uri": URI, "diagnostics": diagnostics},
        }
        return in_short(translate.outgoing(message))

    def in_short(sent: list[Any]) -> list[tuple[str, list[int]]]:
        params = [message["params"] for message in sent]
        return [
            (item["uri"], [entry["range"]["start"]["line"] for entry in item["diagnostics"]])
            for item in params
        ]

    assert published(1, 4) == [("cell:0", [0]), ("cell:1", [1])]
    assert published(1, 4) == []
    assert published(4) == [("cell:0", [])]
    book.cells[1].language = "sql"
    book.cells.reverse()
    book.follow_cells()
    assert in_short(translate.again(URI)) == [("cell:1", []), ("cell:0", [0])]
    del book.cells[0]
    book.follow_cells()
    assert in_short(translate.again(URI)) == [("cell:0", [])]
    assert published(1) == [("cell:0", [0])]
    books.remove(URI)
    assert in_short(translate.again(URI)) == [("cell:0", [])]
    assert not translate.is_active
