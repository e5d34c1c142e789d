"""Programs whose compiled calls are compared with eager mode, as a worker compares them."""

from __future__ import annotations

from typing import Any

from fuselight.shared.protocol import AccuracyRequest
from fuselight.shared.report import ComparedCall, ResultComparison
from tests.support.live_worker import LiveWorker

HEAD = """\
import functools
import torch
from torch import nn
aot = functools.partial(torch.compile, backend="aot_eager")
decomposed = functools.partial(torch.compile, backend="aot_eager_decomp_partition")
"""

LINE = len(HEAD.splitlines())


def compared(live: LiveWorker, body: str, **options: Any) -> ResultComparison:
    source = f"{HEAD}{body}"
    report = live.report(live.request(source, "").of_kind(AccuracyRequest, **options))
    assert report.failures == ()
    assert report.results is not None
    return report.results


def one_call(live: LiveWorker, body: str, **options: Any) -> ComparedCall:
    (call,) = compared(live, body, **options).calls
    return call
