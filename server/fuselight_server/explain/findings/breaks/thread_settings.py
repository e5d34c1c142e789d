"""Remedies that name a setting of torch which the program has made on another thread than the one that compiled.

Invariant: a remedy is replaced only where the setting differs from torch's default on the main thread and the facts
come from another thread, which has the default: torch keeps settings for each thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fuselight_server.base.remedies import FindingRemedy
from fuselight_server.explain.findings.common.context import Context

_SETTING = re.compile(r"torch\._dynamo\.config\.(\w+)")


def for_thread(
    context: Context, remedies: Iterable[FindingRemedy], *, in_thread: bool
) -> tuple[FindingRemedy, ...]:
    """The remedies, with what to do about a setting that only the main thread has."""
    return tuple(dict.fromkeys(_for_thread(context, remedy) if in_thread else remedy for remedy in remedies))


def _for_thread(context: Context, remedy: FindingRemedy) -> FindingRemedy:
    match = _SETTING.search(remedy.text)
    value = context.report.environment.config.get(match[1]) if match else None
    if match is None or value is None:
        return remedy
    return FindingRemedy(
        f"{match[0]} = {value} was set on the main thread only: set it in the thread that compiles too, as in "
        "ThreadPoolExecutor(initializer=...)"
    )
