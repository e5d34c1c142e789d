"""Makes this process one rank of a world that has no other process: every backend that the program names is `fake`.

Invariant: the program sees the environment and the functions that a launcher gives a rank, and opens no connection.
What the block has replaced is as before at its end.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fuselight.adapters.torch_api.distributed import collectives
from fuselight.adapters.torch_api.distributed.objects import ObjectExchange, exchanged
from fuselight.adapters.torch_api.distributed.world_error import FakeWorldError
from fuselight.adapters.torch_api.patching import wrapped

_FAKE = "fake"
_ADDRESS, _PORT = "localhost", "29500"


def unavailable() -> str | None:
    """Why there can be no such world; None if there can."""
    if not torch.distributed.is_available():
        return "this torch was built without `torch.distributed`"
    try:
        importlib.import_module("torch.testing._internal.distributed.fake_pg")
    except ImportError as error:
        return f"this torch has no `fake` process group: {error}"
    return None


@contextlib.contextmanager
def fake_world(
    rank: int, size: int, listener: collectives.Listener, exchange: ObjectExchange
) -> Iterator[None]:
    """Within the block, this process is `rank` of `size`; `listener` hears of each collective."""
    blocks = (
        _environment(rank, size),
        _groups(rank, size),
        _devices(),
        _spawn(rank, size),
        collectives.recorded(listener),
        exchanged(exchange),
    )
    with contextlib.ExitStack() as stack:
        for block in blocks:
            stack.enter_context(block)
        yield


def start(rank: int, size: int) -> None:
    """Initialize the world, for code that expects a caller to have done that."""
    import torch.distributed as dist  # noqa: PLC0415 - only in a world

    dist.init_process_group(_FAKE, rank=rank, world_size=size)


def end() -> None:
    """Destroy the process groups, if there are any."""
    import torch.distributed as dist  # noqa: PLC0415 - only in a world

    if dist.is_initialized():
        dist.destroy_process_group()


@contextlib.contextmanager
def _environment(rank: int, size: int) -> Iterator[None]:
    """The variables that torchrun sets, for a job on one machine."""
    variables = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "ROLE_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "ROLE_WORLD_SIZE": str(size),
        "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": _ADDRESS,
        "MASTER_PORT": _PORT,
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _check_world(rank: int, size: int, asked_rank: Any, asked_size: Any) -> None:
    """Raises FakeWorldError where the program passes another size or rank."""
    if isinstance(asked_size, int) and asked_size not in {-1, size}:
        raise FakeWorldError(
            f"the program starts a world of `{asked_size}` ranks, and this run has `{size}`",
            f"run it with --ranks {asked_size}, or take the number from the environment variable WORLD_SIZE",
        )
    if isinstance(asked_rank, int) and asked_rank not in {-1, rank}:
        raise FakeWorldError(
            f"the program is rank `{rank}` in this run, and starts as rank `{asked_rank}`",
            "take the rank from the environment variable RANK, or from the argument that mp.spawn passes",
        )


@contextlib.contextmanager
def _groups(rank: int, size: int) -> Iterator[None]:
    """Have every process group be a fake one, without a store on a network."""
    import torch.distributed as dist  # noqa: PLC0415 - only in a world

    fake: Any = importlib.import_module("torch.testing._internal.distributed.fake_pg")
    c10d: Any = dist.distributed_c10d
    started: list[str] = []
    signature = inspect.signature(dist.init_process_group)

    def start_world(real: Callable[..., Any], *args: Any, **named: Any) -> None:
        asked = signature.bind(*args, **named).arguments
        _check_world(rank, size, asked.get("rank"), asked.get("world_size"))
        if started and dist.is_initialized():
            return
        name = str(asked.get("group_name", ""))
        real(_FAKE, world_size=size, rank=rank, store=fake.FakeStore(), group_name=name)
        started.extend(["by us"] * (asked.get("backend") == _FAKE))

    def helper(real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        arguments = list(args)
        if len(arguments) > _BACKEND:
            arguments[_BACKEND] = _FAKE
        elif "backend" in named:
            named["backend"] = _FAKE
        for name in ("backend_options", "pg_options", "device_id"):
            named.pop(name, None)
        return real(*arguments, **named)

    with contextlib.ExitStack() as stack:
        for owner in _holders("init_process_group", dist.init_process_group):
            stack.enter_context(wrapped(owner, "init_process_group", start_world))
        for owner in (dist, c10d):  # of a backend that is not here
            stack.enter_context(wrapped(owner, "monitored_barrier", _barrier))
        if hasattr(c10d, "_new_process_group_helper"):
            stack.enter_context(wrapped(c10d, "_new_process_group_helper", helper))
        yield


def _barrier(_real: Callable[..., Any], group: Any = None, *_args: Any, **_named: Any) -> None:
    """A barrier that any backend has."""
    import torch.distributed as dist  # noqa: PLC0415 - only in a world

    dist.barrier(group=group)


_BACKEND = 3
"""Index of the backend in the arguments of `_new_process_group_helper`."""


def _holders(name: str, function: Any) -> list[Any]:
    """The modules of torch.distributed that have a function by its name."""
    importlib.import_module("torch.distributed.device_mesh")
    return [
        module
        for path, module in list(sys.modules.items())
        if path.startswith("torch.distributed") and vars(module).get(name) is function
    ]


@contextlib.contextmanager
def _devices() -> Iterator[None]:
    """Have meshes of GPUs be meshes of CPUs, whether this machine has GPUs or not."""
    mesh: Any = importlib.import_module("torch.distributed.device_mesh")

    def init(real: Callable[..., Any], device_type: Any, *args: Any, **named: Any) -> Any:
        del device_type
        return real("cpu", *args, **named)

    def build(real: Callable[..., Any], self: Any, device_type: Any, *args: Any, **named: Any) -> None:
        del device_type
        real(self, "cpu", *args, **named)

    def wrap(real: Callable[..., Any], self: Any, module: Any, *args: Any, **named: Any) -> None:
        if args:
            args = (None, None, *args[2:])
        for name in ("device_ids", "output_device"):
            named.pop(name, None)
        real(self, module, *args, **named)

    parallel: Any = importlib.import_module("torch.nn.parallel.distributed")
    with contextlib.ExitStack() as stack:
        for owner in _holders("init_device_mesh", mesh.init_device_mesh):
            stack.enter_context(wrapped(owner, "init_device_mesh", init))
        stack.enter_context(wrapped(parallel.DistributedDataParallel, "__init__", wrap))
        stack.enter_context(wrapped(mesh.DeviceMesh, "__init__", build))
        yield


@contextlib.contextmanager
def _spawn(rank: int, size: int) -> Iterator[None]:
    """Have `mp.spawn` call its function for this rank alone, in this process."""
    multiprocessing: Any = importlib.import_module("torch.multiprocessing")
    spawn: Any = importlib.import_module("torch.multiprocessing.spawn")

    def run(
        _real: Callable[..., Any], fn: Any, args: Any = (), nprocs: int = 1, *_more: Any, **_named: Any
    ) -> None:
        _check_world(rank, size, -1, nprocs)
        fn(rank, *args)

    with contextlib.ExitStack() as stack:
        for owner in (multiprocessing, spawn):
            if hasattr(owner, "spawn"):
                stack.enter_context(wrapped(owner, "spawn", run))
        yield
