"""Results of a call with two releases of torch, compared by the worker: who moved, and what cannot be compared.

Both runs have the same torch; an edited text stands for the other release. The graphs are library calls alone, so that
no C++ compiler runs.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from fuselight.shared.protocol import OutputsRequest
from fuselight.shared.report import ReleaseOutputs, Report
from fuselight.worker.verify import release_outputs
from tests.support.live_worker import LiveWorker

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

PRODUCT = "import torch\n# fuselight: f(f32[8, 8])\ndef f(x):\n    return torch.mm(x, x)\n"


def recorded(live: LiveWorker, source: str, folder: Path) -> Report:
    """The report of the earlier side."""
    request = live.request(source)
    return live.report(
        request.of_kind(OutputsRequest, folder=str(folder), records=True, cache=str(folder / "cache"))
    )


def compared(live: LiveWorker, source: str, folder: Path, cache: Path) -> ReleaseOutputs:
    """What the later side compared with the results in `folder`, which it leaves as they are."""
    request = live.request(source)
    outputs = live.report(request.of_kind(OutputsRequest, folder=str(folder), cache=str(cache))).outputs
    assert outputs is not None
    return outputs


def sides(live: LiveWorker, before: str, after: str, folder: Path) -> tuple[Report, ReleaseOutputs]:
    """The report of the earlier side, and what the later one compared."""
    first = recorded(live, before, folder)
    return first, compared(live, after, folder, folder / "later")


@pytest.fixture(scope="module")
def product(live: LiveWorker, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    """The results of PRODUCT as the earlier side, and its report."""
    folder = tmp_path_factory.mktemp("product")
    return folder, recorded(live, PRODUCT, folder)


@pytest.fixture(scope="module")
def net(live: LiveWorker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of NET as the earlier side."""
    folder = tmp_path_factory.mktemp("net")
    recorded(live, NET, folder)
    return folder


def test_equal_sides_are_equal_bit_for_bit(
    live: LiveWorker, product: tuple[Path, Report], tmp_path: Path
) -> None:
    folder, first = product
    assert first.outputs == ReleaseOutputs()
    assert not first.failures
    (call,) = compared(live, PRODUCT, folder, tmp_path).calls
    assert call.text == "f(f32[8, 8])"
    assert (call.is_eager_equal, call.is_compiled_equal) == (True, True)
    verdicts = (call.eager, call.float64, call.compiled_before, call.compiled_after)
    assert [verdict is not None and verdict.passed for verdict in verdicts] == [True] * 4
    assert call.errors.eager_before is not None
    assert call.errors.eager_before < 1e-5
    assert call.errors.eager_before == call.errors.eager_after


def test_an_operator_that_computes_something_else_is_seen_in_float64(
    live: LiveWorker, product: tuple[Path, Report], tmp_path: Path
) -> None:
    (call,) = compared(live, PRODUCT.replace("mm(x, x)", "mm(x, x.t())"), product[0], tmp_path).calls
    assert call.eager.passed is False
    assert call.float64 is not None
    assert call.float64.passed is False
    assert call.compiled_after is not None
    assert call.compiled_after.passed


def test_compiled_code_that_differs_is_told_from_eager(
    live: LiveWorker, product: tuple[Path, Report], tmp_path: Path
) -> None:
    wrong = PRODUCT.replace("mm(x, x)", "mm(x, x.t() if torch.compiler.is_compiling() else x)")
    (call,) = compared(live, wrong, product[0], tmp_path).calls
    assert call.is_eager_equal
    assert call.compiled_before is not None
    assert call.compiled_after is not None
    assert (call.eager.passed, call.compiled_before.passed, call.compiled_after.passed) == (True, True, False)


EDGE = """\
import torch
@torch.compiler.disable
def whole(x):
    return torch.floor(x)
# fuselight: f(f32[8, 8])
def f(x):
    product = torch.mm(torch.full((8, 8), 0.1).to(x), torch.full((8, 8), 1.25).to(x))
    return whole(product)
"""
"""The product is 1, and with other rounding the number before it."""


