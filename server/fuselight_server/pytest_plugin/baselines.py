"""The baseline of a session: which checks are compared with it, and what the session changes in it.

Invariant: the process that reports the session writes the file, once, at its end; only tests that passed change it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fuselight_server.base.command_error import CommandError
from fuselight_server.commands.count_baseline import NAME, CountChange, compare, entry_of, read
from fuselight_server.commands.sources import shown_path
from fuselight_server.pytest_plugin.check_types import test_name
from fuselight_server.pytest_plugin.expectations import ExpectationError

if TYPE_CHECKING:
    from fuselight_server.commands.count_baseline import CountComparison, CountEntry
    from fuselight_server.pytest_plugin.compiled import CompileResult

SETTING = "fuselight_baseline"
UPDATE = "fuselight_update"
_ENTRIES: pytest.StashKey[dict[str, CountEntry]] = pytest.StashKey()


def path_of(config: pytest.Config) -> Path:
    """The file of the baseline."""
    return config.rootpath / (str(config.getini(SETTING)) or NAME)


def is_for_all(config: pytest.Config) -> bool:
    """Whether every check is compared with it."""
    return bool(config.getini(SETTING))


def is_in_ci() -> bool:
    """Whether a server runs the tests, by the variables that pytest looks at."""
    return bool(os.environ.get("CI") or os.environ.get("BUILD_NUMBER"))


def entries_of(config: pytest.Config) -> dict[str, CountEntry]:
    """The entries as the session found them. Raises CommandError."""
    if _ENTRIES not in config.stash:
        config.stash[_ENTRIES] = read(path_of(config))
    return config.stash[_ENTRIES]


def key_of(item: pytest.Item, number: int) -> str:
    """The name of a check: that of its test, and its number unless it is the first."""
    name = test_name(item.nodeid)
    return name if number == 1 else f"{name}#{number}"


def check_baseline(item: pytest.Item, check: CompileResult) -> None:
    """Compare a check with its entry, and note what to write. Raises ExpectationError if the check is worse."""
    __tracebackhide__ = True
    config, key = item.config, key_of(item, check.number)
    path = path_of(config)
    problem, known = "", None
    try:
        known = entries_of(config).get(key)
    except CommandError as error:
        problem = str(error)
    if problem:
        pytest.fail(problem, pytrace=False)
    comparison = compare(check.check, known, path.parent)
    is_update = bool(config.getoption(UPDATE))
    if not is_update and comparison.change is CountChange.WORSE and known is not None:
        raise ExpectationError(_worse_text(check, comparison, known, path), check, comparison.new_findings)
    if not is_update and comparison.change is CountChange.NEW and is_in_ci():
        raise ExpectationError(
            f"{check.label} has no entry in {shown_path(str(path))}. Run the test outside of CI and commit the file.",
            check,
        )
    entry = entry_of(check.check, path.parent)
    if _is_to_write(entry, known, comparison.change, is_update=is_update):
        check.baseline[key] = entry


def _is_to_write(
    entry: CountEntry, known: CountEntry | None, standing: CountChange, *, is_update: bool
) -> bool:
    """Whether an entry replaces the known one: another torch, or other settings of torch, alone are no reason."""
    if entry == known or (is_in_ci() and not is_update):
        return False
    is_same_torch = (
        known is not None and known.torch == entry.torch and known.settings in (None, entry.settings)
    )
    return is_update or standing is not CountChange.SAME or is_same_torch


def known_entry(item: pytest.Item, number: int) -> CountEntry | None:
    """The entry of a check, if the baseline can be read and has one."""
    try:
        return entries_of(item.config).get(key_of(item, number))
    except CommandError:
        return None


def _worse_text(check: CompileResult, comparison: CountComparison, known: CountEntry, path: Path) -> str:
    parts = [_worse_number(check, name, getattr(known, name)) for name in comparison.worse]
    why = "".join(f". {note}" for note in check.condition_notes())
    return f"{'; '.join(parts)} (baseline {shown_path(str(path))}){why}"


def _worse_number(check: CompileResult, name: str, known: int) -> str:
    number = getattr(check, name)
    return f"{number!r}, expected {known}" if number < known else f"{number!r}, expected at most {known}"
