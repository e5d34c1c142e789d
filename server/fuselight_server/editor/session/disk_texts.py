"""What is on the disk of the open files, so that a file written by another program counts as saved.

An editor says when it saves. Of a checkout it only says that the file has changed, and gives its buffer the new text
before or after that. Invariant: a text that the editor itself saved is never taken for that of another program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.editor.results.target_result import keys_of, keys_on_disk

if TYPE_CHECKING:
    from fuselight_server.source.document import SourceDocument


class DiskTexts:
    """The open files as they were on the disk when the editor last read or wrote them."""

    def __init__(self) -> None:
        self._keys: dict[str, frozenset[str]] = {}
        """Hash of each open file; no entry for one that is not open."""
        self._ahead: set[str] = set()
        """Files that another program has written and whose buffer still has another text."""

    def note(self, path: str) -> None:
        """Note what is on the disk, as the editor has read or written it."""
        self._keys[path] = keys_on_disk(path)
        self._ahead.discard(path)

    def forget(self, path: str) -> None:
        """Forget a file that was closed."""
        self._keys.pop(path, None)
        self._ahead.discard(path)

    def was_written_by_others(self, path: str) -> bool:
        """Whether an open file has another text than the editor has read or written."""
        now = keys_on_disk(path)
        if not now or now == self._keys.get(path):
            self._ahead.discard(path)
            return False
        self._ahead.add(path)
        return True

    def has_followed(self, path: str, source: SourceDocument) -> bool:
        """Whether the editor now has the text that another program wrote."""
        return path in self._ahead and not keys_on_disk(path).isdisjoint(keys_of(source.text))
