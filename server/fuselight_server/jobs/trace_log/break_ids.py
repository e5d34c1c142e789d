"""Ids of graph breaks for logs of releases that print none: torch 2.6 and 2.7.

Invariant: a break has an id only if its text is that of torch's registry, or a text of torch 2.6 with the same meaning.
Any other break keeps torch's text, without an id. The registry is younger than these releases: it has the titles of
torch 2.7, and torch 2.6 prints a sentence of its own in place of a title.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fuselight.shared.codec import read_table
from fuselight.shared.torch_texts import Reason, read_reasons

_RAISED = re.compile(r"^(?:\w+\.)*(?:Unsupported|UncapturedHigherOrderOpError|UserError): ")
_SHORT = 1_000


@dataclass(frozen=True)
class _EarlyText:
    """A reason as torch 2.6 prints it, and the title and the explanation that later releases have for it."""

    pattern: str
    title: str
    explanation: str
    """Of later releases, with the named parts of the pattern."""


@dataclass(frozen=True)
class _KnownTexts:
    """Of graph breaks."""

    ids: dict[str, str]
    """By title in torch's registry; a title that has several ids is not here."""
    early_texts: tuple[_EarlyText, ...]


_KNOWN = read_table(_KnownTexts, __file__)
IDS = _KNOWN.ids


def read_registered_reasons(message: str) -> tuple[Reason, ...]:
    """The chain in a message, each link with the id that its text has in torch's registry."""
    return tuple(_links(message))


def _links(message: str) -> Iterator[Reason]:
    for reason in read_reasons(_RAISED.sub("", message)):
        if reason.gb_id is not None:
            yield reason
            continue
        later = reason if reason.explanation else _in_later_words(reason)
        yield replace(later, gb_id=IDS.get(later.title.rstrip(".")))


def _in_later_words(reason: Reason) -> Reason:
    """A reason of torch 2.6, which is one text, as later releases print it."""
    text = reason.title
    for early in _KNOWN.early_texts:
        match = re.match(early.pattern, text)
        if match is not None:
            return replace(
                reason,
                title=early.title,
                explanation=early.explanation.format(**match.groupdict()),
                context=text,
            )
    return replace(reason, title=text[:_SHORT])
