"""Objects that ranks send each other: they come from the run of the rank that sends them, through files.

Invariant: a rank gets the object that the other rank's run sent at the same place in the order of the process group, or
a FakeWorldError that says that there is none. Lists of a broadcast whose rank does not run stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuselight.adapters.torch_api.distributed.world_error import FakeWorldError
from fuselight.adapters.torch_api.patching import wrapped

ENDED = "ended"
"""Name of the file that says that a rank has ended, after its number and a dash."""
_STARTED = "started"
_LOOKS = 0.02
_LONGEST = 20.0
"""Seconds that a rank waits for an object: two ranks may wait for each other."""


@dataclass
class ObjectExchange:
    """Where the ranks of one run leave their objects."""

    folder: Path
    rank: int
    numbers: Counter[str] = field(default_factory=Counter)

    def start(self) -> None:
        """Have other ranks wait for the objects of this one."""
        (self.folder / f"{self.rank}-{_STARTED}").touch()

    def next_key(self, group: Any) -> str:
        """The name of the next exchange in a process group."""
        name = str(getattr(group, "group_name", "")).replace(os.sep, "_")
        self.numbers[name] += 1
        return f"{name}-{self.numbers[name]}"

    def give(self, key: str, objects: Any) -> None:
        """Leave objects for the other ranks."""
        path = self.folder / f"{self.rank}-{key}"
        with open(f"{path}.new", "wb") as file:
            pickle.dump(objects, file)
        os.replace(f"{path}.new", path)

    def take_objects(self, key: str, source: int) -> Any:
        """The objects that another rank left, waiting for them while it runs. Raises LookupError if there are none."""
        path, until = self.folder / f"{source}-{key}", time.monotonic() + _LONGEST
        started = source != self.rank and (self.folder / f"{source}-{_STARTED}").exists()
        while started and time.monotonic() < until:
            has_ended = (self.folder / f"{source}-{ENDED}").exists()
            if path.exists():
                with open(path, "rb") as file:
                    return pickle.load(file)  # noqa: S301 - the same user's program wrote it, in this run
            if has_ended:
                break
            time.sleep(_LOOKS)
        raise LookupError(key)


@contextlib.contextmanager
def exchanged(exchange: ObjectExchange) -> Iterator[None]:
    """Within the block, the functions of torch.distributed for lists of objects use the exchange."""
    import torch.distributed as dist  # noqa: PLC0415 - only in a world

    functions: dict[str, Callable[..., Any]] = {
        "broadcast_object_list": _broadcast,
        "scatter_object_list": _scatter,
        "send_object_list": _send,
        "recv_object_list": _receive,
    }
    with contextlib.ExitStack() as stack:
        for owner in (dist, dist.distributed_c10d):
            for name, function in functions.items():
                if hasattr(owner, name):
                    stack.enter_context(wrapped(owner, name, _bound(function, exchange)))
        yield


def _bound(function: Callable[..., Any], exchange: ObjectExchange) -> Callable[..., Any]:
    return lambda _real, *args, **named: function(exchange, *args, **named)


def _source(rank: int | None, group: Any, group_rank: int | None) -> int:
    """The rank of the world that sends."""
    import torch.distributed as dist  # noqa: PLC0415 - only in a world

    if group_rank is not None:
        owner: Any = group or dist.group.WORLD
        return dist.get_global_rank(owner, group_rank)
    return rank or 0


def _broadcast(  # noqa: PLR0917 - as torch's
    exchange: ObjectExchange,
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    **_more: Any,
) -> None:
    import torch.distributed as dist  # noqa: PLC0415 - only in a world

    del device
    source, key = _source(src, group, group_src), exchange.next_key(group)
    dist.barrier(group=group)  # what the collectives of a rank show
    if source == exchange.rank:
        exchange.give(key, list(object_list))
        return
    with contextlib.suppress(LookupError):
        object_list[:] = exchange.take_objects(key, source)


def _scatter(  # noqa: PLR0917 - as torch's
    exchange: ObjectExchange,
    output: list[Any],
    objects: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    import torch.distributed as dist  # noqa: PLC0415 - only in a world

    source, key = _source(src, group, group_src), exchange.next_key(group)
    dist.barrier(group=group)
    if source == exchange.rank:
        exchange.give(key, objects)
    else:
        objects = _taken(exchange, key, source)
    output[0] = (objects or [None])[dist.get_rank(group)]


def _send(  # noqa: PLR0917 - as torch's
    exchange: ObjectExchange,
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    **_more: Any,
) -> None:
    del device
    target = _source(dst, group, group_dst)
    exchange.give(_pair(exchange, exchange.rank, target), list(object_list))


def _receive(  # noqa: PLR0917 - as torch's
    exchange: ObjectExchange,
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    **_more: Any,
) -> int:
    del device
    source = _source(src, group, group_src)
    object_list[:] = _taken(exchange, _pair(exchange, source, exchange.rank), source)
    return source


def _pair(exchange: ObjectExchange, source: int, target: int) -> str:
    """The name of the next exchange from one rank to another."""
    name = f"from-{source}-to-{target}"
    exchange.numbers[name] += 1
    return f"{name}-{exchange.numbers[name]}"


def _taken(exchange: ObjectExchange, key: str, source: int) -> Any:
    try:
        return exchange.take_objects(key, source)
    except LookupError:
        raise FakeWorldError(
            f"rank {exchange.rank} receives an object here that rank {source} has not sent in this run",
            "ranks run two at a time, from the first on: receive objects from ranks that run earlier, or from the next",
        ) from None
