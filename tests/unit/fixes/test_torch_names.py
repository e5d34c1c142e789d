"""Fixes use only what the torch of the run has, and name the release that a missing name needs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from fuselight_server.fixes.rewrites.families import rewrites
from tests.support.offered_remedies import HEAD, finding_at

if TYPE_CHECKING:
    from fuselight_server.fixes.rewrites.families import Rewrites

HELPER = """\
import numpy as np
import torch


def spans(x: torch.Tensor, width: int):
    mask = np.zeros((2, width), dtype=bool)
    mask[0, int(np.random.rand() * width)] = True
    return mask
"""
LOGGER = """\
import logging
import torch

logger = logging.getLogger()


def f(x):
    logger.info(x)
    return x
"""
SINCE = {
    "custom_op": (HELPER, "np.random.rand()", "GB0033", "2.8"),
    "graph_print": (f"{HEAD}    print(x.sum())\n    return x\n", "print(x.sum())", "GB0059", "2.11"),
    "ignore_logging_functions": (LOGGER, "logger.info(x)", "GB0291", "2.11"),
    "trace_autograd_ops": (f"{HEAD}    x.sum().backward()\n", "x.sum().backward()", "GB0123", "2.11"),
}
"""Kinds that write a name which older releases lack: the text, the break, and the first release."""
ALWAYS = {
    "reorderable_logging_functions": (
        f"{HEAD}    print(x.sum())\n    return x\n",
        "print(x.sum())",
        "GB0059",
    ),
    "capture_scalar_outputs": (f"{HEAD}    return x[: x.max().item()]\n", "x.max().item()", "GB0124"),
    "capture_dynamic_output_shape_ops": (f"{HEAD}    return x.nonzero()\n", "x.nonzero()", "GB0036"),
}


def of_release(text: str, mark: str, code: str, torch: str) -> Rewrites:
    finding, report = finding_at(text, mark, code)
    of_run = dataclasses.replace(report, versions=dataclasses.replace(report.versions, torch=torch))
    return rewrites(finding, of_run, {"m.py": text}.get)


@pytest.mark.parametrize("kind", SINCE)
def test_a_name_that_an_older_torch_lacks_is_refused_with_the_release(kind: str) -> None:
    text, mark, code, since = SINCE[kind]
    for torch in (f"{since}.0+cpu", "2.14.1"):
        assert kind in {remedy.kind for remedy in of_release(text, mark, code, torch).remedies}, torch
    for torch in ("2.6.0", f"2.{int(since.partition('.')[2]) - 1}.0a0+git1"):
        release = of_release(text, mark, code, torch)
        assert kind not in {remedy.kind for remedy in release.remedies}
        (reason,) = [rewrite.reason for rewrite in release.refused if rewrite.kind == kind]
        assert reason.endswith(f"needs torch {since} or newer, and the run had {torch}")


@pytest.mark.parametrize("kind", ALWAYS)
def test_a_setting_that_each_supported_torch_has_is_offered(kind: str) -> None:
    text, mark, code = ALWAYS[kind]
    assert kind in {remedy.kind for remedy in of_release(text, mark, code, "2.6.0").remedies}


def test_a_name_that_the_text_had_before_is_no_reason() -> None:
    """Another fix in a file that uses a newer name already."""
    text = f"{LOGGER}torch._dynamo.config.ignore_logging_functions.add(print)\n"
    assert {remedy.kind for remedy in of_release(text, "logger.info(x)", "GB0291", "2.9.1").remedies} == {
        "is_compiling"
    }
