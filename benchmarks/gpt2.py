"""The model of three benchmarks: GPT-2 with 12 layers from its `transformers` config, random weights.

The text is written to a file, since the server, the terminal command and plain Python are all given a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = '''\
import torch
from transformers import GPT2Config, GPT2LMHeadModel


# fuselight: Model()(i64[1, 64] % 50257)
class Model(GPT2LMHeadModel):
    """GPT-2, 12 layers."""

    def __init__(self):
        super().__init__(GPT2Config(use_cache=False))
'''
BUILD_AND_CALL = """
def build_and_call(**compile_options):
    model = Model().eval()
    with torch.no_grad():
        torch.compile(model, **compile_options)(torch.randint(50257, (1, 64)))
"""


def write_model(folder: Path) -> Path:
    """The model's file, as a user would have it."""
    path = folder / "gpt2_model.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path
