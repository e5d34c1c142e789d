"""Reports the calls of one compiled version of a function.

torch counts none. A guard of ours, which is always true and which torch checks after all of its own, is checked only
where a call matches the version. Invariant: it changes the outcome of no call, and costs only versions that are
watched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fuselight.adapters.torch_api.dynamo import targets


def watch_calls(manager: Any, called: Callable[[Mapping[str, object]], None]) -> bool:
    """Call `called` with its variables before each call that the version of a guard manager answers.

    False: this torch cannot.
    """
    add = getattr(getattr(manager, "root", None), "add_epilogue_lambda_guard", None)
    if add is None:
        return False

    def check(f_locals: Mapping[str, object]) -> bool:
        called(f_locals)
        return True

    targets.skip_frames(check.__code__)
    parts = ["True  # a call of this version"]
    try:
        add(check, parts, None)
    except TypeError:  # an older torch takes no stack
        add(check, parts)
    return True
