"""`fuselight warm` with the real worker: two starts that share a cache folder, and what the second one compiled.

The programs replace the C++ kernels by stubs, so that no compiler runs: keys and records of the caches are the same.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.jobs_caches import print_warm, warm_as_json
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.warm import WarmOutcome, WarmState, WarmTarget, check_warm, warm
from fuselight_server.jobs.caches.model import CauseKind, StartStage
from fuselight_server.jobs.trace_log.model import CacheName, CacheState
from tests.support.live_worker import LiveWorker

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

STUBS = """\
import torch
from torch._inductor.async_compile import AsyncCompile
AsyncCompile.cpp_pybinding = lambda *_: lambda *arguments: None
"""
PROGRAMS = {
    "clean.py": """
def scaled(x):
    return (x * 2).sin()
torch.compile(scaled)(torch.ones(8))
""",
    "target.py": """
# fuselight: doubled(f32[4, 8])
@torch.compile(options={"max_fusion_size": 32})
def doubled(x):
    return x + x
""",
    "folded.py": """
def folded(x):
    return x * 3
torch.compiler.allow_in_graph(folded)
def shifted(x):
    return folded(x) + 1
torch.compile(shifted)(torch.ones(4))
""",
    "cubed.py": """
class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x
    @staticmethod
    def backward(ctx, grad):
        return 3 * ctx.saved_tensors[0] ** 2 * grad
def cubed(x):
    return Cubed.apply(x * 2).sum()
torch.compile(cubed)(torch.ones(8, requires_grad=True)).backward()
""",
    "random_key.py": """
import uuid
from torch._inductor.custom_graph_pass import CustomGraphPass
class Fresh(CustomGraphPass):
    def __call__(self, graph):
        pass
    def uuid(self):
        return str(uuid.uuid4())
torch._inductor.config.post_grad_custom_post_pass = Fresh()
def shifted(x):
    return x + 1
torch.compile(shifted)(torch.ones(8))
""",
    "eager.py": """
def added(x):
    return x + 1
torch.compile(added, backend="eager")(torch.ones(8))
""",
    "broken.py": """
def failing(x):
    return x + 1
torch.compile(failing)(torch.ones(8))
raise RuntimeError("no data")
""",
}


@pytest.fixture(scope="module")
def outcome(live: LiveWorker, tmp_path_factory: pytest.TempPathFactory) -> WarmOutcome:
    """All programs by one command, in the worker of the ring."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "pyproject.toml").touch()
    for name, text in PROGRAMS.items():
        (folder / name).write_text(STUBS + text, encoding="utf-8")
    paths = tuple(folder / name for name in PROGRAMS)
    return live.do_command(
        warm(
            CommandOptions(paths, python=sys.executable),
            lambda _text: None,
            CancelToken(),
            times_imports=False,
        )
    )


def target(outcome: WarmOutcome, name: str) -> WarmTarget:
    (row,) = [row for row in outcome.targets if Path(row.report.target.path).name == name]
    return row


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("clean.py", WarmState.WARM),
        ("target.py", WarmState.WARM),
        ("folded.py", WarmState.COMPILED_AGAIN),
        ("cubed.py", WarmState.COMPILED_AGAIN),
        ("random_key.py", WarmState.COMPILED_AGAIN),
        ("eager.py", WarmState.COMPILED_AGAIN),
        ("broken.py", WarmState.FAILED),
    ],
)
def test_the_state_of_a_second_start(outcome: WarmOutcome, name: str, state: WarmState) -> None:
    assert target(outcome, name).state is state
    assert outcome.exit_code == 2


def test_a_warm_start_reads_what_the_first_one_wrote(outcome: WarmOutcome) -> None:
    for name in ("clean.py", "target.py"):
        row = target(outcome, name)
        assert row.first is not None
        assert row.second is not None
        assert {result.state for result in row.first.results} == {CacheState.MISS}
        assert {result.state for result in row.second.results} == {CacheState.HIT}
        assert row.start is not None
        assert row.restart is not None
        stages = {part.stage for part in row.start.stages}
        assert StartStage.CODE_GENERATION in stages
        assert StartStage.CODE_GENERATION not in {part.stage for part in row.restart.stages}
        assert row.findings == ()


