"""Programs that torch.compile runs with Inductor raise nothing under a capture that traces with AOTAutograd.

Those of `FAILS` raised with the backend `inductor` what is expected here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from fuselight.shared.report import Culprit
from tests.support.case_files import marked
from tests.support.inductor_programs import FURTHER, RUNS
from tests.support.recording import record

pytestmark = pytest.mark.torch

FAILS = {
    # name: program, culprit, words of the message
    "subclass_that_is_saved_for_backward": (
        """
class Image(torch.Tensor): pass
f = torch.compile(lambda x, w: (x.sin() * w).sum())
f(torch.randn(3).as_subclass(Image), torch.randn(3, requires_grad=True))
""",
        Culprit.COMPILER,
        "aten.detach",
    ),
    "custom_op_on_subclass": (
        """
class Image(torch.Tensor): pass
@torch.library.custom_op("fuselight_fails::copy", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor: return x.clone()
@op.register_fake
def _(x): return torch.empty_like(x)
torch.compile(lambda x: op(x) + 1)(torch.randn(3).as_subclass(Image))
""",
        Culprit.COMPILER,
        "fuselight_fails.copy",
    ),
    "double_backward": (
        """
f = torch.compile(lambda x: x.sin().sum())
x = torch.randn(3, requires_grad=True)
(g,) = torch.autograd.grad(f(x), x, create_graph=True)
g.sum().backward()
""",
        Culprit.USER,
        "double backward",
    ),
    "index_out_of_bounds": (
        "torch.compile(lambda x, i: x.gather(0, i))(torch.randn(3), torch.tensor([7]))",
        Culprit.USER,
        "index 7 is out of bounds",
    ),
}


@pytest.fixture(autouse=True)
def torch_as_before() -> Iterator[None]:
    """Undo what the programs set for the whole process."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=False, capture_scalar_outputs=False):
        yield
    if dist.is_initialized():
        dist.destroy_process_group()
    torch._dynamo.reset()


def _main(program: str) -> str:
    """The program as a function, with the lines before `# main` as lines of its module."""
    before, _, inside = program.strip().rpartition("# main\n")
    return f"{before}\ndef main():\n" + textwrap.indent(inside, "    ")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", marked(RUNS, FURTHER))
def test_what_inductor_runs_raises_nothing(tmp_path: Path, name: str) -> None:
    recorded = record(tmp_path, _main(RUNS[name]), aot_autograd=True)
    assert recorded.failure is None, recorded.failure.message


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FAILS)
def test_what_inductor_refuses_is_a_failure_of_who_raised_it(tmp_path: Path, name: str) -> None:
    program, culprit, words = FAILS[name]
    failure = record(tmp_path, _main(program), aot_autograd=True).failure
    assert failure is not None
    assert failure.culprit is culprit
    assert words in failure.message or words in failure.traceback