@pytest.mark.corpora
def test_a_value_on_a_rounding_edge_is_no_change(live: LiveWorker, tmp_path: Path) -> None:
    recorded(live, EDGE, tmp_path)
    below = EDGE.replace("whole(product)", "whole(torch.nextafter(product, torch.zeros_like(product)))")
    (call,) = compared(live, below, tmp_path, tmp_path / "below").calls
    assert (call.is_eager_equal, call.eager.passed) == (False, True)
    assert "a value on a rounding edge" in call.eager.why
    (call,) = compared(live, EDGE.replace("(product)", "(product) + 1"), tmp_path, tmp_path / "more").calls
    assert call.eager.passed is False, "no rounding moves it as far"


NET = """\
import torch
# fuselight: f()(f32[8, 8])
class f(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 8))
    def forward(self, x):
        return torch.mm(x, self.weight)
"""


def test_the_later_side_gets_the_values_of_the_earlier_one(
    live: LiveWorker, net: Path, tmp_path: Path
) -> None:
    (call,) = compared(live, NET.replace("randn(8, 8)", "rand(8, 8)"), net, tmp_path).calls
    assert call.is_eager_equal
    assert call.notes == (
        "inputs or parameters start with other values: the later version got those of the earlier one",
    )


def test_other_shapes_are_refused(live: LiveWorker, net: Path, tmp_path: Path) -> None:
    later = compared(live, NET.replace("randn(8, 8)", "randn(8, 9)"), net, tmp_path)
    assert not later.calls
    assert "weight is torch.float32[8, 8] with the earlier version and torch.float32[8, 9]" in later.refused


KEPT = """\
import torch
net = torch.nn.Linear(8, 8, bias=False)
# fuselight: net(f32[8, 8])
# fuselight: net(f32[4, 8])
net = torch.compile(net)
"""


def test_a_module_that_the_file_keeps_is_not_left_in_float64(live: LiveWorker, tmp_path: Path) -> None:
    first, later = sides(live, KEPT, KEPT, tmp_path)
    assert not first.failures
    assert later.refused == ""
    assert [(call.is_eager_equal, call.is_compiled_equal) for call in later.calls] == [(True, True)] * 2


def test_objects_that_differ_from_each_other_get_the_same_values(live: LiveWorker, tmp_path: Path) -> None:
    source = NET.replace("torch.randn(8, 8)", "torch.full((8, 8), float(time.perf_counter_ns() % 1000003))")
    first, later = sides(live, f"import time\n{source}", f"import time\n{source}", tmp_path)
    assert not first.failures
    (call,) = later.calls
    assert (call.is_eager_equal, call.eager.passed) == (True, True)
    assert call.compiled_before is not None
    assert call.compiled_before.passed


def test_other_random_numbers_are_no_difference(live: LiveWorker, tmp_path: Path) -> None:
    source = PRODUCT.replace("mm(x, x)", "mm(x, torch.rand_like(x))")
    other = source.replace("    return", "    torch.rand(3)\n    return")
    _, later = sides(live, source, other, tmp_path)
    (call,) = later.calls
    assert (call.is_eager_equal, call.eager.passed) == (False, None)
    assert "may draw others from the same seed" in call.eager.why
    assert call.float64 is not None
    assert call.float64.passed is None


def test_calls_that_are_not_compared_are_counted_or_have_a_reason(live: LiveWorker, tmp_path: Path) -> None:
    calls = [f"# fuselight: f(f32[{size}, 8])\n" for size in range(2, 9)]
    works = "def f(x):\n    return x.t() @ x\n"
    many = f"import torch\n{''.join(calls)}{works}"
    _, later = sides(live, many, many, tmp_path)
    assert [call.notes for call in later.calls] == [(), (), (), ("3 further calls were not compared",)]
    working = f"import torch\n{''.join(calls[:2])}{works}"
    failing = working.replace("    return", "    assert len(x) != 3\n    return")
    folders = {text: tmp_path / name for text, name in ((working, "working"), (failing, "failing"))}
    for text, folder in folders.items():
        folder.mkdir()
        recorded(live, text, folder)
    for (before, after), reason in {
        (working, failing): "the call fails without torch.compile with the later version",
        (failing, working): "the call fails without torch.compile with the earlier version",
        (failing, failing): "the call fails without torch.compile with both versions",
    }.items():
        later = compared(live, after, folders[before], tmp_path / "later")
        assert (len(later.calls), later.refused) == (1, reason)


