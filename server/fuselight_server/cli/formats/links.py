"""Links to pages and files, as briefly as a terminal's user can follow them."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fuselight_server.commands.sources import shown_path


def shown_link(link: str) -> str:
    """A page as briefly as it can be found: a file under the working folder by its path, all else by its URI."""
    parts = urlsplit(link)
    if parts.scheme != "file":
        return link
    short = shown_path(_path_of(parts.path))
    return link if Path(short).is_absolute() else short


def _path_of(part: str) -> str:
    """The path that a URI of a file names, as `url2pathname` gives it."""
    if sys.platform != "win32":
        return unquote(part)
    from urllib.request import url2pathname  # noqa: PLC0415 - with all of `http` and `email`: 20 ms

    return url2pathname(part)
