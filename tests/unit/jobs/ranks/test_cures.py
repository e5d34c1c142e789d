"""What helps is true of what differs between ranks; severity, page and exit code of a finding of jobs agree."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fuselight.shared.report import Tier
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.explain.findings.common.catalogue import CATALOGUE, severity
from fuselight_server.jobs.ranks.cures import cure_of_constant, cure_of_inputs, input_words
from fuselight_server.jobs.ranks.guard_words import guard_words

PAGES = Path(__file__).parents[4] / "docs" / "findings"
OFF = {"cached_enabled": True, "dtype": [15, 5, 5], "enabled": [False, False, False]}


def state(**more: object) -> list[str]:
    body = {"grad_mode": True, "autocast_state": OFF, "default_dtype": 6, "allow_tf32": False, **more}
    return [f"+- GLOBAL_STATE: ___check_global_state() against {json.dumps(body)}"]


def tensor(*, dtype: str = "torch.float32", grad: bool = False, stride: str = "[8, 1]") -> list[str]:
    rest = f"{dtype}, device=None, requires_grad={grad}, size=[4, 8], stride={stride}"
    code = f"check_tensor(L['x'], Tensor, DispatchKeySet(CPU), {rest})"
    return [f"+- TENSOR_MATCH: {code}  # x.sin()  # a.py:3 in f"]


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ("f32[4, 8][8, 1]cpu", "f64[4, 8][8, 1]cpu", "Cast `x` to one dtype"),
        ("f32[4, 8][8, 1]cpu", "bf16[5, 8][8, 1]cpu", "Cast `x` to one dtype"),
        ("f32[4, 8][8, 1]cpu", "f32[8][1]cpu", "the same number of dimensions"),
        ("f32[4, 8][8, 1]cpu", "f32[5, 8][8, 1]cpu", "Pad to equal sizes"),
        ("f32[4, 8][8, 1]cpu", "f32[s7, 8][8, 1]cpu", "on all ranks, or on none"),
        ("f32[4, 8][8, 1]cpu", "f32[4, 8][1, 4]cpu", "the same strides"),
        ("f32[4, 8][8, 1]cpu", "f32[4, 8][8, 1]cuda", "the same kind of device"),
        ("f32[4, 8]", "Sym(s3)", "the same type"),
    ],
)
def test_only_sizes_are_padded(left: str, right: str, words: str) -> None:
    cure = cure_of_inputs("x", left, right)
    assert words in cure
    assert ("Pad" in cure) is (words == "Pad to equal sizes")


def test_strides_and_devices_are_shown_alone() -> None:
    assert input_words("f32[4, 8][8, 1]cpu", "f32[4, 8][1, 4]cpu") == (
        "of strides [8, 1]",
        "of strides [1, 4]",
    )
    assert input_words("f32[4][1]cpu", "f32[4][1]cuda") == ("on cpu", "on cuda")
    assert input_words("f32[4]", "f32[5]") == ("f32[4]", "f32[5]")


@pytest.mark.parametrize(
    ("operator", "left", "right", "words"),
    [
        ("*", "1", "2", "as a tensor"),
        ("add", "2.5", "-3.5", "as a tensor"),
        ("dropout", "True", "False", "`train()` or `eval()`"),
        ("batch_norm", "False", "True", "`train()` or `eval()`"),
        ("sum", "False", "True", "no tensor can stand for it"),
        ("sum", "0", "1", "no tensor can stand for it"),
        ("to", "torch.float16", "torch.float32", "no tensor can stand for it"),
        ("reshape", "4", None, "no tensor can stand for it"),
        ("einsum", "'ij->j'", "'ij->i'", "no tensor can stand for it"),
    ],
)
def test_only_numbers_that_are_computed_with_become_tensors(
    operator: str, left: str | None, right: str | None, words: str
) -> None:
    assert words in cure_of_constant(operator, left, right)


@pytest.mark.parametrize(
    ("odd", "reference", "words", "cure"),
    [
        (
            state(autocast_state={**OFF, "enabled": [True, False, False]}),
            state(),
            ("autocast on for CPU (bfloat16)", "autocast off"),
            "`torch.autocast`",
        ),
        (
            state(autocast_state={**OFF, "enabled": [False, True, False]}),
            state(autocast_state={**OFF, "enabled": [False, True, False], "dtype": [15, 15, 5]}),
            ("autocast on for CUDA (float16)", "autocast on for CUDA (bfloat16)"),
            "`torch.autocast`",
        ),
        (
            state(autocast_state={"odd": 1}),
            state(),
            ("autocast in another state", "autocast off"),
            "`torch.autocast`",
        ),
        (state(grad_mode=False), state(), ("grad mode off", "grad mode on"), "`torch.no_grad()`"),
        (
            state(default_dtype=7),
            state(),
            ("the default dtype float64", "the default dtype float32"),
            "set_default_dtype",
        ),
        (state(allow_tf32=True), state(), ("TF32 on", "TF32 off"), "set_float32_matmul_precision"),
        (
            tensor(grad=True),
            tensor(),
            ("`x` has requires_grad True", "`x` has requires_grad False"),
            "require gradients",
        ),
        (
            tensor(dtype="torch.float16"),
            tensor(),
            ("`x` has dtype torch.float16", "`x` has dtype torch.float32"),
            "Cast `x`",
        ),
        (
            tensor(stride="[1, 4]"),
            tensor(),
            ("`x` has stride [1, 4]", "`x` has stride [8, 1]"),
            "contiguous()",
        ),
    ],
)
def test_guards_are_named_as_users_set_them(
    odd: list[str], reference: list[str], words: tuple[str, str], cure: str
) -> None:
    *shown, helps = guard_words(odd, reference)
    assert tuple(shown) == words
    assert cure in helps
    assert "{" not in "".join(shown)


@pytest.mark.parametrize("code", sorted(code for code in CATALOGUE if code.startswith("FL9")))
def test_page_catalogue_and_exit_code_agree(code: str) -> None:
    page = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"(?m)^\*?Severity: (\w+)", page)
    level = severity(code)
    assert written == level.name.lower()
    finding = Finding(code, level, "title", "", Span("a.py", 1), Tier.CAPTURE, "", "", "")
    outcome = CheckOutcome(findings=[finding])
    assert outcome.exit_code == int(level >= Severity.WARNING)
