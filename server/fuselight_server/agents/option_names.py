"""Options in texts that every face shows, as an agent gives them: by the arguments of its tools.

Invariant: no answer names an option that the reader cannot give; code and pages are as they are.
"""

from __future__ import annotations

import re
from typing import Any

_CODE = frozenset({"diff", "source", "page"})
"""Fields with texts that are not ours, or a page of the documentation."""
_WORDS = [
    (re.compile(pattern), words)
    for pattern, words in (
        (r"allow changes of behavior", "allow it with `allow_behavior_changes`"),
        (r"with `?--target(?: NAME)?`?", "in `targets`"),
        (r" with `--source(?: DIR)?`", " in `source`"),
        (r"with --python PATH", "by starting this server with `fuselight mcp --python PATH`"),
        (r"^--python (?=\S+: there)", ""),
        (r" after `--against`", ""),
        (r"without --against", "without `against`"),
        (r"^--changed-since needs", "the list of changed lines needs"),
        (r"with --ranks (\S+),", r"with `fuselight check PROGRAM --ranks \1`,"),
        (r"longer --budget", "longer `budget_seconds`"),
        (r"`--numerics (\w+)`", r"`numerics`: `\1`"),
        (r"`--fixed-modules`", "`fuselight tune PATH --fixed-modules`"),
        (r"with `--output FILE`", "with `fuselight tune PATH --output FILE`"),
        (r"`--with-values`", "`with_values`"),
        (r"Add `--install`, which", "Run `fuselight repro PATH --install`, which"),
        (r"another `--install` into", "another installation into"),
        (r", --time-limit\)", ")"),
        (r" \(--time-limit\)| \(`--follow`\)|, `--memory-limit` in a terminal|: the JSON has all", ""),
    )
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
