"""The parts of pages that a wheel carries: those that the server reads, where they were built."""

from __future__ import annotations

from pathlib import Path

import page_parts
import pytest

from fuselight_server.explain.pages import document


def built(root: Path) -> Path:
    for part in page_parts.PARTS:
        path = root / "extension" / part
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"/* {part} */")
    return root / "extension"


def test_a_wheel_carries_what_each_page_is_made_of(tmp_path: Path) -> None:
    folder = built(tmp_path)
    for page in page_parts.PAGES:
        script, style = document.page_parts(page, folder)
        assert script == f"/* dist/{page}.js */"
        assert style == f"/* dist/{page}.css */"
    targets = page_parts.included(tmp_path)
    assert {str(folder / part) for part in page_parts.PARTS} == set(targets)
    assert set(targets.values()) == {f"fuselight_server/extension/{part}" for part in page_parts.PARTS}


def test_a_checkout_without_a_build_makes_a_wheel_without_pages(tmp_path: Path) -> None:
    folder = built(tmp_path)
    (folder / "dist" / "tune.js").unlink()
    assert page_parts.included(tmp_path) == {}
    with pytest.raises(document.NotBuiltError, match="is not built"):
        document.page_parts("tune", folder)
