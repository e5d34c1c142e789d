"""Libraries that take a fake tensor for a sign that they are traced, and then run other code than with data.

Invariant: outside of the context nothing is changed, and a library that is not imported stays so.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from fuselight.adapters.torch_api.patching import patched

_ASKING = (("transformers.utils.import_utils", "is_fake_tensor"),)
"""Module, and the function that asks: a traced model of transformers makes the masks that eager mode leaves out."""


@contextlib.contextmanager
def untraced_libraries() -> Iterator[None]:
    """Inside, libraries run fake tensors as they run tensors with data."""
    with contextlib.ExitStack() as stack:
        for module, name in _ASKING:
            owner = sys.modules.get(module)
            if owner is not None and hasattr(owner, name):
                stack.enter_context(patched(owner, name, lambda _tensor: False))
        yield
