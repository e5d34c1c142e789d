"""Cells of a notebook as its kernel has run them, and how a report of them is shown: what kernel and view both know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fuselight.shared.report import Report

VIEWS = "fuselight.notebook_view"
"""The group of entry points in which a package offers a `NotebookView`."""


@dataclass(frozen=True)
class CellText:
    """A cell that ran: the name of its code's file, its name for a reader, and its source."""

    path: str
    label: str
    """`cell [3]`."""
    text: str
    """As the user wrote it, with the magics of IPython."""
    code: str
    """As IPython compiled it: the lines of a report are lines of this text."""


@dataclass(frozen=True)
class ShownReport:
    """One report, for a frontend that shows text and for one that shows HTML without scripts."""

    text: str
    html: str


@dataclass(frozen=True)
class ReportHeading:
    """What a report is of, and remarks that stand above its findings."""

    title: str
    """`cell [3]`."""
    remarks: Sequence[str] = ()


NotebookView = Callable[[Report, Mapping[str, CellText], ReportHeading], ShownReport]
