"""Snapshots as torch's caching allocator writes them, made without a GPU.

`Allocator` counts blocks as the allocator does, in segments of their own; the keys of the dicts are those of a release.
"""

from __future__ import annotations

import pickle
from typing import Any

APP = "/workspace/app/train.py"
SITE = "/opt/venv/lib/python3.11/site-packages"
GENERATED = "/tmp/torchinductor_user/kx/ckx" + "a2b3c4d5e6f7" * 4 + ".py"  # noqa: S108 - a text
NEWEST = "2.15"
START = 1_790_000_000_000_000


def frame(line: int, function: str = "forward", path: str = APP) -> dict[str, Any]:
    return {"name": function, "filename": path, "line": line}


OPTIMIZER = [
    frame(412, "_multi_tensor_adam", f"{SITE}/torch/optim/adam.py"),
    frame(520, "wrapper", f"{SITE}/torch/optim/optimizer.py"),
]
BACKWARD = [frame(67, "_make_grads", f"{SITE}/torch/autograd/__init__.py")]


class Allocator:
    """One device."""

    def __init__(self, release: str = NEWEST) -> None:
        self.release = release
        self.trace: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []
        self._frames: dict[tuple[str, int, str], dict[str, Any]] = {}
        self._next = 0x7F0000000000
        self._time = START

    def existing(self, size: int, frames: list[dict[str, Any]] | None = None) -> int:
        """A block that was there before the recording."""
        address = self._segment(size)
        self._fill(address, size, frames or [])
        return address

    def alloc(self, size: int, frames: list[dict[str, Any]]) -> int:
        """A tensor of `size` bytes; returns its address."""
        block = -(-size // 512) * 512
        address = self._segment(block)
        self._event("segment_alloc", addr=address, size=block, frames=frames)
        self._event("alloc", addr=address, size=size, frames=frames)
        self._fill(address, size, frames)
        return address

    def free(self, address: int, frames: list[dict[str, Any]] | None = None) -> None:
        """The end of a tensor; its segment stays."""
        block = next(
            block for segment in self.segments for block in segment["blocks"] if block["address"] == address
        )
        for action in ("free_requested", "free_completed"):
            self._event(action, addr=address, size=block["requested_size"], frames=frames or [])
        block["state"] = "inactive"

    def fail(self, size: int, frames: list[dict[str, Any]], device_free: int = 0) -> None:
        """An allocation that fails."""
        self._event("oom", device_free=device_free, size=size, frames=frames)

    def snapshot(self) -> dict[str, Any]:
        """As `torch.cuda.memory._snapshot` returns it."""
        data: dict[str, Any] = {"segments": self.segments, "device_traces": [self.trace]}
        if self.release != "2.0":
            data["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1}
            data["external_annotations"] = []
        return data

    def pickled(self, protocol: int = pickle.DEFAULT_PROTOCOL) -> bytes:
        """As `_dump_snapshot` writes it."""
        return pickle.dumps(self.snapshot(), protocol)

    def _event(self, action: str, *, frames: list[dict[str, Any]], **fields: int) -> None:
        self._time += 100
        event: dict[str, Any] = {"action": action, **fields, "stream": 0, "time_us": self._time}
        if self.release >= "2.11":
            event |= {"compile_context": "N/A", "user_metadata": ""}
        if self.release >= "2.13":
            event["pool_id"] = (0, 0)
        event["frames"] = self._shared(frames)
        self.trace.append(event)

    def _segment(self, size: int) -> int:
        size = -(-size // 512) * 512
        address = self._next
        self._next += -(-size // (1 << 21)) << 21
        self.segments.append(
            {
                "device": 0,
                "segment_pool_id": (0, 0),
                "address": address,
                "total_size": size,
                "allocated_size": size,
                "active_size": size,
                "requested_size": size,
                "stream": 0,
                "segment_type": "large" if size > 1 << 20 else "small",
                "is_expandable": False,
                "frames": [],
                "blocks": [],
            }
        )
        return address

    def _fill(self, address: int, size: int, frames: list[dict[str, Any]]) -> None:
        segment = self.segments[-1]
        segment["blocks"].append(
            {
                "address": address,
                "size": segment["total_size"],
                "requested_size": size,
                "state": "active_allocated",
                "frames": self._shared(frames),
            }
        )

    def _shared(self, frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The same dict for the same frame, as torch has it."""
        return [
            self._frames.setdefault((item["filename"], item["line"], item["name"]), item) for item in frames
        ]
