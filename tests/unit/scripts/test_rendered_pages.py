"""Pages for a browser: links and anchors lead somewhere, and text is no markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from packaged_pages import WHEEL, write_pages
from rendered_pages import render_page, render_pages

ROOT = Path(__file__).parents[3]


class Links(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "a":
            self.links.append(named["href"] or "")
        if "id" in named:
            self.anchors.add(named["id"] or "")


def test_each_link_leads_to_a_page_and_its_heading(tmp_path: Path) -> None:
    names = render_pages(tmp_path, write_pages(ROOT, tmp_path, WHEEL))
    pages = {tmp_path / name: Links(tmp_path / name) for name in names}
    local = 0
    for page, found_links in pages.items():
        for link in found_links.links:
            if "://" in link:
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target in pages, (page, link)
            assert not anchor or anchor in pages[target].anchors, (page, link)
            local += 1
    assert local > 50


def test_text_is_no_markup() -> None:
    page = render_page(
        "# A <b>\n\n<script>alert(1)</script> [x](javascript:alert(1))\n\n| a |\n|---|\n| `<i>` |\n"
    )
    assert "<title>A &lt;b></title>" in page
    assert not re.search(r"<script|<b>|<i>|href=\"javascript", page)
    assert "<td><code>&lt;i&gt;</code></td>" in page


def test_pages_of_docs_have_the_colors_of_report_pages() -> None:
    tokens = ROOT / "server" / "fuselight_server" / "explain" / "pages" / "tokens.css"
    assert tokens.read_text(encoding="utf-8") in render_page("# A\n")


def test_equal_headings_have_anchors_of_their_own() -> None:
    page = render_page("# Runs\n\n## Limits\n\n## `Limits`\n\n## Limits 1\n\n### Limits\n\n## Other\n")
    assert re.findall(r'id="([^"]*)"', page) == [
        "runs",
        "limits",
        "limits-1",
        "limits-1-1",
        "limits-2",
        "other",
    ]
