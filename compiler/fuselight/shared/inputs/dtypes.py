"""The dtypes of directives by their short names, and what else people call them."""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.codec import read_table


@dataclass(frozen=True)
class _DtypeNames:
    names: dict[str, str]
    """Short name to the name in the torch module."""
    spellings: dict[str, tuple[str, ...]]
    """Short name to the names elsewhere, in small letters."""


_KNOWN = read_table(_DtypeNames, __file__)
DTYPES = _KNOWN.names
_SPELLINGS = {spelling: name for name, spellings in _KNOWN.spellings.items() for spelling in spellings}


def known_dtype(name: str) -> str | None:
    """The dtype of a directive that a name means."""
    small = name.lower()
    return small if small in DTYPES else _SPELLINGS.get(small)
