"""Pages and texts for editors without windows of ours: files in `.fuselight/views/`.

Invariant: the page of a target has one file, which each showing replaces. The newest `MAX` files are kept; nothing in
them runs but the script of the page itself, under a policy that allows no other.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path

from fuselight.shared.foreign_files import write_whole
from fuselight_server.base.store import Store, files_of, make_folder

FOLDER = "views"
MAX = 60
_LONGEST = 80
"""Characters of a file's name before its ending."""


def view_name(kind: str, *subject: str, of: str = "", ending: str = "html") -> str:
    """Name the file of a view: `benchmark-model.py-Net-1f3a.html`; two subjects `of` two files never share one."""
    words = re.sub(r"[^\w.-]+", "_", "-".join((kind, *subject))).strip("_")
    whole = "\0".join((kind, *subject, of))
    digest = hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{words[:_LONGEST]}-{digest}.{ending}"


def write_view(store: Store, name: str, text: str) -> Path:
    """Write a view in place of the last one of that name; returns its path. Raises OSError."""
    store.prepare()
    folder = store.folder / FOLDER
    make_folder(folder)
    path = folder / name
    write_whole(path, text.encode("utf-8", "backslashreplace"))
    newest = sorted(files_of(folder, "*"), key=lambda file: file.lstat().st_mtime_ns, reverse=True)
    for old in newest[MAX:]:
        with contextlib.suppress(OSError):
            old.unlink()
    return path


def forget_views(store: Store) -> None:
    """Remove all views. Raises OSError."""
    folder = store.folder / FOLDER
    for path in files_of(folder, "*"):
        path.unlink(missing_ok=True)
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()