def test_a_bypass_is_a_finding_on_its_line(outcome: WarmOutcome) -> None:
    row = target(outcome, "folded.py")
    assert row.second is not None
    (lost,) = row.second.lost
    assert (lost.cache, lost.state) == (CacheName.AOTAUTOGRAD, CacheState.BYPASS)
    (finding,) = row.findings
    text = (STUBS + PROGRAMS["folded.py"]).split("\n")
    assert finding.code == "FL922"
    assert "return folded(x) + 1" in text[finding.span.line - 1]


def test_a_setting_that_cures_a_bypass_is_tried(outcome: WarmOutcome) -> None:
    row = target(outcome, "cubed.py")
    (finding,) = row.findings
    assert finding.code == "FL922"
    (cure,) = row.tried
    assert cure.setting == "torch._functorch.config.autograd_cache_allow_custom_autograd_functions"
    assert (cure.value, cure.state, cure.lost_seconds) == (True, WarmState.WARM, 0.0)
    assert all(other.tried == () for other in outcome.targets if other is not row)


def test_a_key_that_differs_in_each_process_is_named(outcome: WarmOutcome) -> None:
    row = target(outcome, "random_key.py")
    assert row.second is not None
    for result in row.second.lost:
        (cause,) = result.causes
        assert cause.kind is CauseKind.KEY_CHANGED
        assert cause.text.startswith("torch._inductor.config.post_grad_custom_post_pass: ")
    assert {finding.code for finding in row.findings} == {"FL921"}


@pytest.fixture(scope="module")
def checked(outcome: WarmOutcome, live: LiveWorker) -> WarmOutcome:
    """One of the programs, checked and started twice, with its imports."""
    path = Path(target(outcome, "folded.py").report.target.path)
    return live.do_command(
        check_warm(CommandOptions((path,), python=sys.executable), lambda _text: None, CancelToken())
    )


def test_a_check_with_warm_has_the_findings_of_both(checked: WarmOutcome) -> None:
    assert [finding.code for finding in checked.check.findings] == ["FL922"]
    assert [row.state for row in checked.targets] == [WarmState.COMPILED_AGAIN]
    assert checked.check.reports[0].compiles
    assert checked.exit_code == 1


def test_the_imports_of_a_start_are_timed_in_a_process_that_begins_without_torch(
    checked: WarmOutcome,
) -> None:
    (row,) = checked.targets
    assert row.imports is not None
    assert row.imports.is_separate
    assert row.imports.error == ""
    path = row.report.target.path
    lines = {line.location.line: line for line in row.imports.lines if line.location.path == path}
    assert lines[1].modules == ("torch",)
    assert row.start is not None
    assert row.restart is not None
    for picture in (row.start, row.restart):
        assert picture.stages[0].stage is StartStage.IMPORTS
        assert picture.stages[0].seconds == row.imports.seconds > 0.1
        assert picture.compile_seconds == pytest.approx(picture.seconds - row.imports.seconds)
    out = io.StringIO()
    print_warm(checked, Terminal(out))
    assert "folded.py:1 imports torch: " in out.getvalue()
    assert "of the compiles and none of the imports" in out.getvalue()


def test_the_terminal_and_the_json_show_each_target(outcome: WarmOutcome) -> None:
    out = io.StringIO()
    print_warm(outcome, Terminal(out))
    text = out.getvalue()
    assert "clean.py: __main__ - warm: the second start read everything from the caches" in text
    assert "folded.py: __main__ - not warm: the second start compiled 1 function again" in text
    assert "eager.py: __main__ - not cached: the backend keeps no cache" in text
    assert "broken.py: __main__ - could not be started" in text
    assert "`__main__.folded` is called in the graph" in text
    assert (
        "tried: with `torch._functorch.config.autograd_cache_allow_custom_autograd_functions = True` "
        "the second start read everything from the caches" in text
    )
    assert "to do: Register it with torch.library.custom_op" in text
    data = json.loads(warm_as_json(outcome))
    assert [row["state"] for row in data["targets"]] == [row.state.value for row in outcome.targets]
    folded = next(row for row in data["targets"] if row["path"].endswith("folded.py"))
    causes = [cause for result in folded["second"]["results"] for cause in result["causes"]]
    assert [cause["kind"] for cause in causes] == ["bypass"]
    assert min(folded["start"]["seconds"], folded["restart"]["seconds"]) > 0
