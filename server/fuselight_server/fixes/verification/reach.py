"""Whether a target may run what a remedy changes, by the names in its code.

Invariant: a definition is left out only if nothing that the target may run mentions its name. Statements at top level
run at import, and decorated definitions may be called by whoever decorates them: both always count.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Mapping

from fuselight_server.fixes.syntax.file_chunks import chunks_of_text

_WORD = re.compile(r"[^\W\d]\w*")
_DEFINITION = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
"""A line of its own: a directive names a target, and calls nothing."""
_DECORATOR = re.compile(r"^@(?!torch\.compile\b)", re.MULTILINE)


def may_run(target: str, texts: Mapping[str, str], changed: Mapping[str, str]) -> bool:
    """Whether a target may run one of the chunks that differ.

    `texts`: the files that it loads. `changed`: their new texts, as far as they change.
    """
    defined: dict[str, list[tuple[str, bool]]] = collections.defaultdict(list)
    waiting = [target.partition(".")[0]]
    for path, text in texts.items():
        old, new = _chunks(path, text), _chunks(path, changed.get(path, text))
        for chunk in old + (new - old):
            is_changed = (chunk in old) != (chunk in new)
            name = _defined(chunk)
            if name is None and is_changed:
                return True
            if name is None:
                waiting += _WORD.findall(chunk)
            else:
                defined[name].append((chunk, is_changed))
    seen = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for chunk, is_changed in defined.get(name, ()):
            if is_changed:
                return True
            waiting += _WORD.findall(chunk)
    return False


def _chunks(path: str, text: str) -> collections.Counter[str]:
    chunks = (chunk.data.decode("utf-8", "replace") for chunk in chunks_of_text(path, text))
    return collections.Counter(_COMMENT.sub("", chunk) for chunk in chunks)


def _defined(chunk: str) -> str | None:
    """The name that a chunk defines and does nothing else; None for any other statement."""
    names = _DEFINITION.findall(chunk)
    return names[0] if len(names) == 1 and not _DECORATOR.search(chunk) else None
