"""Text from sources, torch and reports, quoted inside the Markdown that the server writes.

Invariant: the text is shown as it is, but for characters that act on an editor (`visible`). It opens no link, image,
HTML or command, however it is written: an address with a mark in it is code, as a reader that makes addresses links
takes in the escapes of marks. The only other markup that it may carry is code between single backticks, which our own
texts use.
"""

from __future__ import annotations

import re

from fuselight.shared.report.visible import visible

_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_ACTIVE = re.compile(
    r"""
    (?P<name>
      (?:(?i:www\.|\b[a-z][a-z0-9+.-]*://|\b(?:mailto|xmpp):)(?=\S)|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+)
      (?=[^\s|]*[\\*_\[<&!~])[^\s|`]*     # GitHub's links, which would take in an escape
    | (?<!\w)\w[\w.]*(?:\[(?:[^\[\]\n`|]|\[[^\[\]\n`|]*\])*\])+  # `f32[2, 8]`: a link to some readers
    | (?:(?<![\w.])(?:\w+\.)+|(?<!\w))     # `__main__`: underscores at the edge of a name are emphasis
      (?:_\w*|\w*_)(?!\w)
      (?:\.\w+)*(?:\([^()\n`|]*\))?        # `torch._dynamo.mark_dynamic(x, 0)` is one piece of code
    )
  | \\                                    # an escape
  | `                                     # code
  | (?<![ \t])\*|\*(?![ \t])              # emphasis
  | \[                                    # a link
  | !(?=\Z)                               # an image, with what follows the text
  | <(?=[A-Za-z/!?])                      # HTML, an address
  | \|                                    # a column
  | (?<=\S)~|~(?!\d)                      # struck out; `~41` after a space ends nothing
  | &(?=\#?\w+;)                          # an entity
    """,
    re.VERBOSE,
)
"""What acts within a line. Other marks get no backslash, as some editors show it."""
_BRACKET = re.compile(r"(`+)[^`]+\1|\\.|[\[\]]")
"""Code, an escape, or a bracket that would end the text of a link."""
_LINE_START = re.compile(r"^([ \t]*)([#>+\-=*:])", re.MULTILINE)
"""A mark that acts only at the start of a line: a heading, a quote, an item, a rule."""
_LISTED = re.compile(r"^(\s*\d+)([.)])", re.MULTILINE)
_RUN = re.compile(r"`+")
_LINE_END = re.compile(r"\r\n?")
"""Besides a line feed, what Markdown takes for the end of a line."""
_NAME = 40
"""Letters of a kernel's name in a hover."""
_TAIL = 12
"""Of these, from its end: a number there distinguishes kernels."""
_MARKUP = re.compile(
    r"""
    ^(?P<fence>`{3,})\w*\n(?P<block>.*?)\n(?P=fence)$        # a block of code
  | (?P<ticks>`+)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)          # code in a line
  | \\(?P<escaped>[!-/:-@\[-`{-~])
  | \[(?P<link>(?:\\.|`[^`]*`|[^\[\]\\])*)\]\(<[^>]*>\)
  | ^\|?(?:\ *:?-{3,}:?\ *\|)+(?:\ *:?-{3,}:?)?\n            # the line below the head of a table
  | (?<!\s)\*+|\*+(?!\s)                                      # emphasis
  | \ +$                                                     # what breaks a line
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
"""The markup that the server writes, for `as_text`."""


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
    return f"[{_BRACKET.sub(_inactive_bracket, plain(text))}](<{address}>)" if address else plain(text)


def as_text(markdown: str) -> str:
    """Return Markdown that this server wrote as plain text, for a client that shows no Markdown."""
    return _MARKUP.sub(_unmarked, markdown)


def _unmarked(match: re.Match[str]) -> str:
    if match["link"] is not None:
        return as_text(match["link"])
    code = match["code"]
    if code is not None:
        return str(code[1:-1] if code.startswith(" ") and code.endswith(" ") and code.strip() else code)
    return match["block"] or match["escaped"] or ""


def _shown(text: str) -> str:
    return visible(_LINE_END.sub("\n", text))


def _longest_run(text: str) -> int:
    return max((len(run) for run in _RUN.findall(text)), default=0)


def _escape(text: str) -> str:
    text = _ACTIVE.sub(_inactive, text)
    text = _LINE_START.sub(r"\1\\\2", text)
    return _LISTED.sub(r"\1\\\2", text).replace("\n", "  \n")


def _inactive_bracket(match: re.Match[str]) -> str:
    return f"\\{match[0]}" if match[0] in "[]" else match[0]


def _inactive(match: re.Match[str]) -> str:
    return code_span(match["name"]) if match["name"] else f"\\{match[0]}"
