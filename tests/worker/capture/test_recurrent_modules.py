"""What the setting for recurrent modules does, by which findings advise it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support.recording import record

pytestmark = pytest.mark.torch

PROGRAM = """
from torch.nn.utils.rnn import pack_padded_sequence

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.{kind}(4, 8, batch_first=True)

    def forward(self, x):
        return torch.relu(self.recurrent(x)[0]{data})

def main():
    x = torch.ones(3, 5, 4)
    {packed}
    with torch.set_grad_enabled({grad}):
        torch.compile(Net())(x)
"""
PACKED = "x = pack_padded_sequence(x, torch.tensor([5, 3, 2]), batch_first=True)"


@pytest.mark.parametrize(("kind", "grad"), [("GRU", True), ("RNN", True), ("LSTM", False)])
def test_the_setting_puts_a_recurrent_module_into_the_graph(tmp_path: Path, kind: str, *, grad: bool) -> None:
    program = PROGRAM.format(kind=kind, grad=grad, data="", packed="pass")
    without = record(tmp_path, program, aot_autograd=True)
    assert "GB0014" in without.parts.breaks[0].ids
    with torch._dynamo.config.patch(allow_rnn=True):
        allowed = record(tmp_path, program, aot_autograd=True)
    assert allowed.parts.breaks == ()
    assert allowed.failure is None
    (compiled,) = allowed.parts.compiles
    assert compiled.graph is not None


def test_the_setting_breaks_the_graph_of_packed_sequences(tmp_path: Path) -> None:
    program = PROGRAM.format(kind="GRU", grad=False, data=".data", packed=PACKED)
    with torch._dynamo.config.patch(allow_rnn=True):
        recorded = record(tmp_path, program)
    assert recorded.parts.breaks[0].types[0] == "Data dependent operator"
