"""A break in a library that lines of two files lead to: one warning, references to it, and edits that move both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.programs import write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lsp_client import Client, Json

pytestmark = pytest.mark.torch

LIBRARY = """\
def attend(x):
    if x.sum() > 0:
        return x + 1
    return x - 1
"""
MODEL = """\
import sys
sys.path.append({folder!r})

from attention import attend
from parts import tail


# fuselight: f(f32[4, 8])
def f(x):
    x = attend(x.sin())
    x = attend(x.cos())
    return tail(x)
"""
PARTS = """\
from attention import attend


def tail(x):
    return attend(x.tan())
"""
WARNING, HINT = 2, 4
TITLE = "graph break: a branch depends on the data of a tensor"


def shown(client: Client, uri: str) -> list[tuple[int, int, str]]:
    """Line from 1, severity and words of each break in a file."""
    diagnostics: list[Json] = client.diagnostics(uri)
    return [
        (
            diagnostic["range"]["start"]["line"] + 1,
            diagnostic["severity"],
            diagnostic["message"].removesuffix(" (2 times)"),
        )
        for diagnostic in diagnostics
        if diagnostic["code"] == "GB0170"
    ]


def test_one_warning_explains_the_cause_and_the_other_lines_refer_to_it(
    client: Client, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = tmp_path_factory.mktemp("env") / "site-packages"
    library.mkdir()
    (library / "attention.py").write_text(LIBRARY, encoding="utf-8")
    parts = client.open(write(folder, PARTS, "parts.py"))
    model = client.open(write(folder, MODEL.format(folder=str(library))))
    client.save(model)
    client.idle(1)
    near, far = f"same cause as line 10: {TITLE}", f"same cause as model.py:10: {TITLE}"
    assert shown(client, model) == [(10, WARNING, TITLE), (11, HINT, near)]
    assert shown(client, parts) == [(5, HINT, far)]
    (full, *_) = client.diagnostics(model)
    same = [value["location"] for value in full["relatedInformation"] if value["message"] == "same cause"]
    assert [(value["uri"], value["range"]["start"]["line"]) for value in same] == [(model, 10), (parts, 4)]
    titles = [action["title"] for action in client.actions(model, 9)]
    assert "Ignore GB0170 on this line and 2 more places" in titles

    def soon(in_model: list[tuple[int, int, str]], in_parts: list[tuple[int, int, str]]) -> None:
        def is_shown() -> bool:
            client.lenses(model)
            return (shown(client, model), shown(client, parts)) == (in_model, in_parts)

        client.until(is_shown, f"{in_model} and {in_parts}")

    moved = "same cause as {}11: " + TITLE
    client.edit(model, (0, 0), (0, 0), "import math\n")
    soon([(11, WARNING, TITLE), (12, HINT, moved.format("line "))], [(5, HINT, moved.format("model.py:"))])
    # Without the line of the warning, the next one explains the cause.
    client.edit(model, (10, 0), (11, 0), "", version=3)
    soon([(11, WARNING, TITLE)], [(5, HINT, moved.format("model.py:"))])
    client.edit(model, (10, 0), (10, 0), "    # fuselight: ignore[GB0170]\n", version=4)
    soon([(12, WARNING, TITLE)], [(5, HINT, moved.format("model.py:").replace("11", "12"))])
    end = len("    x = attend(x.cos())")
    client.edit(model, (11, end), (11, end), "  # fuselight: ignore[GB0170]", version=5)
    soon([], [])
