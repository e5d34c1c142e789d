"""Writes the table of docs/editors.md: what each editor gets, from what it says at its start.

Invariant: each cell follows from the recorded capabilities by the function that the server itself uses.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "compiler"), str(ROOT / "server")]

from lsprotocol import types  # noqa: E402 - the path comes first
from lsprotocol.converters import get_converter  # noqa: E402 - the same
from pygls.capabilities import ServerCapabilitiesBuilder  # noqa: E402 - the same

from fuselight_server.editor.handlers.client_features import client_features  # noqa: E402 - the same
from tests.support.recorded_clients import RecordedClient, recorded_clients  # noqa: E402 - the same

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight_server.editor.messages.client_features import ClientFeatures

PAGE = ROOT / "docs" / "editors.md"
BEGIN, END = "<!-- table: written by scripts/editors_page.py -->", "<!-- end of table -->"
ORDER = ("neovim", "helix", "zed", "eglot", "coc", "vim-lsp", "ale")

TRIED = {"neovim": "in `make test`", "eglot": "by hand, 1.9", "ale": "by hand"}


def _choice(is_so: bool, yes: str, no: str) -> str:  # noqa: FBT001 - it chooses a word
    return yes if is_so else no


ROWS: dict[str, Callable[[ClientFeatures, RecordedClient], str]] = {
    "findings": lambda can, _client: _choice(can.push, "shown when they change", "asked for"),
    "lenses": lambda can, _client: _choice(can.lenses, "yes", "as code actions"),
    "lenses after a run": lambda can, _client: _choice(
        can.lens_refresh, "at once", "at the next request" if can.lenses else "no lenses"
    ),
    "shapes as inlay hints": lambda _can, client: _choice(client.has("textDocument.inlayHint"), "yes", "no"),
    "hovers": lambda can, _client: _choice(can.markdown, "Markdown", "plain text"),
    "choosing a fix": lambda can, _client: _choice(
        can.resolves_actions, "fills in its edit", "runs a command"
    ),
    "refused fixes, with the reason": lambda can, _client: _choice(can.disabled_actions, "yes", "no"),
    "pages of benchmarks, graphs, jobs": lambda can, _client: _choice(
        can.show_document, "open in the browser", "message with the path"
    ),
    "source of kernels": lambda can, _client: _choice(
        can.show_document,
        "virtual document" if can.text_content else "file that opens",
        "message with the path",
    ),
    "progress, with cancel": lambda can, _client: _choice(can.progress, "yes", "no"),
    "settings": lambda can, _client: _choice(can.configuration, "asked for", "at the start"),
    "files that others write": lambda can, _client: _choice(can.watch, "reported", "looked at every 2 s"),
    "columns": lambda _can, client: _encoding(client),
    "tried": lambda _can, client: TRIED.get(client.name, "not tried: its `initialize` alone"),
}


def _capabilities(client: RecordedClient) -> types.ClientCapabilities:
    read: types.ClientCapabilities = get_converter().structure(client.capabilities, types.ClientCapabilities)
    return read


def _encoding(client: RecordedClient) -> str:
    chosen: Any = ServerCapabilitiesBuilder.choose_position_encoding(_capabilities(client))
    return str(getattr(chosen, "value", chosen))


def table() -> str:
    """The table: a row for each feature, a column for each editor."""
    by_name = {client.name: client for client in recorded_clients()}
    clients = [by_name[name] for name in ORDER]
    features = {client.name: client_features(_capabilities(client), {}) for client in clients}
    lines = [["", *(client.title for client in clients)], ["---"] * (len(clients) + 1)]
    lines += [
        [name, *(cell(features[client.name], client) for client in clients)] for name, cell in ROWS.items()
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page() -> str:
    """The page with the table of now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
