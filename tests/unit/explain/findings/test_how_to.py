"""Advice with an example made from the user's own line."""

from __future__ import annotations

import ast

import pytest

from fuselight.shared.report import Tier
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.editor.results.finding_hover import ExplainedFinding, explain
from fuselight_server.explain.findings.common.how_to import how_to


def finding(
    line: str,
    mark: str = "",
    code: str = "GB0007",
    *,
    title: str = "title",
    subject: str = "",
    torch: str = "2.13.0",
    target: str = "step",
    inputs: str = "",
    data: tuple[tuple[str, str], ...] = (),
) -> Finding:
    start = len(line[: line.index(mark)].encode()) if mark else None
    end = start + len(mark.encode()) if start is not None else None
    span = Span("m.py", 3, start, 3, end)
    return Finding(
        *(code, Severity.WARNING, title, "message", span, Tier.CAPTURE, target, inputs, torch),
        subject=subject,
        data=data,
    )


BREAKS = {
    "a clock": (
        ("    é = time.time()", "time.time()", "GB0007"),
        (
            "# in the code that calls `step`, before the call:\n"
            "now = torch.tensor(time.time(), dtype=torch.float64)"
        ),
    ),
    "a lock": (
        ("    with self.lock:", "self.lock", "GB0142"),
        "# in the code that calls `step`, around the call:\nwith self.lock:\n    step(...)",
    ),
    "a backend's flags": (
        ("with torch.backends.cudnn.flags(enabled=False):", "", "GB0142"),
        (
            "# in the code that calls `step`, around the call:\n"
            "with torch.backends.cudnn.flags(enabled=False):\n    step(...)"
        ),
    ),
    "a file": (
        ('    with open("a.txt") as file:', 'open("a.txt")', "GB0059"),
        '# in the code that calls `step`, before the call:\nwith open("a.txt") as file:\n    text = file.read()',
    ),
    "a seed": (
        ("    torch.manual_seed(0)", "torch.manual_seed(0)", "GB0007"),
        "# in the code that calls `step`, before the call:\ntorch.manual_seed(0)",
    ),
    "an opaque function": (
        ("    y = tools.sort_rows(x)", "tools.sort_rows(x)", "GB0098"),
        (
            '@torch.library.custom_op("mine::sort_rows", mutates_args=())\n'
            "def sort_rows_op(x: torch.Tensor) -> torch.Tensor:\n    return tools.sort_rows(x)\n\n\n"
            "@sort_rows_op.register_fake\ndef _(x):\n    return torch.empty_like(x)  # if its shape is that of x"
        ),
    ),
}


@pytest.mark.parametrize(("where", "code"), BREAKS.values(), ids=BREAKS)
def test_a_break_has_an_example_from_its_line(where: tuple[str, str, str], code: str) -> None:
    advice = how_to(finding(*where), where[0])
    assert advice is not None
    assert advice.code == code
    ast.parse(code)


@pytest.mark.parametrize(
    "statement", ["print(x)", "tools.show(x)", "y = tools.now()", "y = zlib.crc32(x)", "y = open(name)"]
)
def test_what_gives_no_tensor_for_a_tensor_is_not_to_be_an_operator(statement: str) -> None:
    advice = how_to(finding(f"    {statement}", statement.removeprefix("y = "), "GB0007"), f"    {statement}")
    assert advice is None or "custom_op" not in advice.code


def test_a_call_that_a_newer_torch_traces_names_the_version() -> None:
    line = "config = copy.deepcopy(self.config)"
    advice = how_to(finding(line, "copy.deepcopy(self.config)", "GB0179", torch="2.11.0"), line)
    assert advice is not None
    assert advice.words.startswith("torch 2.13 traces `copy.deepcopy` of objects that hold no tensors")
    assert "2.11.0" in advice.words
    assert how_to(finding(line, "copy.deepcopy(self.config)", "GB0179", torch="2.13.0"), line) is None


def test_a_disabled_function_may_stay_in_the_graph_from_2_14_on() -> None:
    line = "    y = sort_rows(x)"
    advice = how_to(finding(line, "sort_rows(x)", "GB0098", torch="2.14.1"), line)
    assert advice is not None
    assert "nonstrict_trace" in advice.code
    assert "makes no text of a size or an int that varies" in advice.words
    old = how_to(finding(line, "sort_rows(x)", "GB0098"), line)
    assert old is not None
    assert "custom_op" in old.code


RECOMPILATIONS = {
    "dimension x.size(0)": ("x.size(0) was 4, now 7", "torch._dynamo.mark_dynamic(x, 0)\nstep(x, ...)"),
    "number n": ("n was 2, now 3", "step(..., torch.tensor(n))"),
    "number lr": ("lr was 0.1, now 0.2", "step(..., torch.tensor(lr, dtype=torch.float64))"),
    "number self.calls": (
        "self.calls was 0, now 1",
        "self.calls = torch.tensor(0)  # where it is assigned",
    ),
    "dtype x": ("x.dtype was float32, now float64", "step(x.to(torch.float32))"),
    "stride x": ("x.stride(0) was 6, now 1", "step(x.contiguous())"),
    "requires_grad x": ("x.requires_grad was False, now True", "step(x.detach())"),
    "length xs": ("len(xs) was 1, now 2", "step(torch.stack(xs))"),
}


