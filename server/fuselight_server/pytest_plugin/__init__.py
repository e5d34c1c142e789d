"""The pytest plugin: fixture `fuselight_check`, marker `fuselight`, and what the terminal shows of compile tests.

Invariant: a session in which no test compiles imports nothing of torch, of the compiler side or of the findings; no
test item is of a class of ours.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

import pytest

from fuselight_server.pytest_plugin.check_types import CHECKS, Explained
from fuselight_server.pytest_plugin.session_hooks import SessionHooks

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
    group = parser.getgroup("fuselight", "what torch.compile does")
    group.addoption("--fuselight", action="store_true", help="list what each fuselight_check found")
    group.addoption(
        "--fuselight-report", metavar="FILE", help="write what each fuselight_check found as JSON"
    )
    group.addoption(
        "--fuselight-update",
        action="store_true",
        help="accept the numbers of this session in the baseline, worse ones too",
    )
    parser.addini("fuselight_expect", "default numbers of the marker, as `graphs=1 breaks=0`", default="")
    parser.addini(
        "fuselight_baseline", "compare each fuselight_check with the numbers in this file", default=""
    )
    parser.addini(
        "fuselight_roots", "further folders whose files are yours, for findings", type="paths", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker, and collect what checks of the session find."""
    config.addinivalue_line("markers", _MARKER_HELP)
    if config.getini("fuselight_expect"):
        from fuselight_server.pytest_plugin.expectations import check_setting  # noqa: PLC0415 - few sessions have it

        check_setting(config)
    config.pluginmanager.register(SessionHooks(config), "fuselight-session")


@pytest.fixture
def fuselight_check(request: pytest.FixtureRequest) -> Checker:
    """Compile a module or function, call it, and return what torch.compile did: `assert compiled.graphs == 1`.

    Use `fuselight_check(model, inputs)`: a tuple is one call, a dict one call by keywords, a list several calls.
    """
    if importlib.util.find_spec("torch") is None:
        pytest.fail(
            f"fuselight_check needs torch in the Python that runs the tests. Install torch for `{sys.executable}`.",
            pytrace=False,
        )
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
    checks = item.stash.get(CHECKS, None)
    if checks:
        from fuselight_server.pytest_plugin.records import complete  # noqa: PLC0415 - after a check

        complete(report, item, call, checks)
        if call.when == "teardown":
            checks.clear()  # they hold the outputs and the report of each check
    return report


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed comparison of a number that a check has counted."""
    explained = next((value for value in (left, right) if isinstance(value, Explained)), None)
    return None if explained is None else [f"{left!r} {op} {right!r}", *explained.explanation()]
