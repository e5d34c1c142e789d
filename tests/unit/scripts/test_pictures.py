"""Each picture of a page is taken by a visual test, so that `make pictures` can take it again."""

from __future__ import annotations

from pathlib import Path

import pictures
import pytest

ROOT = Path(__file__).parents[3]


def test_pages_files_and_tests_have_the_same_pictures() -> None:
    shown = pictures.shown_pictures()
    assert shown == {path.stem for path in (ROOT / "docs" / "images").glob("*.png")}
    assert shown <= set(pictures.tests_of_pictures())


def test_a_name_that_no_page_shows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        pictures.main(["no-such-picture"])
    assert "no page shows `no-such-picture`; pages show accuracy, benchmark, " in capsys.readouterr().err
