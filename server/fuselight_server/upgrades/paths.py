"""The path that both sides use for a file: each interpreter has its own folder of installed packages."""

from __future__ import annotations

import re

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/")
_STANDARD = re.compile(r".*/lib/python3\.\d+/")


def common_path(path: str) -> str:
    """`site-packages/torch/nn/modules/linear.py` of an installed file; any other path as it is."""
    text, is_installed = _PACKAGES.subn("site-packages/", path, count=1)
    return text if is_installed else _STANDARD.sub("lib/python/", path, count=1)
