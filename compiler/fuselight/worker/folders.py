"""The folder of one host, for the files of its runs.

Invariant: it is closed to others (mode 0700) and named after its process, so that one whose process is gone can go.
"""

from __future__ import annotations

import os
import shutil
import tempfile


def private_folder() -> str:
    """Make this host's folder (mode 0700), and delete those of hosts that were killed."""
    prefix = f"fuselight-worker-{os.getuid()}-"
    parent = tempfile.gettempdir()
    for name in os.listdir(parent):
        pid = name.removeprefix(prefix).partition("-")[0]
        if name.startswith(prefix) and pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
