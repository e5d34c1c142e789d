"""What a code means, whatever the program: its title and its page."""

from __future__ import annotations

from dataclasses import dataclass

from fuselight_server.base.files import disk_text
from fuselight_server.explain.findings.common import catalogue


@dataclass(frozen=True)
class CodePage:
    """A code of a finding."""

    code: str
    title: str
    """Empty for PyTorch's codes, whose titles depend on the finding."""
    link: str
    text: str
    """The page; empty where only the link is known."""


def code_page(code: str) -> CodePage | None:
    """The page of a code; None if there is no such code."""
    code = code.strip().upper()
    link = catalogue.link(code)
    if link is None:
        return None
    entry, path = catalogue.CATALOGUE.get(code), catalogue.page_path(code)
    text = disk_text(str(path)) if path is not None else None
    return CodePage(code, entry.title if entry is not None else "", link, text or "")
