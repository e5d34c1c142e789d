"""Text from sources, torch and reports, quoted inside the Markdown that the server writes.

Invariant: the text is shown as it is, but for characters that act on an editor (`visible`). It opens no link, image,
HTML or command, however it is written; the only markup that it may carry is code between single backticks, which our
own texts use.
"""

from __future__ import annotations

import re

from fuselight.shared.report.visible import visible

_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-!|~&])")
_LISTED = re.compile(r"^(\s*\d+)\.", re.MULTILINE)
_RUN = re.compile(r"`+")
_LINE_END = re.compile(r"\r\n?")
"""Besides a line feed, what Markdown takes for the end of a line."""
_NAME = 40
"""Letters of a kernel's name in a hover."""
_TAIL = 12
"""Of these, from its end: a number there distinguishes kernels."""


def plain(text: str) -> str:
    """Quote `text`, line ends included; text between single backticks is code."""
    parts = _CODE.split(_shown(text).strip())  # plain, code, plain, ...
    for index, part in enumerate(parts):
        parts[index] = code_span(part) if index % 2 else _escape(part)
    return "".join(parts)


def code_span(text: str) -> str:
    """Quote `text` as code within a line, whatever backticks it holds."""
    text = _shown(text).replace("\n", " ") or " "
    fence = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def name_cell(name: str) -> str:
    """Shorten the name of a kernel in the middle, for the last column of a hover's table.

    A name cannot be wrapped, and the editor would cut off the number at its end.
    """
    cut = name if len(name) <= _NAME else f"{name[: _NAME - _TAIL - 1]}\N{HORIZONTAL ELLIPSIS}{name[-_TAIL:]}"
    return plain(cut.replace("|", "/"))


def code_block(text: str, language: str) -> str:
    """Quote `text` as a block of code, whatever backticks it holds."""
    fence = "`" * max(_longest_run(text) + 1, 3)
    return f"{fence}{language}\n{_shown(text)}\n{fence}"


def link(text: str, address: str | None) -> str:
    """Link `text` to `address`, if there is one."""
    return f"[{plain(text)}](<{address}>)" if address else plain(text)


def _shown(text: str) -> str:
    return visible(_LINE_END.sub("\n", text))


def _longest_run(text: str) -> int:
    return max((len(run) for run in _RUN.findall(text)), default=0)


def _escape(text: str) -> str:
    text = _MARKS.sub(r"\\\1", text)
    return _LISTED.sub(r"\1\\.", text).replace("\n", "  \n")
