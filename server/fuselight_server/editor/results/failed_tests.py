"""Tests that failed because of what torch.compile did: their findings, on lines of files with the text that ran.

Invariant: a finding is shown while its file has that text, by hash, and not at any other time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fuselight_server.base.files import within
from fuselight_server.base.finding import Finding
from fuselight_server.commands.compile_tests import FailedCompileTest


class FailedTests(dict[str, tuple["FailedCompileTest", ...]]):
    """The failed tests of each store, by its folder."""

    def accept_tests(self, folder: str, tests: tuple[FailedCompileTest, ...]) -> frozenset[str]:
        """Replace the tests of a store; return the files of those that came and went."""
        before = self.pop(folder, ())
        if tests:
            self[folder] = tests
        return _paths(before) | _paths(tests)

    def paths(self) -> frozenset[str]:
        """Return the files of findings."""
        return frozenset().union(*map(_paths, self.values()))

    def drop(self, path: str) -> frozenset[str]:
        """Drop the tests of stores in a folder that is gone; return their files."""
        gone = [folder for folder in self if within(folder, path)]
        return frozenset().union(*(_paths(self.pop(folder)) for folder in gone))

    def on(
        self, path: str, keys: Callable[[], frozenset[str]]
    ) -> Iterator[tuple[FailedCompileTest, Finding]]:
        """Yield the findings on lines of a file; `keys` returns the hashes of its text, and is called if needed."""
        tests = [test for tests in self.values() for test in tests if path in test.files]
        current = keys() if tests else frozenset()
        for test in tests:
            if test.files[path] in current:
                yield from ((test, finding) for finding in test.findings if finding.span.path == path)


def _paths(tests: tuple[FailedCompileTest, ...]) -> frozenset[str]:
    return frozenset(path for test in tests for path in test.files)
