"""`fuselight fix --warm` with the real worker: two starts of the new text decide, and then calls are compared.

The programs replace the C++ kernels by stubs, as those of `test_logged_start.py`.
"""

from __future__ import annotations

import importlib.metadata
import io
import re
import sys
from pathlib import Path

import pytest

from fuselight.shared.version import release
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.fixes import print_fixes
from fuselight_server.commands.fix import FixOutcome, FixStatus, fix
from fuselight_server.commands.options import CommandOptions
from fuselight_server.fixes.verification.attempts import Attempt
from tests.support.case_files import selected_names
from tests.support.live_worker import LiveWorker

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

STUBS = """\
import torch
from torch._inductor.async_compile import AsyncCompile
AsyncCompile.cpp_pybinding = lambda *_: lambda *arguments: None
"""
PROGRAMS = {
    "folded.py": """
def folded(x):
    return x * 3
torch.compiler.allow_in_graph(folded)
def shifted(x):
    return folded(x) + 1
torch.compile(shifted)(torch.ones(4))
""",
    "two_causes.py": """
def folded(x):
    return x * 3
def tripled(x):
    return x * float(open(__file__).read(1) == "i")
torch.compiler.allow_in_graph(folded)
torch.compiler.allow_in_graph(tripled)
def shifted(x):
    return tripled(folded(x)) + 1
torch.compile(shifted)(torch.ones(4))
""",
    # torch 2.13 bypasses its cache for it, 2.11 and 2.14 do not.
    "mixed.py": """
class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, 32)
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            h = self.up(x)
        return torch.relu(h)
net = torch.compile(Mixed())
loss = net(torch.ones(4, 16)).sum()
loss.backward()
""",
}


@pytest.fixture(scope="module")
def outcome(
    request: pytest.FixtureRequest, live: LiveWorker, tmp_path_factory: pytest.TempPathFactory
) -> FixOutcome:
    """The programs of the selected tests by one command, in the worker of the ring."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "pyproject.toml").touch()
    for name in selected_names(request, "name"):
        (folder / name).write_text(STUBS + PROGRAMS[name], encoding="utf-8")
    options = CommandOptions(tuple(sorted(folder.glob("*.py"))), python=sys.executable)
    return live.do_command(fix(options, lambda _text: None, CancelToken(), codes=("FL922",), warm=True))


def attempt_of(outcome: FixOutcome, name: str) -> Attempt:
    (attempt,) = [row for row in outcome.attempts if Path(row.finding.span.path).name == name]
    return attempt


def text_of(outcome: FixOutcome, name: str) -> str:
    return next(text for path, text in outcome.texts.items() if Path(path).name == name)


@pytest.mark.parametrize("name", ["folded.py"])
def test_a_key_passes_if_the_second_start_hits(name: str, outcome: FixOutcome) -> None:
    attempt = attempt_of(outcome, name)
    assert (attempt.status, attempt.remedy.kind) == (FixStatus.PASSED, "marked_cacheable")
    # Without `--write` the first further calls alone are compiled, and the others are counted.
    assert re.fullmatch(
        r"the second start reads it from the cache, same results(, but not compared: \d+ more compiled calls)?",
        attempt.why,
    )
    assert attempt.comparison.tried
    assert "get_hash_for_files((__file__,))" in text_of(outcome, name)
    assert "folded.py" in outcome.diff


@pytest.mark.parametrize("name", ["two_causes.py"])
def test_a_key_is_refused_if_the_second_start_still_compiles(name: str, outcome: FixOutcome) -> None:
    attempt = attempt_of(outcome, name)
    assert attempt.status is FixStatus.REFUSED
    assert attempt.why.startswith("the second start still compiles as much again: `__main__.tripled`")
    assert attempt.comparison.tried == (), "calls take longer than the two starts that refuse it"
    assert all(Path(path).name != name for path in outcome.texts)


@pytest.mark.skipif(
    release(importlib.metadata.version("torch"))[:2] != (2, 13),
    reason="this torch caches autocast in a graph",
)
@pytest.mark.corpora
@pytest.mark.parametrize("name", ["mixed.py"])
def test_autocast_around_the_call_passes(name: str, outcome: FixOutcome) -> None:
    attempt = attempt_of(outcome, name)
    assert (attempt.status, attempt.remedy.kind) == (FixStatus.PASSED, "autocast_outside"), attempt.why
    assert "    output = net(torch.ones(4, 16))\nloss = output.sum()" in text_of(outcome, name)
    out = io.StringIO()
    print_fixes(outcome, Terminal(out), diff_shown=False)
    assert "Enter autocast around `forward`" in out.getvalue()
