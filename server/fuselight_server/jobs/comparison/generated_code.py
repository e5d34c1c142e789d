"""What Inductor generated for a compile: names of kernels, and whether two modules are the same code.

Invariant: comments and paths do not count: they name lines of source and folders of caches.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_DEFINED = re.compile(r"^(?P<name>\w+) = async_compile\.\w+\(", re.MULTILINE)
_CALL = re.compile(
    r"^\s+(?:[\w, ]+ = )?(?:(?P<library>extern_kernels\.\w+|torch\.ops(?:\.\w+)+)|(?P<name>\w+)(?:\.run)?)\(",
    re.MULTILINE,
)
_TEXT = re.compile(r"'''.*?'''", re.DOTALL)
"""The source of a kernel."""
_COMMENT = re.compile(r"^\s*# .*\n?", re.MULTILINE)
_PATH = re.compile(r"(?P<quote>[\"'])(?:/|[A-Za-z]:\\)[^\"'\n]*(?P=quote)")
_BACKEND_HASH = re.compile(r"'backend_hash': '[^']*',?")
"""torch, Triton and the device, which are compared as such."""


@dataclass(frozen=True, slots=True)
class GeneratedCode:
    """The modules of one compile."""

    kernels: tuple[str, ...]
    """Names of generated kernels and library calls, in the order of their calls, the forward first."""
    keys: tuple[str, ...]
    """A hash of each module."""


def read_generated(texts: Iterable[str]) -> GeneratedCode:
    """The kernels and hashes of the modules of a compile: a cache hit can log the backward first."""
    ordered = sorted(texts, key=lambda text: "_backward']" in text.partition("\n")[0])
    return GeneratedCode(
        tuple(name for text in ordered for name in _kernels(text)),
        tuple(hashlib.sha256(_plain(text).encode("utf-8", "replace")).hexdigest() for text in ordered),
    )


def _kernels(text: str) -> Iterator[str]:
    defined = set(_DEFINED.findall(text))
    for call in _CALL.finditer(_TEXT.sub("''", text)):
        if call["library"]:
            yield call["library"].removeprefix("torch.ops.")
        elif call["name"] in defined:
            yield call["name"]


def _plain(text: str) -> str:
    return _BACKEND_HASH.sub("", _PATH.sub('""', _COMMENT.sub("", text)))
