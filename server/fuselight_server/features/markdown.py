"""Text of others - sources, torch, a report on disk - inside the Markdown that we make.

Invariant: what comes in as text is shown as that text. It opens no link, no image, no HTML and no command, however
it is written; the one markup that it may carry is a piece of code between single backticks, as our own texts do.
"""

from __future__ import annotations

import re

_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-!|~&])")
_LISTED = re.compile(r"^(\s*\d+)\.", re.MULTILINE)
_RUN = re.compile(r"`+")
_NAME = 40
"""Letters of a kernel's name in a hover."""
_TAIL = 12
"""Of these, from its end, where the number is that tells it from others."""


def plain(text: str) -> str:
    """Show `text` as it is, line ends included; what stands between single backticks is code."""
    parts = _CODE.split(text.strip())  # plain, code, plain, ...
    for index, part in enumerate(parts):
        parts[index] = code_span(part) if index % 2 else _escape(part)
    return "".join(parts)


def code_span(text: str) -> str:
    """Show `text` as a piece of code within a line, whatever backticks it holds."""
    text = " ".join(text.split("\n")) or " "
    fence = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def name_cell(name: str) -> str:
    """Show the name of a kernel in the last column of a hover's table, which is as wide as the editor lets it be.

    A name has no place to be broken at, and what does not fit would be cut off with the numbers at its end.
    """
    cut = name if len(name) <= _NAME else f"{name[: _NAME - _TAIL - 1]}\N{HORIZONTAL ELLIPSIS}{name[-_TAIL:]}"
    return plain(cut.replace("|", "/"))


def code_block(text: str, language: str) -> str:
    """Show `text` as a block of code, whatever backticks it holds."""
    fence = "`" * max(_longest_run(text) + 1, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def link(text: str, address: str | None) -> str:
    """Show `text`, leading to `address` if there is one."""
    return f"[{plain(text)}](<{address}>)" if address else plain(text)


def _longest_run(text: str) -> int:
    return max((len(run) for run in _RUN.findall(text)), default=0)


def _escape(text: str) -> str:
    text = _MARKS.sub(r"\\\1", text)
    return _LISTED.sub(r"\1\\.", text).replace("\n", "  \n")
