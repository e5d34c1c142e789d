"""How a report is read: the thresholds of a folder, and the texts that ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from fuselight_server.base.files import disk_text, split_text
from fuselight_server.base.settings import Settings
from fuselight_server.explain.findings import Thresholds


def thresholds_of(settings: Settings) -> Thresholds:
    """Return from where on something is a finding."""
    return Thresholds(
        guard_count=settings.guards.warn_count,
        guard_us=settings.guards.warn_microseconds,
        kernel_share=settings.kernels.advise_from_percent / 100,
        repeats=settings.kernels.advise_repeats,
    )


def line_reader(overlays: Mapping[str, str]) -> Callable[[str, int], str | None]:
    """Read lines of files as a run saw them: the unsaved buffers that went with it, else the disk."""
    kept: dict[str, list[str]] = {}

    def read_line(path: str, line: int) -> str | None:
        lines = kept.get(path)
        if lines is None:
            text = overlays.get(path, disk_text(path))
            lines = kept[path] = split_text(text or "")
        return lines[line - 1] if 0 < line <= len(lines) else None

    return read_line


def modified(path: str) -> float:
    """Return when a file was written, in seconds since the epoch; 0 where it cannot be read."""
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0
