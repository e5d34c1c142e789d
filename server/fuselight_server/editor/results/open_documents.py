"""The documents that the editor has open, by URI, and the texts of files: the editor's, else the disk's.

Invariant: what is on the disk is read again each time.
"""

from __future__ import annotations

from collections.abc import Iterable

from fuselight_server.base.files import disk_lines, disk_text, within
from fuselight_server.editor.results.predictions import Prediction
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.results.target_result import TargetResult, keys_of, keys_on_disk
from fuselight_server.source.document import SourceDocument
from fuselight_server.source.reading import Reading
from fuselight_server.source.text_changes import Change


class OpenDocuments(dict[str, Document]):
    """Open documents by URI."""

    def __init__(self) -> None:
        super().__init__()
        self._by_path: dict[str, Document] = {}

    def add(self, document: Document) -> None:
        """Add an opened document."""
        self[document.uri] = self._by_path[document.path] = document

    def remove(self, uri: str) -> Document | None:
        """Remove a closed document; None if it was not open."""
        document = self.pop(uri, None)
        if document is not None and self._by_path.get(document.path) is document:
            del self._by_path[document.path]
        return document

    def at(self, path: str) -> Document | None:
        """Return the open document of a path."""
        return self._by_path.get(path)

    def text(self, path: str) -> str | None:
        """Return the text of a file as the editor has it, else as it is on the disk; None if it cannot be read."""
        document = self.at(path)
        return document.source.text if document is not None else disk_text(path)

    def has_texts_of(self, result: TargetResult) -> bool:
        """Whether each file of a result has the text that ran. Reads the files that are not open."""
        for path, key in result.report.files.items():
            document = self.at(path)
            if key not in (keys_on_disk(path) if document is None else keys_of(document.source.text)):
                return False
        return result.key.path in result.report.files

    def unsaved_changes(self, path: str) -> list[Change]:
        """Return what the editor has changed of the text on disk; nothing where either has no text."""
        document, text = self.at(path), disk_text(path)
        if document is None or text is None:
            return []
        return SourceDocument(path, text).become(document.source.text)

    def read_line(self, path: str, line: int) -> str | None:
        """Text of a 1-based line, from the editor if the file is open there, else from the disk."""
        document = self.at(path)
        if document is not None:
            return document.line(line)
        lines = disk_lines(path)
        return lines[line - 1] if 0 < line <= len(lines) else None

    def overlays(self, roots: tuple[str, ...], also: str) -> dict[str, str]:
        """Texts of the open files under `roots` (and `also`) that are not on disk as the editor has them."""
        return {
            document.path: document.source.text
            for document in self.values()
            if document.runnable
            and (document.path == also or any(within(document.path, root) for root in roots))
            and disk_text(document.path) != document.source.text
        }

    def readings_of(self, predictions: Iterable[Prediction]) -> dict[str, Reading]:
        """Read the open files that have lines with these predictions, by path."""
        paths = {path for prediction in predictions for path in prediction.paths()}
        return {path: document.reading() for path in paths if (document := self.at(path)) is not None}
