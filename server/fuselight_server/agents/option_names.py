"""Options in texts that every face shows, as an agent gives them: by the arguments of its tools.

Invariant: no answer names an option that the reader cannot give; code and pages are as they are.
"""

from __future__ import annotations

import re
from typing import Any

from fuselight.shared.codec import read_table

_CODE = frozenset({"diff", "source", "page"})
"""Fields with texts that are not ours, or a page of the documentation."""
_WORDS = [
    (re.compile(pattern), words) for pattern, words in read_table(tuple[tuple[str, str], ...], __file__)
]


def for_agents(text: str) -> str:
    """A text with an agent's arguments in the place of options."""
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text


def data_for_agents(data: Any) -> Any:
    """The data of an answer with such texts."""
    if isinstance(data, str):
        return for_agents(data)
    if isinstance(data, list):
        return [data_for_agents(item) for item in data]
    if isinstance(data, dict):
        return {key: value if key in _CODE else data_for_agents(value) for key, value in data.items()}
    return data
