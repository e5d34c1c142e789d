"""The folder of an upgrade (`--out`): the runs of each target, so that an interrupted comparison can be resumed.

Invariant: a file is replaced as a whole, holds one target, and reads as absent where it is damaged. Its name depends on
the text of the file, the target, its inputs, both releases and what was asked, and on nothing else.
"""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_data import parse_json, unpack
from fuselight.shared.foreign_files import make_folders, read_regular, write_whole
from fuselight.shared.report import Report
from fuselight_server.base.command_error import CommandError
from fuselight_server.upgrades.model import ComparedRuns, SideReports

_MAX_BYTES = 256 << 20
_MAX_TEXT = 1 << 30
"""Of a file once it is unpacked."""
_TARGETS = "targets"
_SCHEMA = 2
_FIELDS, _LISTS = ("capture", "kernels"), ("outputs", "measured")


@dataclass(frozen=True)
class RunsFolder:
    """Where the runs are kept."""

    folder: Path

    def prepare(self) -> None:
        """Make the folder. Raises CommandError."""
        try:
            make_folders(self.folder, (_TARGETS,))
        except OSError as error:
            raise CommandError(f"cannot write to `{self.folder}`: {error.strerror or error}") from None

    def load(self, key: str) -> ComparedRuns | None:
        """The runs with a key; None if there are none that can be read."""
        try:
            packed = read_regular(self._path(key), _MAX_BYTES, follow_link=False)
            data = parse_json(unpack(io.BytesIO(packed), _MAX_TEXT))
            if not isinstance(data, dict) or data.get("schema") != _SCHEMA:
                return None
            before, after = (_decoded_side(data[side]) for side in ("before", "after"))
            return ComparedRuns(str(data["path"]), str(data["name"]), before, after)
        except (OSError, ValueError, KeyError, TypeError, DecodeError, RecursionError):
            return None

    def save(self, key: str, runs: ComparedRuns) -> None:
        """Keep the runs of a target. Raises CommandError."""
        data = {
            "schema": _SCHEMA,
            "path": runs.path,
            "name": runs.name,
            "before": _encoded_side(runs.before),
            "after": _encoded_side(runs.after),
        }
        try:
            write_whole(self._path(key), gzip.compress(json.dumps(data).encode("utf-8", "surrogatepass"), 5))
        except OSError as error:
            raise CommandError(f"cannot write to `{self.folder}`: {error.strerror or error}") from None

    @property
    def _targets(self) -> Path:
        return self.folder / _TARGETS

    def _path(self, key: str) -> Path:
        return self._targets / f"{key}.json.gz"


def without_texts(report: Report) -> Report:
    """The report without the sources of kernels, which no comparison reads."""
    return replace(report, texts={})


def _encoded_side(side: SideReports) -> dict[str, Any]:
    reports = ((name, getattr(side, name)) for name in _FIELDS)
    kept = {name: encode(report) for name, report in reports if report is not None}
    return {**kept, **{name: [encode(report) for report in getattr(side, name)] for name in _LISTS}}


def _decoded_side(data: dict[str, Any]) -> SideReports:
    fields = {name: decode(Report, data[name]) for name in _FIELDS if name in data}
    lists = {name: tuple(decode(Report, report) for report in data.get(name, ())) for name in _LISTS}
    return SideReports(
        fields["capture"], fields.get("kernels"), outputs=lists["outputs"], measured=lists["measured"]
    )
