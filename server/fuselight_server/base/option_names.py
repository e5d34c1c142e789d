"""The options of the command line that stand for settings: texts name the setting, and a terminal shows the option.

Invariant: a text that an editor shows names no option, as nobody can type one there.
"""

from __future__ import annotations

import re

from fuselight.shared.codec import read_table

_KNOWN = read_table(dict[str, dict[str, str]], __file__)
_OPTIONS, _PHRASES = _KNOWN["settings"], _KNOWN["phrases"]
"""By setting, and by phrase of a text: what a terminal shows."""
_SETTING = re.compile(r"(?:the setting )?`(fuselight\.[A-Za-z.]+)`")


def with_options(text: str) -> str:
    """Return a text with the options of commands in place of the settings that it names."""
    if "fuselight." in text:
        text = _SETTING.sub(_option, text)
    for phrase, option in _PHRASES.items():
        text = text.replace(phrase, option)
    return text


def _option(match: re.Match[str]) -> str:
    option = _OPTIONS.get(match[1])
    return match[0] if option is None else f"`{option}`"
