r"""Text of the user's and of files, as an editor or a terminal may show it.

Invariant: no character of the result acts on what shows it: no control character but line ends and tabs, no mark that
reorders or hides text, no half of a surrogate pair. Each stands as its escape in Python, as in `\x1b`.
"""

from __future__ import annotations

import json
import re

_ACTS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)

_IN_JSON = re.compile(
    r"(?P<other>\\\\)|\\u(?P<code>00[01][0-9a-f]|007f|00[89][0-9a-f]|061c|20(?:0[b-f]|2[89a-e]|6[0-9a-f])|feff)"
)
"""In JSON in ASCII: a backslash, and the characters that `visible` shows by an escape."""


def visible(text: str) -> str:
    """`text` with an escape for each character that could act on a terminal or an editor."""
    if text.isprintable():
        return text
    return _ACTS.sub(_escaped, text.replace("\r\n", "\n"))


def visible_json(text: str) -> str:
    r"""JSON in ASCII, whose strings are as by `visible`, but for `\r\n`."""
    return _IN_JSON.sub(_escaped_in_json, text)


def _escaped_in_json(match: re.Match[str]) -> str:
    code = match["code"]
    return match[0] if code is None else json.dumps(visible(chr(int(code, 16))))[1:-1]


def _escaped(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]
