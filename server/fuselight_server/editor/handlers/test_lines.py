"""What failed tests show on the lines of a file: the findings that made them fail, under the name of the test.

Invariant: a finding names its test, and changes nothing of what runs here show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.editor.handlers.listed_findings import ListedFinding
from fuselight_server.editor.results.target_result import keys_of, keys_on_disk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.editor.handlers.server import Server

SOURCE = "fuselight pytest"


def findings(server: Server, path: str) -> Iterator[ListedFinding]:
    """Yield the findings of failed tests on lines of a file, while it has the text that ran."""
    document = server.state.at(path)

    def keys() -> frozenset[str]:
        return keys_on_disk(path) if document is None else keys_of(document.source.text)

    for test, finding in server.state.failed_tests.on(path, keys):
        yield ListedFinding(finding, label=test.test, source=SOURCE, prefix=f"{test.test} fails: ")
