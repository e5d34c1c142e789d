"""Which files of a job are its own, and which are of installed packages or the standard library."""

from __future__ import annotations

import re

from fuselight.shared.report import Location, is_pythons_own

_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|(?:^|/)torch/(?:distributed|_\w+|nn|utils)/"
    r"|/fuselight/(?:adapters|capture|worker)/|/fuselight_server/"
)
"""Fuselight is not in the folder of packages where the editor's copy, or a checkout, makes the calls."""


_GENERATED = re.compile(r"/(?P<folder>[a-z0-9]{2})/c(?P=folder)[a-z2-7]{20,}\.py$")


def is_generated(path: str) -> bool:
    """Whether a file is a module of Inductor in its cache: the frames around it have the user's line."""
    return _GENERATED.search(path.replace("\\", "/")) is not None


def is_library(path: str) -> bool:
    """Whether a file is torch's, Fuselight's, Python's own, or of another installed package."""
    return _LIBRARY.search(path.replace("\\", "/")) is not None or is_pythons_own(path)


def is_wrapper(location: Location | None) -> bool:
    """Whether a function is the one that torch wraps around a library's module to compile it."""
    return location is not None and location.path.replace("\\", "/").endswith(_WRAPPERS)


_WRAPPERS = "/torch/_dynamo/external_utils.py"