def test_what_cannot_be_kept_has_the_reason_of_the_earlier_side(live: LiveWorker, tmp_path: Path) -> None:
    source = NET.replace("torch.randn(8, 8)", "torch.randn(8, 8, device='meta')")
    _, later = sides(live, source, source, tmp_path)
    assert later.refused.startswith("with the earlier version, the inputs and parameters cannot be kept: ")


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        (torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.nan]), True),
        (
            torch.tensor([math.nan]),
            torch.tensor([0xFFFFFFFF - (1 << 32)], dtype=torch.int32).view(torch.float32),
            True,
        ),
        (torch.tensor([0.0]), torch.tensor([-0.0]), False),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
        (torch.tensor([1 + 2j]), torch.tensor([1 - 2j]).conj(), True),
        (torch.tensor([complex(0, 1)]), torch.tensor([complex(-0.0, 1)]), False),
        (torch.ones(2, dtype=torch.float8_e4m3fn), torch.ones(2, dtype=torch.float8_e4m3fn), True),
        (torch.ones(2, dtype=torch.float8_e4m3fn), torch.zeros(2, dtype=torch.float8_e4m3fn), False),
        (torch.tensor([1]) == 1, torch.tensor([1]) == 1, True),
        (torch.ones(4, 4).t(), torch.ones(4, 4), True),
        (torch.ones(0), torch.ones(0), True),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), False),
    ],
)
def test_bits_are_compared(first: torch.Tensor, second: torch.Tensor, equal: bool) -> None:  # noqa: FBT001 - a parameter
    assert release_outputs._bits_equal(first, second) is equal


def test_a_side_without_results_is_refused(live: LiveWorker, tmp_path: Path) -> None:
    request = live.request(PRODUCT).of_kind(OutputsRequest, folder=str(tmp_path))
    report = live.report(request)
    assert report.outputs is not None
    assert report.outputs.refused == "there are no results of the earlier version of torch"


PRINTS_PATTERNS = """\
import torch
# fuselight: f(f32[4])
def f(x):
    return x
from torch._inductor.fx_passes import joint_graph
print(joint_graph.lazy_init.cache_info().currsize)
"""


def test_inductors_patterns_are_read_once_for_all_runs(
    live: LiveWorker, product: tuple[Path, Report]
) -> None:
    """By the host, after a run that imported Inductor."""
    del product
    for _ in range(20):  # the host reads them between two runs, when it has time
        output = live.analyse(PRINTS_PATTERNS).output
        assert output is not None
        if output.stdout == "1\n":
            break
    assert output.stdout == "1\n"


def test_deprecations_of_torch_stand_on_the_users_line(live: LiveWorker, tmp_path: Path) -> None:
    noisy = PRODUCT.replace(
        "def f(x):\n",
        "import warnings\n"
        "warnings.warn('torch.old is deprecated', FutureWarning)\n"
        "warnings.warn('mylib.old is deprecated', FutureWarning)\n"
        "warnings.warn_explicit('hidden.old is deprecated', DeprecationWarning, 'lib.py', 1, 'lib')\n"
        "def f(x):\n",
    )
    request = live.request(noisy).of_kind(OutputsRequest, folder=str(tmp_path), records=True)
    report = live.report(request)
    assert report.outputs is not None
    (heard,) = report.outputs.deprecations
    assert (heard.text, heard.category, heard.location.line) == (
        "torch.old is deprecated",
        "FutureWarning",
        4,
    )
    assert "mylib.old is deprecated" in report.output.stderr
    assert "hidden.old" not in report.output.stderr
