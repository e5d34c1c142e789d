"""What the tools of one server share: the host, the paths they may name, the calls that run, and the worker.

Invariant: no path outside of the host's folders reaches a use case, links resolved; user code runs only after the
host's permission was asked. No process outlives `close`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.protocol import Limits
from fuselight_server.agents.answers import RefusedCallError
from fuselight_server.agents.arguments import ArgumentError
from fuselight_server.agents.work_queue import WorkQueue
from fuselight_server.base.default_limits import CAPTURE_LIMITS, DefaultLimits
from fuselight_server.base.files import within
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.started_worker import KeptWorker

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Sequence

    from fuselight.shared.report import Report
    from fuselight_server.agents.host import AgentHost
    from fuselight_server.agents.protocol.toolbox import Caller


class AgentSession:
    """The state of one server."""

    def __init__(self, host: AgentHost, turn: asyncio.Lock | None = None) -> None:
        """`turn`: as in `WorkQueue`."""
        self.host = host
        self.work = WorkQueue(turn)
        self._worker = KeptWorker(host.idle_seconds)
        self._runners: dict[str, str] = {}
        """Of each file that a run has traced, the target's file that last ran it."""

    def note_runs(self, reports: Iterable[Report]) -> None:
        """Remember which files the targets of a check ran."""
        for report in reports:
            if report.inputs is not None:
                self._runners.update(dict.fromkeys(map(os.path.realpath, report.files), report.target.path))

    def runners(self, paths: Iterable[str]) -> list[str]:
        """The files whose targets ran one of these files in an earlier check, other than the files themselves."""
        real = {os.path.realpath(path): path for path in paths}
        known = (self._runners.get(path) for path in real)
        return list(dict.fromkeys(path for path in known if path and os.path.realpath(path) not in real))

    async def close(self) -> None:
        """End all work, then the worker."""
        try:
            await self.work.close()
        finally:
            await self._worker.close()

    def path(self, text: str) -> Path:
        """The absolute path that a client names. Raises ArgumentError for one outside of the folders."""
        if not text or "\0" in text:
            raise ArgumentError(f"`{text!r}` is no path")
        folders = [Path(os.path.abspath(folder)) for folder in self.host.folders()]  # noqa: PTH100 - resolve() would rename it
        named = Path(text)
        candidates = [named] if named.is_absolute() else [folder / named for folder in folders]
        path = next((path for path in candidates if path.exists()), candidates[0] if candidates else named)
        path = Path(os.path.abspath(path))  # noqa: PTH100 - the same
        real = os.path.realpath(path)
        if not any(within(real, os.path.realpath(folder)) for folder in folders):
            known = ", ".join(f"`{folder}`" for folder in folders) or "none"
            raise ArgumentError(f"`{text}` is outside of the folders of this server, which are {known}")
        return path

    def name(self, path: str) -> str:
        """A file as `path` finds it: relative to a folder of this server, else absolute."""
        folders = map(os.path.abspath, self.host.folders())
        names = (Path(os.path.relpath(path, folder)).as_posix() for folder in folders if within(path, folder))
        return next((name for name in names if str(self.path(name)) == path), path)

    def existing(self, text: str) -> Path:
        """As `path`, of a file or folder that exists or has an unsaved text. Raises ArgumentError."""
        path = self.path(text)
        if not path.exists() and str(path) not in self.host.texts():
            folders = ", ".join(f"`{folder}`" for folder in self.host.folders())
            raise ArgumentError(f"there is no file or folder `{text}`. Paths are relative to {folders}")
        return path

    def run_name(self, name: str) -> str:
        """The id of a kept benchmark, or the path of a file that has one. Raises ArgumentError."""
        return str(self.existing(name)) if name.endswith((".json", ".py")) else name

    async def permit(self, paths: Iterable[Path], caller: Caller) -> None:
        """Make sure that the code of these paths may run. Raises RefusedCallError."""
        for path in paths:
            why = await self.host.permission.refusal(path, caller)
            if why:
                raise RefusedCallError(why)

    def options(
        self,
        paths: Sequence[Path],
        targets: Sequence[str] = (),
        *,
        notices: list[str] | None = None,
        limits: DefaultLimits = CAPTURE_LIMITS,
        has_new_worker: bool = False,
    ) -> CommandOptions:
        """The options of a use case; `notices` gets what it notifies of.

        `has_new_worker`: for measurements, whether the use case gets a worker of its own, in which nothing has run.
        """
        return CommandOptions(
            paths=tuple(paths),
            targets=tuple(targets),
            python=self.host.python(paths[0]),
            settings=self.host.settings(paths[0]),
            limits=Limits(*limits),
            texts=dict(self.host.texts()),
            log=self.host.log,
            notify=(notices if notices is not None else []).append,
            kept_worker=None if has_new_worker else self._worker,
        )
