"""A page as one HTML file that needs no network: made here of tables and texts, or drawn by a script of the extension.

Invariant: the page's own script and style stand between a policy that allows nothing else, and no text of a report
becomes markup. Both kinds have the colors of `tokens.css`, which the extension's pages import when they are built.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from fuselight.shared.codec import encode
from fuselight.shared.report.visible import visible, visible_json
from fuselight_server.explain.pages.parts import html_text

BUILD = "npm ci && npm run build"


class NotBuiltError(Exception):
    """The page's script or style is not there."""


def static_page(title: str, headline: str, paragraphs: Iterable[str], sections: Iterable[str]) -> str:
    """Return a page of `parts.html_section`s; a table with the ID `parts.ROWS` can be searched and sorted."""
    folder = resources.files("fuselight_server.explain.pages")
    tokens, style, script = (
        (folder / name).read_text(encoding="utf-8") for name in ("tokens.css", "page.css", "page.js")
    )
    first = f'<p class="headline">{html_text(headline)}</p>' if headline else ""
    head = f"<h1>{html_text(title)}</h1>{first}{''.join(paragraphs)}"
    body = f"<header>{head}</header>\n<main>{''.join(sections)}</main>"
    return html_document(title, f"{tokens}\n{style}", body, script)


def standalone_page(page: object, title: str, script_name: str) -> str:
    """Return a page of the extension, drawn by the script of this name. Raises NotBuiltError if that was not built."""
    script, style = page_parts(script_name)
    data = f'<script type="application/json" id="page">{_as_data(page)}</script>'
    return html_document(title, style, data, script, images="data:")


def page_parts(script: str, folder: Path | None = None) -> tuple[str, str]:
    """Return a page's script, by its name, and style. Raises NotBuiltError where they were not built."""
    built = (folder or extension_folder()) / "dist"
    try:
        code, style = ((built / f"{script}.{ending}").read_text(encoding="utf-8") for ending in ("js", "css"))
    except OSError as error:
        raise NotBuiltError(
            f"the page's script is not built ({error.filename} cannot be read): "
            f"build it with `{BUILD}` in a checkout, or export from the editor"
        ) from None
    return code, style


def extension_folder() -> Path:
    """Return where the built scripts lie: in a wheel in the package, else two folders above, as in a checkout."""
    package = Path(__file__).resolve().parents[2]
    packed = package / "extension"
    return packed if packed.is_dir() else package.parents[1] / "extension"


_HTML = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script>{script}</script>
</body>
</html>
"""


def html_document(title: str, style: str, body: str, script: str, *, images: str = "") -> str:
    """Return one file that needs no network: a policy that allows this style and script alone, and `images`."""
    script = re.sub(r"(?i)</(script)", r"<\\/\1", script).replace("<!--", "<\\!--")  # the same in its strings
    style = re.sub(r"(?i)</(style)", r"<\\/\1", style)
    policy = f"default-src 'none'; script-src '{policy_hash(script)}'; style-src '{policy_hash(style)}'"
    return _HTML.format(
        policy=f"{policy}; img-src {images}" if images else policy,
        title=html.escape(visible(title)),
        style=style,
        body=body,
        script=script,
    )


def policy_hash(text: str) -> str:
    """Return how a content policy names a script or a style that it allows."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _as_data(page: object) -> str:
    """JSON that no parser of HTML takes for a tag, and no engine for the end of a line."""
    text = visible_json(json.dumps(encode(page)))  # ASCII: U+2028 is escaped already
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
