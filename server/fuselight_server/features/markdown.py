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
