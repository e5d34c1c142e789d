"""Cache artifacts of a configuration, saved so that a program that replays it compiles nothing again.

Invariant: they are of exactly the compile that the backend `fuselight` makes: what a benchmark adds to its own compile
(records for the profiler) is part of the keys of torch's caches. The file's name is the user's signature of its bytes:
a replay loads no other file, because what is in it runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.choices.kernel_choices import replaying
from fuselight.measure.compile_configuration import Compiled
from fuselight.replay.preparation import prepared_inductor
from fuselight.shared.foreign_files import signature, write_whole
from fuselight.shared.tuned_file import artifacts_name


def save_artifacts(compiled: Compiled, call: Callable[[], object], folder: str) -> str:
    """Compile the call again as a replay does, and save what torch's caches have of it in a file in `folder`.

    Returns the file's name; empty if there was nothing to save, or it could not be written.
    """
    configuration, choices = compiled.configuration, compiled.choices.by_family
    inductor = prepared_inductor(
        configuration.preparation, None, compiled.options, compiling=lambda: replaying(choices)
    )

    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        return inductor(gm, inputs)

    settings.forget_compiled()
    with compiled.replaced_by(backend):
        call()
        artifacts = torch.compiler.save_cache_artifacts()
    if artifacts is None:
        return ""
    data = artifacts[0]
    try:
        name = artifacts_name(signature(data, create=True))
        write_whole(os.path.join(folder, name), data)
    except OSError:
        return ""  # it costs time at the first call, and nothing else
    return name
