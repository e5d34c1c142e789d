r"""Text of the user's and of files, as an editor or a terminal may show it.

Invariant: no character of the result acts on what shows it, and none is there without being seen: no control character
but line ends and tabs, no mark that reorders, formats or hides text, none that no font shows, no half of a surrogate
pair. Each stands as its escape in Python, as in `\x1b`. Whole categories of Unicode count, not lists of characters.
"""

from __future__ import annotations

import json
import re
import unicodedata

_ACTING_KINDS = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
"""Categories of Unicode: control, format, private use, surrogates, separators of lines and of paragraphs."""
_UNUSUAL = re.compile(
    "[^\t\n -~\xa1-\xac\xae-\u02ff\u0370-\u05ff\u2070-\u27ff\u3040-\u3163\u4e00-\u9fff\uac00-\ud7a3]"
)
"""Most other characters are none that acts."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0d\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
"""What Unicode has shown as nothing, in other categories: fillers, selectors of variants, and places kept for more."""
_REPEATED_SELECTOR = re.compile("(?<=[\ufe0e\ufe0f])[\ufe0e\ufe0f]+")
"""One selector chooses how an emoji looks; a row of them can only hide data."""
_BLANKS = str.maketrans({"\n": "\\n", "\t": "\\t"})
_IN_JSON = re.compile(
    r"(?P<other>\\\\)|\\(?P<short>[bf])|\\r(?!\\n)"
    r"|\\u(?:d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|[0-9a-f]{4})"
)
"""In JSON in ASCII: a backslash, and the characters that `visible` may show by an escape."""


def visible(text: str) -> str:
    """`text` with an escape for each character that could act on a terminal or an editor."""
    if text.isascii() and text.isprintable():
        return text
    text = _UNUSUAL.sub(_shown, text.replace("\r\n", "\n"))
    return _REPEATED_SELECTOR.sub(_escaped, text)


def one_line(text: str) -> str:
    """`text` by `visible`, with escapes for line ends and tabs, too: a name that begins no line of its own."""
    return visible(text).translate(_BLANKS)


def visible_json(text: str) -> str:
    r"""JSON in ASCII, whose strings are as by `visible`, but for `\r\n`."""
    return _IN_JSON.sub(_escaped_in_json, text)


def _escaped_in_json(match: re.Match[str]) -> str:
    if match["other"]:
        return match[0]
    return json.dumps(visible(json.loads(f'"{match[0]}"')))[1:-1]


def _shown(match: re.Match[str]) -> str:
    character = match[0]
    acts = unicodedata.category(character) in _ACTING_KINDS or _UNSEEN.match(character)
    return _escaped(match) if acts else character


def _escaped(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]
