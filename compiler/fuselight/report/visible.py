r"""Text of the user's and of files, as an editor or a terminal may show it.

Invariant: no character of the result acts on what shows it: no control character but line ends and tabs, no mark that
reorders or hides text, no half of a surrogate pair. Each stands as its escape in Python, as in `\x1b`.
"""

from __future__ import annotations

import re

_ACTS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """`text` with an escape for each character that could act on a terminal or an editor."""
    if text.isprintable():
        return text
    return _ACTS.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]
