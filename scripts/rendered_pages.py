"""Pages of docs/ as HTML, for a browser: what the link of a finding opens where no editor renders Markdown.

Invariant: a page needs no other file and no network, runs no script, and its links lead to rendered pages.
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
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.55 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }}
code, pre {{ font: 0.9em/1.5 ui-monospace, monospace; background: color-mix(in srgb, currentColor 9%, transparent); }}
code {{ padding: 0.1em 0.3em; border-radius: 4px; }}
pre {{ padding: 0.8rem 1rem; border-radius: 6px; overflow-x: auto; }}
pre code {{ padding: 0; background: none; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ padding: 0.3rem 0.8rem; text-align: left; vertical-align: top; border-bottom: 1px solid #8885; }}
h1, h2, h3 {{ line-height: 1.25; margin: 1.6em 0 0.6em; }}
h1 {{ font-size: 1.6rem; }}
h2 {{ font-size: 1.2rem; }}
</style>
{body}
</html>
"""


def render_page(text: str) -> str:
    """A page of docs/ as a document of HTML."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - the extension's build takes pages as they are

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    title = "Fuselight"
    for token, inline in itertools.pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _anchor(inline.content))
            title = inline.content if token.tag == "h1" else title
    for link in (child for token in tokens for child in token.children or () if child.type == "link_open"):
        address = str(link.attrGet("href"))
        if "://" not in address:
            link.attrSet("href", re.sub(r"\.md(?=$|#)", ".html", address))
    body = parser.renderer.render(tokens, parser.options, {})
    return _PAGE.format(title=title.replace("`", "").replace("<", "&lt;"), body=body)


def render_pages(folder: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """Write each page that is named below `folder` as HTML beside it; returns the names of the new files."""
    pages = tuple(name for name in names if name.endswith(".md"))
    for name in pages:
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).with_suffix(".html").write_text(render_page(text), encoding="utf-8")
    return tuple(f"{name.removesuffix('.md')}.html" for name in pages)


def _anchor(heading: str) -> str:
    """The fragment that leads to a heading, as GitHub names it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
