"""Runs a program of the workspace that calls a target of another file: a script, a file of tests, a notebook.

Invariant: each runs as its user runs it, but for `stop`: once that returns True, no further test begins.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import sys
import types
from collections.abc import Callable

from fuselight.target import importing
from fuselight.target.importing import Sources

NOTEBOOK = ".ipynb"
_TEST = re.compile(r"(?:test_.*|.*_test)\.py$")
_MAGIC = re.compile(rb"^[ \t]*[%!?].*$", re.MULTILINE)
"""Lines that are IPython's and not Python's."""


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
    text = _code_of_notebook(path, sources) if path.endswith(NOTEBOOK) else None
    importing.run_as_main(path, sources, (), text=text)


def _code_of_notebook(path: str, sources: Sources) -> bytes:
    """The code cells of a notebook as one text, without IPython's own commands."""

    def read() -> bytes:
        with open(path, "rb") as file:
            return file.read()

    try:
        cells = json.loads(sources.text_of(path, read))["cells"]
        codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ProgramError(f"{os.path.basename(path)} cannot be read as a notebook: {error}") from None
    return _MAGIC.sub(b"pass", "\n\n".join(codes).encode("utf-8", "surrogatepass"))


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

    # Assertions stay as written, so that the file is imported as the editor has it; nothing is captured or kept.
    options = ["-q", "-s", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist", path]
    pytest.main(options, plugins=[_Stop()])


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
