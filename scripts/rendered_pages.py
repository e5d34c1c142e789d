"""Pages of docs/ as HTML, for a browser: what the link of a finding opens where no editor renders Markdown.

Invariant: a page needs no other file and no network, runs no script, and its links lead to rendered pages. Its look is
that of the pages of reports.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src 'self'">
<title>{title}</title>
<style>{style}</style>
<main>
{body}</main>
</html>
"""
_STYLES = Path(__file__).parents[1] / "server" / "fuselight_server" / "explain" / "pages"
"""Where the pages of reports have theirs."""
_PROSE = """
main { max-width: 46rem; margin: 2rem auto; font-size: 16px; line-height: 1.55; }
h1, h2, h3 { line-height: 1.25; margin: 1.6em 0 0.6em; }
a { color: var(--link); }
code, pre { font: 0.9em/1.5 var(--mono); color: inherit; background: var(--widget); }
pre code { font-size: inherit; }
table { display: block; overflow-x: auto; }
"""
"""Texts are set wider than the reports, in longer lines than a cell has."""


def render_page(text: str) -> str:
    """A page of docs/ as a document of HTML."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - the extension's build takes pages as they are

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    title, anchors = "Fuselight", set[str]()
    for token, inline in itertools.pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _anchor(inline.content, anchors))
            title = inline.content if token.tag == "h1" else title
    for link in (child for token in tokens for child in token.children or () if child.type == "link_open"):
        address = str(link.attrGet("href"))
        if "://" not in address:
            link.attrSet("href", re.sub(r"\.md(?=$|#)", ".html", address))
    shared = ((_STYLES / name).read_text(encoding="utf-8") for name in ("tokens.css", "page.css"))
    return _PAGE.format(
        title=title.replace("`", "").replace("<", "&lt;"),
        style="".join((*shared, _PROSE)),
        body=parser.renderer.render(tokens, parser.options, {}),
    )


def render_pages(folder: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """Write each page that is named below `folder` as HTML beside it; returns the names of the new files."""
    pages = tuple(name for name in names if name.endswith(".md"))
    for name in pages:
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).with_suffix(".html").write_text(render_page(text), encoding="utf-8")
    return tuple(f"{name.removesuffix('.md')}.html" for name in pages)


def _anchor(heading: str, taken: set[str]) -> str:
    """The fragment that leads to a heading, as GitHub names it: equal ones are numbered. It is then taken."""
    name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    numbered = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(1)))
    anchor = next(anchor for anchor in numbered if anchor not in taken)
    taken.add(anchor)
    return anchor
