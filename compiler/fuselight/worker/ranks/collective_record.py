"""The collectives of one rank, each with the user's line that it comes from.

Invariant: recording never raises into the program, and what is kept has a bound.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType

from fuselight.adapters.torch_api.distributed.collectives import CollectiveCall
from fuselight.adapters.torch_api.distributed.graph_nodes import NodeRuns
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Collective, Stack, is_user_file

MAX = 2_000
"""Collectives that are kept of a rank; all are counted."""
_MAX_FRAMES = 6
_BACKWARD = os.path.join("torch", "autograd", "graph.py")
_FSDP = os.path.join("torch", "distributed", "fsdp", "")
_C10D = os.path.join("torch", "distributed", "distributed_c10d.py")
_DYNAMO = os.path.join("torch", "_dynamo", "")
_POINT_TO_POINT = frozenset({"send", "recv"})
_DDP = os.path.join("torch", "nn", "parallel", "distributed.py")


@dataclass
class CollectiveRecord:
    """What a rank called, in order."""

    roots: Sequence[str]
    nodes: NodeRuns = field(default_factory=NodeRuns)
    collectives: list[Collective] = field(default_factory=list)
    count: int = 0

    def record_call(self, call: CollectiveCall) -> None:
        """Record one call."""
        self.count += 1
        if len(self.collectives) < MAX:
            self.collectives.append(self._with_place(call))

    def _with_place(self, call: CollectiveCall) -> Collective:
        running = self.nodes.current
        python = tuple(stacks.frames_from(sys._getframe(1)))  # noqa: SLF001 - the documented way to walk the caller's stack
        stack = self._users(stacks.of_node(running.node)) if running is not None else ()
        is_backward = any(_is_file(frame, _BACKWARD) for frame in python)
        source = "" if running is not None and not running.is_backward else _source(python, call)
        return Collective(
            kind=call.kind,
            group=call.group,
            dtype=call.dtype,
            shapes=call.shapes,
            bytes=call.bytes,
            stack=stack or self._users(stacks.from_frames(python)),
            in_graph=running is not None,
            is_backward=is_backward,
            source=source,
            is_async=_is_asynchronous(python, source, call, is_backward=is_backward),
            peer=call.peer,
            reduction=call.reduction,
            group_name=call.group_name,
            tag=call.tag,
        )

    def _users(self, stack: Stack) -> Stack:
        """The nearest frames of the user's files."""
        return tuple(place for place in stack if is_user_file(place.path, self.roots))[-_MAX_FRAMES:]


def _is_file(frame: FrameType, part: str) -> bool:
    return part in frame.f_code.co_filename


def _source(python: Sequence[FrameType], call: CollectiveCall) -> str:
    """Whose hook calls it."""
    if any(_is_file(frame, _FSDP) for frame in python):
        return "fsdp"
    innermost = _innermost(python)
    if innermost is None:
        return ""
    # The reducer of DDP is C++: the autograd engine calls it, and it reduces a flat bucket.
    is_bucket = call.kind == "all_reduce" and _is_flat(call) and _is_file(innermost, _BACKWARD)
    in_ddp = any(_is_file(frame, _DDP) and frame.f_code.co_name == "__init__" for frame in python)
    return "ddp" if is_bucket or in_ddp or _is_file(innermost, _DDP) else ""


def _innermost(python: Sequence[FrameType]) -> FrameType | None:
    """The frame that calls the operator: below it are ours, and Dynamo's that keep it out of them."""
    return next(
        (
            frame
            for frame in python
            if not stacks.is_ours(frame.f_code.co_filename) and not _is_file(frame, _DYNAMO)
        ),
        None,
    )


def _is_asynchronous(
    python: Sequence[FrameType], source: str, call: CollectiveCall, *, is_backward: bool
) -> bool:
    """Whether the caller continues before it ends: what torch.distributed was asked for, and the buckets of DDP.

    Functional collectives are waited for where their result is used, which is not known.
    """
    if call.kind in _POINT_TO_POINT:  # `recv` calls `irecv`, and waits
        return not any(frame.f_code.co_name == call.kind and _is_file(frame, _C10D) for frame in python)
    if not call.is_async:
        return False
    if source == "ddp":
        return is_backward
    innermost = _innermost(python)
    return innermost is not None and _is_file(innermost, _C10D)


def _is_flat(call: CollectiveCall) -> bool:
    return len(call.shapes) == 1 and len(call.shapes[0]) == 1
