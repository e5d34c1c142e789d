"""The language server as jupyterlab-lsp uses it: one document with the joined cells, no code actions, no notebooks."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fuselight_server.editor.jupyter_lsp import specification
from tests.support.prepared import prepared_interpreter

if TYPE_CHECKING:
    from tests.server.conftest import Start
    from tests.support.lsp_client import Json

CELLS = [
    'import torch\n\nget_ipython().run_line_magic("matplotlib", "inline")  # noqa',
    "def halved(x):\n    print(x)\n    return x / 2",
    "# fuselight: fast(f32[4])\nfast = torch.compile(halved)",
]
JOINED = "\n\n\n".join(CELLS)
CAPABILITIES: Json = {
    "textDocument": {
        "synchronization": {"dynamicRegistration": True, "willSave": False, "didSave": True},
        "hover": {"dynamicRegistration": True, "contentFormat": ["markdown", "plaintext"]},
        "publishDiagnostics": {"tagSupport": {"valueSet": [2, 1]}},
    },
    "workspace": {"didChangeConfiguration": {"dynamicRegistration": True}},
}
"""What jupyterlab-lsp 5 sends."""


def test_the_description_starts_this_server() -> None:
    (entry,) = [
        item
        for item in importlib.metadata.entry_points(group="jupyter_lsp_spec_v1")
        if item.name == "fuselight"
    ]
    (described,) = entry.load()(None).values()
    assert described == specification(None)["fuselight"]
    started = subprocess.run([*described["argv"], "--help"], capture_output=True, text=True, check=True)
    assert "server" in started.stdout


def test_the_description_imports_nothing_else() -> None:
    code = (
        "import sys\nfrom fuselight_server.editor import jupyter_lsp\njupyter_lsp.specification(None)\n"
        "print([name for name in sys.modules if name.partition('.')[0] in {'pygls', 'lsprotocol', 'tree_sitter'}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.torch
def test_joined_cells_have_findings_and_hovers(
    connect: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = tmp_path / "work"
    root.mkdir()
    (root / "halves.ipynb").write_text("{}")
    python = prepared_interpreter()
    client = connect(settings={"interpreter": python})
    uri = (root / ".virtual_documents" / "halves.ipynb").as_uri()
    initialize = {"processId": None, "rootUri": root.as_uri(), "capabilities": CAPABILITIES}
    client.request("initialize", {**initialize, "workspaceFolders": None, "initializationOptions": None})
    client.notify("initialized", {})
    settings = {"settings": {"fuselight": {"interpreter": python}}}
    client.notify("workspace/didChangeConfiguration", settings)
    document = {"uri": uri, "languageId": "python", "version": 0, "text": JOINED}
    client.notify("textDocument/didOpen", {"textDocument": document})
    client.notify("textDocument/didSave", {"textDocument": {"uri": uri}, "text": JOINED})
    line = JOINED.split("\n").index("    print(x)")
    client.until(lambda: "GB0059" in {item["code"] for item in client.diagnostics(uri)}, "the finding")
    (finding,) = [item for item in client.diagnostics(uri) if item["code"] == "GB0059"]
    assert finding["range"]["start"] == {"line": line, "character": 4}
    at = {"textDocument": {"uri": uri}, "position": {"line": line, "character": 6}}
    hover = client.request("textDocument/hover", at)
    assert "What to do:" in hover["contents"]["value"]
    assert "Quick Fix" not in hover["contents"]["value"]
    assert not (root / ".virtual_documents").exists()
