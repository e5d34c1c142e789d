"""A process for one run on systems without fork: started in advance, it prepares and waits for its job.

Invariant: it reads exactly one job from descriptor 0, then that descriptor is `/dev/null` as in a forked run.
"""

from __future__ import annotations

import os
from typing import Any

from fuselight.codec import DecodeError
from fuselight.protocol import PROTOCOL, Hello, RunRequest, from_json
from fuselight.worker import warm, wire


def main(progress: int, directory: str, started_with: frozenset[str]) -> int:
    """Get ready, wait for a job, do it. Ends the process itself unless no job comes."""
    os.set_inheritable(progress, False)  # noqa: FBT003 - the one form that os has
    try:
        ready = warm.warm_up(forks=False)
        hello = Hello(PROTOCOL, ready.versions, os.getpid(), forks=False)
    except warm.Unusable as unusable:
        hello = Hello(PROTOCOL, unusable.versions, os.getpid(), forks=False, problem=unusable.failure)
    data = _read_job()
    if data is None or hello.problem is not None:
        return 1
    from fuselight.worker.jobs import run  # noqa: PLC0415 - loads torch
    from fuselight.worker.state import ChildJob  # noqa: PLC0415 - the same

    request = request_from_json(data["request"])
    run(ChildJob(request, directory, started_with, progress=progress, fake=data["fake"]))
    return 1


def configuration(channel: int, directory: str, started_with: frozenset[str]) -> int:
    """Get ready, and be the process of one configuration of a benchmark; as `main`, it ends itself."""
    os.set_inheritable(channel, False)  # noqa: FBT003 - as above
    warm.warm_up(forks=False)
    data = _read_job()
    if data is None:
        return 1
    from multiprocessing.connection import Connection  # noqa: PLC0415 - for a benchmark alone

    from fuselight.worker import configuration as one  # noqa: PLC0415 - loads torch
    from fuselight.worker.state import ChildJob  # noqa: PLC0415 - the same

    # It tells no progress of its own: the pipe for that is its coordinator's.
    job = ChildJob(request_from_json(data["request"]), directory, started_with, progress=-1)
    one.main(job, data["name"], Connection(channel), os.getppid())
    return 1


def request_from_json(data: Any) -> RunRequest:
    """Read the request of a job. Raises DecodeError."""
    request = from_json(data)
    if not isinstance(request, RunRequest):
        raise DecodeError("a job needs a request that runs")
    return request


def _read_job() -> dict[str, Any] | None:
    reader = wire.FrameReader()
    payload = None
    while payload is None:
        data = os.read(0, 1 << 20)
        if not data:
            return None
        payload = next(reader.feed(data), None)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    loaded = wire.load(payload)
    return loaded if isinstance(loaded, dict) else None
