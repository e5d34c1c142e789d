"""The recorded jobs of several ranks (`tests/recordings/rank_jobs.py`), unpacked."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.support.trace_logs import RECORDINGS

ARCHIVE = RECORDINGS / "ranks" / "torch-2.13.tar.xz"
PROGRAMS = RECORDINGS / "rank_jobs.py"
SOURCE = PROGRAMS.read_text(encoding="utf-8").splitlines()


def unpack(folder: Path, *names: str) -> Path:
    """Write the logs of the named jobs, or of all, into a folder of each."""
    with tarfile.open(ARCHIVE) as archive:
        wanted = [member for member in archive if not names or member.name.partition("/")[0] in names]
        archive.extractall(folder, wanted, filter="data")
    return folder
