"""What a test expects of a check: numbers of its marker, of `expect`, and of the settings.

Invariant: a name that is not known, or a marker that expects nothing, is an error and never ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import pytest

from fuselight_server.pytest_plugin.check_types import Counted
from fuselight_server.pytest_plugin.keywords import unknown_name

if TYPE_CHECKING:  # a session without checks loads no finding
    from fuselight_server.base.finding import Finding

_MARKER = "fuselight"
_FIXTURE = "fuselight_check"
_SETTING = "fuselight_expect"


class ExpectationError(AssertionError):
    """A check found other numbers than expected."""

    def __init__(self, message: str, check: Counted, findings: Sequence[Finding] = ()) -> None:
        """`findings`: those that explain it; without any, those of the check do."""
        super().__init__(message)
        self.check = check
        self.findings = tuple(findings)


@dataclass(frozen=True)
class Expectation:
    """Numbers that a check must have; None for any."""

    graphs: int | None = None
    breaks: int | None = None
    recompiles: int | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any], place: str) -> Expectation:
        """Take numbers by name. Raises ValueError with `place` in its text."""
        known = [entry.name for entry in fields(cls)]
        for name, value in values.items():
            if name not in known:
                raise ValueError(unknown_name(place, name, known))
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise ValueError(f"{place}: `{name}={value!r}` is not a number of {name}. Write 0 or more.")
        return cls(**values)

    def updated(self, other: Expectation) -> Expectation:
        """These numbers, replaced by those that `other` has."""
        return Expectation(
            **{
                entry.name: mine if theirs is None else theirs
                for entry in fields(self)
                for mine, theirs in [(getattr(self, entry.name), getattr(other, entry.name))]
            }
        )

    @property
    def is_empty(self) -> bool:
        """Whether anything would do."""
        return self == Expectation()

    def differences(self, check: Counted) -> Iterator[str]:
        """Yield the name of each number that is not as expected."""
        for entry in fields(self):
            expected = getattr(self, entry.name)
            if expected is not None and getattr(check, entry.name) != expected:
                yield entry.name

    def check(self, check: Counted, place: str = "") -> None:
        """Raise ExpectationError if a number is not as expected; `place` says who expects it."""
        __tracebackhide__ = True
        wrong = list(self.differences(check))
        if wrong:
            parts = [f"{getattr(check, name)!r}, expected {getattr(self, name)}" for name in wrong]
            where = f" ({place})" if place else ""
            notes = "".join(f". {note}" for note in check.condition_notes())
            raise ExpectationError(f"{'; '.join(parts)}{where}{notes}", check)


def of_marker(item: pytest.Item) -> Expectation:
    """What the marker of a test expects of each check; anything if it has none. Raises ValueError."""
    marker = item.get_closest_marker(_MARKER)
    if marker is None:
        return Expectation()
    if marker.args:
        raise ValueError(
            f"@pytest.mark.{_MARKER} takes numbers by name. Write `graphs=1` instead of `{marker.args[0]!r}`."
        )
    own = Expectation.of(marker.kwargs, f"@pytest.mark.{_MARKER}")
    expectation = of_setting(item.config).updated(own)
    if expectation.is_empty:
        raise ValueError(
            f"@pytest.mark.{_MARKER} expects nothing. Give it numbers, as in `graphs=1, breaks=0`, or set `{_SETTING}`."
        )
    return expectation


def check_setting(config: pytest.Config) -> None:
    """Raise pytest.UsageError if `fuselight_expect` cannot be read, whichever tests run."""
    try:
        of_setting(config)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def of_setting(config: pytest.Config) -> Expectation:
    """What `fuselight_expect` says. Raises ValueError."""
    text = str(config.getini(_SETTING))
    values: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        name, _, number = word.partition("=")
        if not number.isdecimal():
            raise ValueError(f"{_SETTING}: `{word}` is not a name with a number. Write `graphs=1 breaks=0`.")
        values[name] = int(number)
    return Expectation.of(values, _SETTING)


def check_marker(item: pytest.Item) -> None:
    """Fail a test whose own marker is wrong, or has no check that it could be about."""
    __tracebackhide__ = True
    problem = ""
    try:
        of_marker(item)
    except ValueError as error:
        problem = str(error)
    if problem:
        pytest.fail(problem, pytrace=False)
    is_own = any(marker.name == _MARKER for marker in item.own_markers)
    if is_own and _FIXTURE not in getattr(item, "fixturenames", (_FIXTURE,)):
        pytest.fail(
            f"@pytest.mark.{_MARKER} has no effect: the test does not use the fixture `{_FIXTURE}`. "
            f"Take it as an argument and call it.",
            pytrace=False,
        )
