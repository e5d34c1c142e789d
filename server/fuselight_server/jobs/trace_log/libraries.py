"""Which files of a job are its own, and which are of installed packages."""

from __future__ import annotations

import re

_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|(?:^|/)torch/(?:distributed|_\w+|nn|utils)/"
    r"|/fuselight/(?:adapters|capture|worker)/|/fuselight_server/"
)
"""Fuselight is not in the folder of packages where the editor's copy, or a checkout, makes the calls."""


def is_library(path: str) -> bool:
    """Whether a file is torch's, Fuselight's, or of another installed package."""
    return _LIBRARY.search(path.replace("\\", "/")) is not None
