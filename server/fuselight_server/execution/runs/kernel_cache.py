"""Reports of tier kernels, kept in the workspace: code that has not changed is not generated again.

Invariant: a hit means the same request, versions and variables, the same code of Fuselight's own, the same text of
every workspace file that ran, and unchanged library files. A folder that cannot be written or a damaged file is a miss
and is logged. The size is bounded: the oldest entries are removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.codec import encode
from fuselight.shared.protocol import Answer, GenerateRequest, Progress, Refused, RunRequest
from fuselight.shared.report import VARIABLES, Report, Versions, data_key
from fuselight.shared.version import code_key
from fuselight_server.base.formatting import format_target
from fuselight_server.base.store import Store
from fuselight_server.execution.runs.kept_answers import clear_answers
from fuselight_server.execution.runs.stored_reports import UNREADABLE, StoredReports, stored_captures

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight_server.execution.runs.queue import OwnedWorker


_KEPT = 64
_MAX_BYTES = 256 * 1024 * 1024
_CHANGING = ("id", "generation", "overlays", "limits", "preload")
"""Fields of a request that decide nothing about what is generated; the text of buffers is compared file by file."""


@dataclass(frozen=True)
class CacheLookup:
    """What the cache had: a report, or why there is none."""

    report: Report | None
    why: str
    damaged: bool = False
    """Whether a report was kept, but could not be read."""


@dataclass(frozen=True)
class KernelCache:
    """The kernels that are kept in a store. Nothing is created before something is kept."""

    store: Store

    @property
    def folder(self) -> Path:
        """Where their reports lie."""
        return self.store.folder / "kernels"

    def find(self, request: RunRequest, versions: Versions) -> CacheLookup:
        """The report of an equal request, with the generation of this one."""
        path = self._reports.path(self._name(request, versions))
        try:
            stored = self._reports.read(path)
        except (FileNotFoundError, NotADirectoryError):
            return CacheLookup(None, "not generated before with these inputs, device and versions")
        except UNREADABLE as error:
            return CacheLookup(None, f"what was kept cannot be read: {error}"[:300], damaged=True)
        changed = stored.changed_file(request.overlays)
        if changed is not None:
            return CacheLookup(None, f"{Path(changed).name} has changed")
        with contextlib.suppress(OSError):
            path.touch()
        return CacheLookup(replace(stored.report, generation=request.generation), "unchanged")

    def keep_report(self, request: RunRequest, report: Report) -> str | None:
        """Keep a report in which nothing failed. Returns why that is not possible, None where it is."""
        if report.failures or not report.files:
            return None
        try:
            self.store.prepare()  # closes its folder to others
            self._reports.keep_report(self._name(request, report.versions), report)
        except OSError as error:
            return f"kernels cannot be kept in {self.folder}: {error.strerror or error}"
        return None

    def clear(self) -> None:
        """Remove everything that is kept."""
        self._reports.clear()

    @property
    def _reports(self) -> StoredReports:
        return StoredReports(self.folder, _KEPT, _MAX_BYTES)

    def _name(self, request: RunRequest, versions: Versions) -> str:
        asked = {name: value for name, value in encode(request).items() if name not in _CHANGING}
        if request.inputs.main_line is None:
            asked.pop("automatic", None)  # it changes nothing but how far a `__main__` block runs
        whole = json.dumps(
            [code_key(), _variables(), type(request).__name__, asked, encode(versions)], sort_keys=True
        )
        return data_key(whole.encode("utf-8", "surrogatepass"))


def _variables() -> dict[str, str]:
    """Return what the worker inherits that torch and its compilers read, but for where they keep things."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(VARIABLES) and not name.endswith(("_DIR", "_HOME"))
    }


async def run_cached(
    worker: OwnedWorker,
    log: Callable[[str], None],
    request: RunRequest,
    on_progress: Callable[[Progress], None],
    on_partial: Callable[[Report], None],
) -> Answer | Refused:
    """Return the kernels that are kept, or run the request in `worker` and keep its kernels."""
    if not isinstance(request, GenerateRequest):
        return await worker.run(request, on_progress, on_partial)
    cache = KernelCache(Store.of(Path(request.target.path)))
    if worker.hello is not None:
        lookup = await asyncio.to_thread(cache.find, request, worker.hello.versions)
        name = format_target(request.target.name)
        if lookup.report is not None:
            log(f"kernels of {name}: {lookup.why}, from the cache")
            return Answer(request.id, lookup.report)
        if lookup.damaged:
            log(f"kernels of {name}: {lookup.why}; they are generated again")
    outcome = await worker.run(request, on_progress, on_partial)
    if isinstance(outcome, Answer):
        problem = await asyncio.to_thread(cache.keep_report, request, outcome.report)
        if problem is not None:
            log(problem)
    return outcome


def forget(store: Store) -> None:
    """Remove the kernels, captures and answers that are kept in a store."""
    clear_answers(store)
    KernelCache(store).clear()
    stored_captures(store).clear()
