"""How jupyterlab-lsp starts the language server: its entry point asks for this description.

Invariant: the server of Jupyter imports this module, so that it imports nothing but the standard library.
"""

from __future__ import annotations

import sys


def specification(_manager: object) -> dict[str, dict[str, object]]:
    """Describe the server by its key, as `jupyter_lsp` wants it (version 2 of its schema).

    JupyterLab joins the cells of a notebook and sends them, so that no copy has to be on disk.
    """
    return {
        "fuselight": {
            "version": 2,
            "display_name": "Fuselight",
            "argv": [sys.executable, "-m", "fuselight_server", "server"],
            "languages": ["python"],
            "mime_types": ["text/python", "text/x-ipython", "text/x-python"],
            "requires_documents_on_disk": False,
            "urls": {},
        }
    }
