"""Flags of the test run. Expected text is never edited by hand: a flag rewrites it, and a person reads the diff.

pytest --update-golden    rewrites the golden texts in the tests
pytest --update-cases     rewrites the expectations in tests/cases, those of kernels too
FUSELIGHT_EXAMPLES=20     examples of each property that names no number
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from typing import TYPE_CHECKING

from tests.support import golden, zygote

if TYPE_CHECKING:
    import pytest

_EXAMPLES = 40
"""Of each property that names no number of its own: hypothesis tries the simple ones first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden texts in the tests")
    parser.addoption("--update-cases", action="store_true", help="rewrite expectations in tests/cases")


def pytest_configure(config: pytest.Config) -> None:
    golden.updating = bool(config.getoption("--update-golden"))
    state = tempfile.TemporaryDirectory(prefix="fuselight-state-")
    os.environ["XDG_STATE_HOME"] = state.name  # the key of the person who runs the tests stays as it is
    config.add_cleanup(state.cleanup)
    if config.getoption("numprocesses", None):  # of pytest-xdist, and None in its processes
        os.environ[zygote.SHARED] = state.name
    if importlib.util.find_spec("hypothesis") is not None:  # optional on a machine with a GPU
        load_profile(os.environ.get("FUSELIGHT_EXAMPLES", ""))


def load_profile(examples: str) -> None:
    """Disable the deadlines of examples: tests run in parallel, and a busy machine is not a failure.

    `examples`: how many a property without a number of its own tries; not a number: `_EXAMPLES`.
    """
    from hypothesis import settings  # noqa: PLC0415 - optional

    most = int(examples) if examples.isdecimal() else _EXAMPLES
    settings.register_profile("untimed", settings(), deadline=None, max_examples=most)
    settings.load_profile("untimed")


def pytest_sessionfinish() -> None:
    golden.write_updates()
