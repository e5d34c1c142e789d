"""The pytest plugin: fixture `fuselight_check`, marker `fuselight`, and what the terminal shows of compile tests.

Invariant: a session in which no test compiles imports nothing of torch, of the compiler side or of the findings; no
test item is of a class of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from fuselight_server.pytest_plugin.checker import Checker

MARKER = "fuselight"
_MARKER_HELP = (
    "fuselight(graphs, breaks, recompiles): what each fuselight_check of the test must find; numbers that are left out "
    "come from fuselight_expect"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options and settings."""
    parser.addini("fuselight_expect", "default numbers of the marker, as `graphs=1 breaks=0`", default="")
    parser.addini(
        "fuselight_roots", "further folders whose files are yours, for findings", type="paths", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker."""
    config.addinivalue_line("markers", _MARKER_HELP)


@pytest.fixture
def fuselight_check(request: pytest.FixtureRequest) -> Checker:
    """Compile a module or function, call it, and return what torch.compile did: `assert compiled.graphs == 1`.

    Use `fuselight_check(model, inputs)`: a tuple is one call, a dict one call by keywords, a list several calls.
    """
    from fuselight_server.pytest_plugin.checker import Checker  # noqa: PLC0415 - imports torch

    return Checker(request.node)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Reject a marker that cannot have an effect."""
    if item.get_closest_marker(MARKER) is not None:
        from fuselight_server.pytest_plugin.expectations import check_marker  # noqa: PLC0415 - few tests have one

        check_marker(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the findings of a failed check, at their lines."""
    report = yield
    from fuselight_server.pytest_plugin.stashed import CHECKS  # noqa: PLC0415 - a light module

    checks = item.stash.get(CHECKS, None)
    if checks:
        from fuselight_server.pytest_plugin.failures import complete_report  # noqa: PLC0415 - after a check

        complete_report(report, call.excinfo, checks)
        if call.when == "teardown":
            checks.clear()  # they hold the outputs and the report of each check
    return report


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed comparison of a number that a check has counted."""
    from fuselight_server.pytest_plugin.stashed import Explained  # noqa: PLC0415 - a light module

    explained = next((value for value in (left, right) if isinstance(value, Explained)), None)
    return None if explained is None else [f"{left!r} {op} {right!r}", *explained.explanation()]
