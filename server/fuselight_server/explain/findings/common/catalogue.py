"""Every code of our own in `catalogue.json`: its severity, its origin and its title; its page.

Invariant: each code here has a page in docs/findings, and each page has a code here (a test holds the two
together). torch's own GB ids are not listed: torch ships their texts, and torch's site has their pages.
"""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import dataclass
from pathlib import Path

import fuselight_server
from fuselight.shared.codec import read_table
from fuselight_server.base.finding import Severity

_GB_SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb"
_GB_ID = re.compile(r"GB(\d{4,})")
_CODES = 1024
"""Codes whose links are cached: a report from elsewhere may hold any number of codes."""


class Origin(enum.Enum):
    """What has to run before a code can be found. The values are the words of its page."""

    SOURCE = "reading the source"
    CAPTURE = "`fuselight check`"
    NOTEBOOK = "`fuselight check` of a notebook"
    SAVE = "a run on save"
    KERNELS = "`fuselight kernels`"
    MEASURED = "`fuselight bench`"
    RESULTS = "`fuselight accuracy` or `fuselight bench`"
    ACCURACY = "`fuselight accuracy`"
    RANKS = "`fuselight check --ranks`"
    JOB = "`fuselight open`"
    UPGRADE = "`fuselight upgrade`"


@dataclass(frozen=True)
class CodeInfo:
    """One code of ours."""

    code: str
    severity: Severity
    origin: Origin
    title: str
    """What the code means whatever the program, without a full stop."""

    @property
    def page(self) -> str:
        """File name of its page in docs/findings."""
        return f"{self.code}.md"


CATALOGUE = {
    code: CodeInfo(code, Severity[severity_name], Origin[origin_name], title)
    for code, severity_name, origin_name, title in read_table(tuple[tuple[str, str, str, str], ...], __file__)
}


def severity(code: str) -> Severity:
    """The severity of a code; a graph break is a warning unless its family says otherwise."""
    entry = CATALOGUE.get(code)
    return entry.severity if entry else Severity.WARNING


def origin(code: str) -> Origin:
    """The origin of a code; a capture finds graph breaks, which have torch's codes."""
    entry = CATALOGUE.get(code)
    return entry.origin if entry else Origin.CAPTURE


@functools.cache
def _pages() -> Path | None:
    """The folder of our pages: next to the package in a bundle or a wheel, at the top of a checkout."""
    package = Path(fuselight_server.__file__).resolve().parent
    for folder in (package / "docs" / "findings", package.parents[1] / "docs" / "findings"):
        if folder.is_dir():
            return folder
    return None


@functools.lru_cache(maxsize=_CODES)  # links are made with each publication of diagnostics, at each keystroke
def page_path(code: str) -> Path | None:
    """The page of one of our codes on this machine, None where the pages did not travel along."""
    folder, entry = _pages(), CATALOGUE.get(code)
    if folder is None or entry is None:
        return None
    path = folder / entry.page
    return path if path.is_file() else None


@functools.lru_cache(maxsize=_CODES)
def link(code: str) -> str | None:
    """URI of the page that explains `code`: torch's for a GB id, ours (a file) for the rest."""
    match = _GB_ID.fullmatch(code)
    if match:
        return f"{_GB_SITE}/gb{match.group(1)}.html"
    path = page_path(code)
    if path is None:
        return None
    rendered = path.with_suffix(".html")  # a wheel has it; an editor renders the text itself
    return (rendered if rendered.is_file() else path).as_uri()
