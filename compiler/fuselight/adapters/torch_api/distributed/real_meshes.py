"""Device meshes of ranks on fake tensors: the numbers of the ranks in a mesh are read, so these tensors are real.

Invariant: outside of the block nothing is changed, and a torch without one of the names keeps its own behavior.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from torch._subclasses import fake_tensor

from fuselight.adapters.torch_api.patching import patched

_METHODS = (
    *("__init__", "__getitem__", "__hash__", "__eq__", "get_coordinate", "_flatten", "_unflatten"),
    *("_get_all_submeshes", "_create_sub_mesh", "_create_flatten_mesh"),
)


@contextlib.contextmanager
def real_meshes() -> Iterator[None]:
    """Inside, what a DeviceMesh computes of its ranks is computed on real tensors."""
    import torch.distributed as dist  # noqa: PLC0415 - only in a world

    device_mesh: Any = dist.device_mesh
    kind: Any = getattr(device_mesh, "DeviceMesh", None)
    with contextlib.ExitStack() as stack:
        for name in _METHODS:
            method = vars(kind).get(name)
            if callable(method):
                stack.enter_context(patched(kind, name, _without_fakes(method)))
        for owner in (dist, device_mesh):
            start = vars(owner).get("init_device_mesh")
            if start is not None:
                stack.enter_context(patched(owner, "init_device_mesh", _without_fakes(start)))
        ranks = vars(kind).get("mesh")
        if isinstance(ranks, property) and ranks.fget is not None:
            stack.enter_context(patched(kind, "mesh", property(_without_fakes(ranks.fget))))
        yield


def _without_fakes(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def real(*args: Any, **named: Any) -> Any:
        with fake_tensor.unset_fake_temporarily():
            return method(*args, **named)

    return real
