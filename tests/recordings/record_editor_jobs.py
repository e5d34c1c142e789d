"""Record two jobs of four ranks that run `editor/train.py`, for the tests and the picture of the editor.

    python tests/recordings/record_editor_jobs.py

writes `editor/monday/*.log.gz` and `editor/tuesday/*.log.gz` beside itself, as `record_jobs.py` does. On Tuesday the
program prints on its first rank, which breaks a graph there.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.recordings import record_jobs as recorder
else:
    import record_jobs as recorder

RANKS = 4


def main() -> None:
    sys.path.insert(0, str(recorder.HERE / "editor"))
    program = recorder.import_program("train")
    for name, logs_shapes in (("monday", False), ("tuesday", True)):
        recorder.record(
            _named(name, program, logs_shapes=logs_shapes), RANKS, recorder.HERE / "editor" / name
        )
    shutil.rmtree(recorder.FOLDER)


def _named(name: str, program: Any, *, logs_shapes: bool) -> Callable[[], None]:
    """The program as a job of this name."""

    def job() -> None:
        program.LOGS_SHAPES = logs_shapes
        program.train()

    job.__name__ = name
    return job


if __name__ == "__main__":
    main()
