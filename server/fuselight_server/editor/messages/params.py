"""What a client asks the server for with the requests and notifications that Fuselight adds to LSP.

They are typed, because pygls turns untyped ones into namedtuples that lose keys. After a change, run
`scripts/message_types.py`, which writes the same types for the extension.
"""

from __future__ import annotations

import attrs


@attrs.define
class ReportTreeParams:
    """Which file's reports; None for all."""

    uri: str | None = None


@attrs.define
class FolderParams:
    """URI of a folder, or of a file in it; None for the first folder, or for all."""

    folder: str | None = None


@attrs.define
class TargetAtParams:
    """A 0-based line of a file."""

    uri: str
    line: int


@attrs.define
class KernelsAtParams:
    """Lines of a file, 0-based, both included; without `line` all of it. `target` where it is known whose kernels."""

    uri: str
    line: int | None = None
    last: int | None = None
    target: str | None = None


@attrs.define
class KernelDocumentParams:
    """A text of a kernel: the target's file and name, and what `fuselight/kernelsAt` calls it."""

    uri: str
    target: str
    kernel: str
    form: str


@attrs.define
class KernelLinesParams:
    """Which file."""

    uri: str


@attrs.define
class GraphsParams:
    """Which target of which file, empty for the file's `__main__` block; None for the only one that there is."""

    uri: str
    target: str | None = None


@attrs.define
class MeasuredParams:
    """Which target of which file, and which two of its runs to compare: ids, None for the newest and for none.

    `with` may be the path of an export as well.
    """

    uri: str
    target: str
    run: str | None = None
    with_: str | None = None


@attrs.define
class MeasuredExportParams(MeasuredParams):
    """As `MeasuredParams`, and the format: `json`, `csv` or `html`."""

    format: str = attrs.field(kw_only=True)


@attrs.define
class TunedParams:
    """Which target of which file."""

    uri: str
    target: str


@attrs.define
class OpenJobParams:
    """URIs of logs or folders with logs, and of folders with the job's source besides those of the workspace."""

    paths: list[str]
    source: list[str] = attrs.field(factory=list)
    follow: bool = False
    """Whether to go on while the logs grow, until it is stopped: the answer comes only then."""


@attrs.define
class CloseJobParams:
    """Which job, by the id that `fuselight/openJob` answers; None for all."""

    job: str | None = None


@attrs.define
class JobParams:
    """Which job, and the job to compare it with; None for none."""

    job: str
    against: str | None = None


@attrs.define
class TrustParams:
    """Whether the workspace is trusted now."""

    trusted: bool
