"""Runs a program of the workspace that calls a target of another file: a script, a file of tests, a notebook.

Invariant: each runs as its user runs it, but for `stop`: once that returns True, no further test begins.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from fuselight.capture.calls import importing
from fuselight.capture.calls.importing import Sources
from fuselight.shared.notebooks.cells import NotebookError

_TEST = re.compile(r"(?:test_.*|.*_test)\.py$")

_NO_PLUGINS = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
"""With this variable, pytest knows no options of installed plugins."""


class ProgramError(Exception):
    """A program cannot be run; the message says why."""


def is_test(path: str) -> bool:
    """Whether a file has tests, by its name."""
    return _TEST.match(os.path.basename(path)) is not None


def run_program(path: str, sources: Sources, stop: Callable[[], bool]) -> None:
    """Run a program without arguments. Raises what it raises, and ProgramError."""
    folder = os.path.dirname(path)
    if is_test(path):
        _run_tests(path, sources, stop)
        return
    sys.path.insert(0, folder)
    try:
        importing.run_as_main(path, sources, ())
    except NotebookError as error:
        raise ProgramError(f"`{os.path.basename(path)}` is not a readable notebook: {error}.") from None


def _run_tests(path: str, sources: Sources, stop: Callable[[], bool]) -> None:
    """Run the tests of a file by pytest; without pytest those that are plain functions."""
    try:
        pytest = importlib.import_module("pytest")
    except ImportError:
        _run_functions(path, sources, stop)
        return

    class _Stop:
        """A plugin of pytest's."""

        def pytest_runtest_makereport(self, item: object) -> None:
            if stop():
                item.session.shouldstop = "the target was called"  # type: ignore[attr-defined]

        @pytest.hookimpl(hookwrapper=True)  # type: ignore[untyped-decorator]
        def pytest_cmdline_main(self, config: Any) -> Iterator[None]:
            """Keep the tests in this process, where the user's settings spread them by pytest-xdist."""
            if hasattr(config.option, "numprocesses"):
                config.option.numprocesses, config.option.dist, config.option.tx = 0, "no", []
            yield

    # Assertions stay as written, so that the file is imported as the editor has it; nothing is captured or kept.
    options = ["-q", "-s", "--assert=plain", "-p", "no:cacheprovider"]
    if _NO_PLUGINS not in os.environ and importlib.util.find_spec("pytest_cov") is not None:
        options.append("--no-cov")
    pytest.main([*options, path], plugins=[_Stop()])


def _run_functions(path: str, sources: Sources, stop: Callable[[], bool]) -> None:
    name, folder = importing.module_place(path)
    sys.path.insert(0, folder)
    module = importing.import_file(path, name, sources)
    for function in list(vars(module).values()):
        is_own = isinstance(function, types.FunctionType) and function.__module__ == module.__name__
        if is_own and function.__name__.startswith("test") and not inspect.signature(function).parameters:
            function()
            if stop():
                return
