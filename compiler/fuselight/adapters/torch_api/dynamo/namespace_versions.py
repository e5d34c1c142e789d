# ruff: noqa: SLF001 - private names are this package's business
"""Versions of namespaces, as Dynamo's guards read them: to compare two takes no look at the values.

A look at a value writes its reference count, and in a fork that copies the page which it is on. Invariant: a namespace
whose version is equal holds the same objects under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

Reader = Callable[[], list[int | None]]


def version_reader(namespaces: Iterable[Mapping[str, Any]]) -> Reader:
    """Return what reads the version of each of some namespaces, without a builtin; None where torch cannot say it."""
    read: Callable[[Any], int] | None = getattr(torch._C._dynamo.guards, "dict_version", None)
    plain = [namespace if read is not None and type(namespace) is dict else None for namespace in namespaces]
    return lambda: [None if namespace is None or read is None else read(namespace) for namespace in plain]
