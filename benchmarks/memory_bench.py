"""Memory: a snapshot of a million events against `pickle.loads`, and an estimate of 1.2 billion parameters.

Processor times are taken in one process, so that the ratios hold on any machine.
"""

from __future__ import annotations

import gc
import pickle
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.print_table import print_table
from benchmarks.table import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVENTS = 1_000_000
_STEP = 1_000
"""Events of a training step."""
_DEPTH = 20
"""Frames of a stack."""
_READ = 6.0
_FOLLOWED = 4.0
_GROWTH = 500.0
_WIDTH, _LAYERS = 2048, 24


def events(count: int) -> Iterator[dict[str, Any]]:
    """A recording of equal steps: each tensor is made by a line of its own, and freed in the same step."""
    frames = [
        {"name": f"function{index}", "filename": f"/workspace/app/part{index % 7}.py", "line": index}
        for index in range(_STEP + _DEPTH)
    ]
    stacks = [frames[index : index + _DEPTH] for index in range(_STEP)]
    for number in range(count):
        step, index = divmod(number, _STEP)
        tensor, part = divmod(index, 3)
        action = ("alloc", "free_requested", "free_completed")[part]
        yield {
            "action": action,
            "addr": 0x7F0000000000 + 4096 * tensor,
            "size": 512 * (1 + tensor % 7),
            "stream": 0,
            "time_us": 1_790_000_000_000_000 + number + step,
            "compile_context": "N/A",
            "user_metadata": "",
            "frames": stacks[tensor] if part == 0 else [],
        }


def snapshot_row() -> Row:
    """The reader, which executes nothing, against Python's, which does."""
    from fuselight_server.jobs.memory.files import read_memory  # noqa: PLC0415 - the part that is measured

    snapshot = {
        "segments": [],
        "device_traces": [list(events(_EVENTS))],
        "allocator_settings": {},
        "external_annotations": [],
    }
    data = pickle.dumps(snapshot)
    del snapshot
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "snapshot.pickle")
        path.write_bytes(data)
        gc.collect()
        start = time.process_time()
        pickle.loads(data)  # noqa: S301 - written above
        plain = time.process_time() - start
        start = time.process_time()
        read = read_memory(str(path))
        ours = time.process_time() - start
    if read.process is None:
        raise RuntimeError(read.note)
    detail = f"{ours:.1f} s against {plain:.1f} s, {len(data) / 1e6:.0f} MB"
    return Row("snapshot of 1,000,000 events / pickle.loads", ours / plain, _READ, detail=detail)


def estimate_rows() -> list[Row]:
    """A training step of 1.2 billion parameters: estimated, and made on fake tensors without being followed."""
    import torch  # noqa: PLC0415 - not for the snapshot

    from fuselight.adapters.torch_api import settings  # noqa: PLC0415 - the part that is measured
    from fuselight.adapters.virtual_gpu.replayed import ReplayBackend  # noqa: PLC0415 - the same
    from fuselight.capture.calls.calls import Prepared  # noqa: PLC0415 - the same
    from fuselight.shared.devices import find  # noqa: PLC0415 - the same
    from fuselight.worker.memory.forms import FormEstimator, eager_form  # noqa: PLC0415 - the same
    from fuselight.worker.memory.steps import Step, StepObserver  # noqa: PLC0415 - the same

    device = find("h100")
    before = _resident()
    with settings.fake_tensors(), eager_form(device):
        net = _decoder().train()
        x = torch.randn(4, 2048, _WIDTH, dtype=torch.bfloat16)
        step = Step.of(Prepared(net, (x,), {}), "adamw", training=True)
        start = time.process_time()
        form = FormEstimator(device, (__file__,), ReplayBackend(device)).peak(step, net, net)
        ours = time.process_time() - start
        start = time.process_time()
        for _ in range(2):
            step.make(net, StepObserver())
        plain = time.process_time() - start
    if form.peak is None:
        raise RuntimeError(form.why_not)
    detail = f"{ours:.2f} s against {plain:.2f} s, peak {form.peak.bytes / 1e9:.1f} GB"
    return [
        Row("estimate of 1.2 billion parameters / the same steps", ours / plain, _FOLLOWED, detail=detail),
        Row("memory of that estimate", (_resident() - before) / 1024, _GROWTH, unit="MiB"),
    ]


def _decoder() -> Any:
    """24 layers with attention and a feed-forward network each, in bfloat16."""
    import torch  # noqa: PLC0415 - not for the snapshot
    from torch import nn  # noqa: PLC0415 - the same

    layers = [
        nn.TransformerEncoderLayer(
            _WIDTH, 16, 4 * _WIDTH, dropout=0.0, batch_first=True, norm_first=True, dtype=torch.bfloat16
        )
        for _ in range(_LAYERS)
    ]
    return nn.Sequential(*layers)


def _resident() -> int:
    """The most memory that the process has had, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def rows() -> list[Row]:
    """The promises of docs/memory.md."""
    return [*estimate_rows(), snapshot_row()]


if __name__ == "__main__":
    sys.exit(print_table(rows()))
