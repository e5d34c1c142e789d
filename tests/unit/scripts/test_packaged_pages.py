"""Each link of a packaged page opens: in the extension and in the wheel, as packages write their pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaged_pages import WHEEL, extension_patterns, files_of, linked_files, packaged, write_pages

ROOT = Path(__file__).parents[3]
FILES = frozenset({"docs/a.md", "docs/more/b.md", "docs/images/p.png"})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[b](more/b.md), [up](<a.md#x> 'title')", "[b](more/b.md), [up](<a.md#x> 'title')"),
        ("see [`gone`\nhere](results/c.md#part).", "see `gone`\nhere."),
        ("![p](images/p.png) ![q](images/q.png)x", "![p](images/p.png) x"),
        ("[web](https://a/b.md) [mail](mailto:a@b) [here](#part)",) * 2,
        ("[code](../scripts/x.py) f[1](2)", "code f[1](2)"),
        (
            "```\n[x](gone.md)\n```\n[x](gone.md)\n~~~\n[y](gone.md)\n~~~",
            "```\n[x](gone.md)\n```\nx\n~~~\n[y](gone.md)\n~~~",
        ),
    ],
)
def test_a_link_to_a_file_that_is_not_packaged_is_text(text: str, shown: str) -> None:
    assert packaged("docs/a.md", text, FILES | {"docs/2"}) == shown


def test_a_page_in_a_folder_links_relative_to_it() -> None:
    text = "[a](../a.md) [b](b.md) [c](../c.md)"
    assert packaged("docs/more/b.md", text, FILES) == "[a](../a.md) [b](b.md) c"
    assert linked_files("docs/more/b.md", text) == ["docs/a.md", "docs/more/b.md", "docs/c.md"]


@pytest.mark.parametrize("patterns", [WHEEL, extension_patterns(ROOT)], ids=["wheel", "extension"])
def test_each_link_of_a_package_opens(patterns: tuple[str, ...], tmp_path: Path) -> None:
    names = write_pages(ROOT, tmp_path, patterns)
    pages = [name for name in names if name.endswith(".md")]
    assert "docs/inputs.md" in pages
    linked = {
        path for page in pages for path in linked_files(page, (tmp_path / page).read_text(encoding="utf-8"))
    }
    assert linked
    assert {path for path in linked if not (tmp_path / path).is_file()} == set()


@pytest.mark.parametrize("patterns", [WHEEL, extension_patterns(ROOT)], ids=["wheel", "extension"])
def test_findings_lose_no_link(patterns: tuple[str, ...]) -> None:
    """What a finding's page refers to is packaged, and each pattern chooses something."""
    files = files_of(ROOT, patterns)
    for page in (name for name in files if name.startswith("docs/findings/")):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert packaged(page, text, frozenset(files)) == text
    for pattern in patterns:
        assert files_of(ROOT, (pattern,)) or pattern.startswith("docs/images/"), pattern