@pytest.mark.parametrize("subject", RECOMPILATIONS)
def test_a_recompilation_has_an_example_with_its_names(subject: str) -> None:
    change, code = RECOMPILATIONS[subject]
    advice = how_to(
        finding(
            "    y = x + 1", code="FL201", title=f"recompiled: {change}", subject=subject, data=ACCEPTS_TENSOR
        ),
        "    y = x + 1",
    )
    assert advice is not None
    assert advice.code == code
    ast.parse(code)


CURED = tuple(("cured", kind) for kind in ("mark", "dtype", "contiguous", "stack"))
ACCEPTS_TENSOR = (("accepts", "tensor"), *CURED)


@pytest.mark.parametrize(
    ("subject", "data", "shown"),
    [
        ("number n", ACCEPTS_TENSOR, True),
        ("number n", (), False),  # a bound of a slice, as an example
        ("dimension n.size(0)", CURED, True),
        ("dimension n.size(0)", (), False),  # a mark was not tried, or does not help
        ("dimension n.size(0)", (*CURED, ("frame", "inner")), False),  # `n` is no argument of the target
        ("none n", ACCEPTS_TENSOR, False),  # whether a tensor does in its place is not known
        ("keys n", ACCEPTS_TENSOR, False),
    ],
)
def test_an_example_fits_the_call_of_the_target(
    subject: str, data: tuple[tuple[str, str], ...], *, shown: bool
) -> None:
    other_finding = finding("x", code="FL201", title="recompiled: n was 2, now 3", subject=subject, data=data)
    assert (how_to(other_finding, "x") is not None) == shown


def test_a_growing_cache_is_written_into() -> None:
    line = "        self.keys = torch.cat([keys, new], dim=1)"
    where = finding(
        line, code="FL201", title="recompiled: keys.size(1) was 3, now 4", subject="dimension keys.size(1)"
    )
    advice = how_to(where, line)
    assert advice is not None
    assert advice.code == (
        "keys = torch.zeros(...)  # once, with the longest length at dimension 1\n"
        "keys.index_copy_(1, position, new)  # instead of: self.keys = torch.cat([keys, new], dim=1)"
    )


def test_nothing_is_advised_where_the_line_does_not_fit() -> None:
    assert how_to(finding("x = y", "y"), "x = y") is None
    assert how_to(finding("x = y", "y", "FL102"), "x = y") is None
    assert how_to(finding("x = y", "y", "FL502"), "x = y") is None
    attribute = finding("x", code="FL201", title="recompiled: a[0] was 'b', now 'c'", subject="value a[0]")
    assert how_to(attribute, "x") is None


def test_the_hover_shows_the_example_for_the_text_that_ran_only() -> None:
    line = "    now = time.time()"
    broken = finding(line, "time.time()")
    assert "```python\n# in the code that calls `step`" in explain(
        ExplainedFinding(broken, edited=False, line=line)
    )
    assert "```" not in explain(ExplainedFinding(broken, edited=True, line=line))
    fenced = line.replace("time.time()", 'open("```")')
    assert "```" not in explain(ExplainedFinding(finding(fenced, 'open("```")'), edited=False, line=fenced))


@pytest.mark.parametrize(
    ("target", "inputs", "called"),
    [
        ("Net", "directive on line 4: Net()(f32[2, 3])", "Net()(images, ...)"),
        ("Net", "recorded by fuselight run: Net(width=8)(f32[2, 3])", "Net(width=8)(images, ...)"),
        ("Net.step", "directive on line 4: Net().step(f32[2, 3])", "Net().step(images, ...)"),
        ("step", "directive on line 4: step(f32[2, 3])", "step(images, ...)"),
        ("Net", "provider function on line 4", "Net(images, ...)"),
        ("Net", "directive on line 4: Net(name=')')(f32[2...", "Net(images, ...)"),
        ("model", "directive on line 4: Other()(f32[2, 3])", "model(images, ...)"),
    ],
)
def test_an_example_makes_the_call_that_the_target_was_called_with(
    target: str, inputs: str, called: str
) -> None:
    title, subject = "recompiled: images.size(0) was 4, now 7", "dimension images.size(0)"
    given = finding(
        "x = images * 2", code="FL201", title=title, subject=subject, target=target, inputs=inputs, data=CURED
    )
    example = how_to(given, "x = images * 2")
    assert example is not None
    assert example.code == f"torch._dynamo.mark_dynamic(images, 0)\n{called}"
