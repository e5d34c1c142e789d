"""What ended a run with the later release: which name of torch is gone, and what to do about it.

Invariant: the advice says only what the text of the exception shows; what else may be the cause is not guessed.
"""

from __future__ import annotations

import re
from dataclasses import replace

from fuselight.shared.report import Versions
from fuselight_server.base.finding import Finding

_REMOVED = (
    re.compile(r"module '(?P<owner>torch[\w.]*)' has no attribute '(?P<name>\w+)'"),
    re.compile(r"cannot import name '(?P<name>\w+)' from '(?P<owner>torch[\w.]*)'"),
    re.compile(r"No module named '(?P<owner>torch(?:\.\w+)*)\.(?P<name>\w+)'"),
    re.compile(r"'(?P<owner>Tensor)' object has no attribute '(?P<name>\w+)'"),
)
_ARGUMENT = re.compile(r"(?P<function>[\w.]+)\(\) got an unexpected keyword argument '(?P<name>\w+)'")
_PACKAGE = re.compile(r"No module named '(?P<name>(?!torch\b)\w+)")


_UNDECIDED = frozenset({"FL403", "FL405", "FL406", "FL409", "FL501", "FL504"})
"""Limits, inputs that cannot be built, and failures outside of the user's code and of torch."""


def is_undecided(finding: Finding) -> bool:
    """Whether a failure says nothing about the version of torch: a limit, a directive, a missing package."""
    return finding.code in _UNDECIDED or bool(_PACKAGE.search(finding.title))


def with_advice(finding: Finding, before: Versions, after: Versions) -> Finding:
    """The failure of the later side alone, with what the upgrade has to do with it."""
    text = f"{finding.title}\n{finding.message}"
    advice = _advice(text, before, after)
    known = f"The target runs with torch {before.torch}, and fails with torch {after.torch}."
    message = "\n".join(filter(None, (finding.message, f"{known} {advice}".strip())))
    return replace(finding, message=message)


def _advice(text: str, before: Versions, after: Versions) -> str:
    for pattern in _REMOVED:
        match = pattern.search(text)
        if match is not None:
            name = f"{match['owner']}.{match['name']}"
            return (
                f"`{name}` is not in torch {after.torch}. Replace it by a name that both releases have; the release "
                f"notes after {_release(before.torch)} list what was removed."
            )
    match = _ARGUMENT.search(text)
    if match is not None:
        return (
            f"`{match['function']}` takes no `{match['name']}` here. If it is a function of torch, leave the argument "
            f"out for torch {after.torch}; if of another package, upgrade that package together with torch."
        )
    return ""


def _release(version: str | None) -> str:
    return (version or "the earlier one").partition("+")[0]
