"""What a code means, whatever the program: its title and its page."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fuselight_server.base.command_error import CommandError
from fuselight_server.base.files import disk_text
from fuselight_server.execution.graph_break_registry import RegisteredBreak, registered_break
from fuselight_server.execution.interpreters import choose
from fuselight_server.explain.findings.breaks.break_remedies import BreakWords, registered_words
from fuselight_server.explain.findings.common import catalogue

_PARTS = re.compile(r'"\s+"|^"|"$|" \+ \w+$')
"""What a text of the registry has of the source that puts it together."""


@dataclass(frozen=True)
class CodePage:
    """A code of a finding."""

    code: str
    title: str
    """Empty where only the link is known."""
    link: str
    text: str
    """The page; empty where only the link is known."""


def code_page(code: str, python: str | None, project: Path) -> CodePage | None:
    """The page of a code; None if there is no such code.

    `python`: the interpreter whose torch has the texts of PyTorch's codes; None: the one that a check of `project`
    would take.
    """
    code = code.strip().upper()
    link = catalogue.link(code)
    if link is None:
        return None
    entry, path = catalogue.CATALOGUE.get(code), catalogue.page_path(code)
    if entry is None:
        return _break_page(code, link, _executable(python, project))
    text = disk_text(str(path)) if path is not None else None
    return CodePage(code, entry.title, link, text or "")


def _executable(python: str | None, project: Path) -> str | None:
    try:
        return choose(python, project, os.environ).executable
    except CommandError:
        return None


def _break_page(code: str, link: str, executable: str | None) -> CodePage:
    known = registered_break(code, executable) if executable is not None else None
    words = registered_words(code, *((known.type, known.explanation) if known else ("", "")))
    if words is None:
        return CodePage(code, "", link, "")
    return CodePage(code, words.title, link, "\n".join(_break_lines(words, known)))


def _break_lines(words: BreakWords, known: RegisteredBreak | None) -> Iterator[str]:
    yield (
        "torch.compile ends a graph here, runs the line in eager mode and begins another graph after it. Under "
        "`fullgraph=True` it raises an exception instead."
    )
    if known is not None:
        why = _PARTS.sub("", known.explanation).strip() or known.type
        filled = " `{...}` stands for a part that depends on the code." if "{" in why else ""
        yield f"Why, in PyTorch's words: {why.rstrip('.')}.{filled}"
    yield from (f"What to do: {hint}" for hint in words.hints)
