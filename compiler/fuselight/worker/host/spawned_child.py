"""A process for one run on systems without fork: started in advance, it prepares and waits for its job.

Invariant: it reads exactly one job from descriptor 0, then that descriptor is `/dev/null` as in a forked run.
"""

from __future__ import annotations

import os
from typing import Any

from fuselight.shared import wire
from fuselight.shared.codec import DecodeError
from fuselight.shared.protocol import RunRequest, from_json
from fuselight.worker.host import warm
from fuselight.worker.processes import process


def main(
    kind: str, descriptor: int, directory: str, started_with: frozenset[str], requests: int | None = None
) -> int:
    """Get ready, wait for a job, do it. Ends the process itself unless no job comes.

    `kind` is `--child`, with the pipe for progress as `descriptor` and the one that a live run reads as `requests`, or
    `--configuration`, one configuration of a benchmark, with the channel of its coordinator. Raises Unusable,
    DecodeError.
    """
    for inherited in (descriptor, *(() if requests is None else (requests,))):
        os.set_inheritable(inherited, False)  # noqa: FBT003 - the one form that os has
    process.open_line_buffered_output()
    try:
        warm.warm_up(forks=False)
    finally:  # also where no run can work: the host must be able to hand the job over, and hears of the exit
        data = _read_job()
        process.stop_watching()
    if data is None:
        return 1
    from fuselight.worker.child.state import ChildJob, kept_folder  # noqa: PLC0415 - loads torch

    request = from_json(data["request"])
    if not isinstance(request, RunRequest):
        raise DecodeError("a job needs a request that runs")
    if kind == "--child":
        from fuselight.worker.host import jobs  # noqa: PLC0415 - the same

        jobs.run(
            ChildJob(
                request, directory, started_with, progress=descriptor, fake=data["fake"], requests=requests
            )
        )
    else:
        from multiprocessing.connection import Connection  # noqa: PLC0415 - for a benchmark alone

        from fuselight.worker.timed import configuration  # noqa: PLC0415 - loads torch

        # It tells no progress of its own: the pipe for that is its coordinator's.
        job = ChildJob(request, directory, started_with, progress=-1, kept_texts=kept_folder(directory))
        configuration.main(job, data["name"], Connection(descriptor), os.getppid())
    return 1


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
