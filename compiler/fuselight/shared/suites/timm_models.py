"""The 61 models of timm, by the names of benchmarks/dynamo/timm_models_list.txt of PyTorch 2.0.

Batch sizes are those of the list, divided as PyTorch's runner did; images have the size that timm's configuration of
the model names. The tiny form keeps the kinds of blocks: fewer of them where a model has many or wide ones, small
images where it takes any.
"""

from __future__ import annotations

import json
import os

from fuselight.shared.codec import decode
from fuselight.shared.suites.models import Form, SuiteModel

GROUP = "timm"
TINY_BATCH = 2

with open(os.path.splitext(__file__)[0] + ".json", encoding="utf-8") as file:
    TABLE = decode(tuple[tuple[str, int, int, int, str], ...], json.load(file))
"""Name; real batch size; width of real and of tiny images; what the tiny form changes."""


def models() -> tuple[SuiteModel, ...]:
    """All 61."""
    return tuple(
        SuiteModel(
            name,
            GROUP,
            ("timm",),
            "import timm",
            {
                "tiny": Form(created(name, changes), images(TINY_BATCH, tiny), TINY_BATCH),
                "real": Form(created(name), images(batch, real), batch),
            },
        )
        for name, batch, real, tiny, changes in TABLE
    )


def created(name: str, changes: str = "") -> str:
    """The expression that makes a model of timm."""
    return f'timm.create_model("{name}", pretrained=False{", " if changes else ""}{changes})'


def images(batch: int, width: int, channels: int = 3) -> str:
    """Square images, as a directive writes them."""
    return f"f32[{batch}, {channels}, {width}, {width}]"
