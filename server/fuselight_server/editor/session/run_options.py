"""What a run is asked with: the settings, texts and kept calls of its folder, and the request of its tier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.shared.protocol import AssembleRequest, GenerateRequest, Limits
from fuselight.shared.report import Tier
from fuselight_server.base.store import recorded_calls
from fuselight_server.editor.session.program_reports import last_program_report
from fuselight_server.editor.session.target_device import choose
from fuselight_server.execution.runs.planning import RunOptions, sizes

if TYPE_CHECKING:
    from fuselight.shared.protocol import RunRequest
    from fuselight_server.editor.session.state import Folder, State
    from fuselight_server.execution.runs.keys import Key


class RunContext:
    """Makes the options and requests of runs from the state of the session."""

    def __init__(self, state: State) -> None:
        self._state = state

    def options_for(
        self, path: str, folder: Folder | None = None, *, with_buffers: bool = False
    ) -> RunOptions:
        """Return the options that every run of a file has in a folder, in its own by default."""
        folder = folder or self._state.folder_of(path)
        settings = folder.settings
        others = tuple(
            other_folder.path
            for other_folder in self._state.folders.values()
            if other_folder.uri and other_folder is not folder
        )
        roots = (folder.path, *others)
        return RunOptions(
            roots=roots,
            limits=Limits(seconds=settings.limits.seconds, memory_mb=settings.limits.memory_mb),
            default_sizes=sizes(settings.inputs.default_sizes),
            dynamo_config=settings.dynamo.config,
            environment=settings.environment,
            overlays=self._state.overlays(roots, path) if with_buffers else {},
            recorded=recorded_calls(last_program_report(self._state, path), path),
            programs=self._state.programs_of(path),
        )

    def request_for(self, key: Key, request: RunRequest) -> RunRequest | None:
        """Turn the request of a target into that of the run of `key`; None where its kernel is gone."""
        if key.tier is not Tier.KERNELS:
            return request
        if not key.kernel:
            device = choose(self._state.folder_of(key.path).settings).device
            return request.of_kind(GenerateRequest, device=device)
        result = self._state.kernels.get(key.of_target)
        report = result.shown.report if result is not None else None
        if report is None or key.kernel not in report.texts:
            return None
        return request.of_kind(
            AssembleRequest,
            device=report.target_device,
            sources=(report.texts[key.kernel],),
            disassemble=key.disassemble,
        )
