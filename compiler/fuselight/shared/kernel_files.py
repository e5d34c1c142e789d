"""Which modules belong to a library of Triton kernels, by its files."""

from __future__ import annotations

import functools
import itertools
import os

from fuselight.shared.foreign_files import read_regular

_MAX_FILES = 150
"""Of a folder of a library of kernels. A larger one is one that has kernels besides, as `transformers`."""


def is_of_kernel_library(name: str, path: str) -> bool:
    """Whether the module `name`, at `path`, is in a package, or below one, that is small and has kernels."""
    folder = os.path.dirname(path)
    for _ in range(name.count(".") if folder else 0):
        if _has_kernel_files(folder):
            return True
        folder = os.path.dirname(folder)
    return False


@functools.lru_cache(maxsize=1024)
def _has_kernel_files(folder: str) -> bool:
    """Whether a module in a folder of at most so many has kernels."""
    files = (
        os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(".py")
    )
    paths = list(itertools.islice(files, _MAX_FILES + 1))
    return len(paths) <= _MAX_FILES and any(b"@triton.jit" in _content(path) for path in paths)


def _content(path: str) -> bytes:
    try:
        return read_regular(path)
    except OSError:
        return b""
