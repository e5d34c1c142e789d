"""What a condition says of its operands and names: the place of a branch, torch's hints that fit, where to decide."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import GuardCause
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from tests.support.recompilations import again, failed
from tests.support.reports import VERSIONS, at, broken, report
from tests.unit.explain.findings.test_branch_advice import TORCHS, body_of, finding_of


def broken_at(source: str, named: str, python: str = "3.11.7") -> tuple[str, Finding]:
    """The code that the finding underlines, where torch names `named`."""
    lines = body_of(source)
    (line,) = (number for number, text in lines.items() if named in text)
    column = lines[line].index(named)
    place = at(line, (column, column + len(named)), function="forward")
    given = report(
        breaks=(broken(place, hints=TORCHS),), versions=dataclasses.replace(VERSIONS, python=python)
    )
    (finding,) = findings(given, read_line=lambda _path, number: lines.get(number))
    return lines[line][finding.span.column : finding.span.end_column], finding


@pytest.mark.parametrize(
    ("test", "named", "python", "underlined"),
    [
        ("keep is None or x.all()", "keep is None", "3.11.7", "x.all()"),
        ("not isinstance(x, int) and bias", "isinstance(x, int)", "3.12.1", "bias"),
        ("keep > 1 and x.any()", "keep > 1", "3.11.7", "keep > 1 and x.any()"),
        ("keep > 1 and x.any()", "keep > 1", "3.12.1", "keep > 1"),
        ("x.any() and keep > 1", "keep > 1", "3.11.7", "keep > 1"),
        ("keep is None or x.all() or x.isnan().any()", "keep is None", "3.11.7",
         "keep is None or x.all() or x.isnan().any()"),
    ],
)  # fmt: skip
def test_the_operand_that_is_a_tensor_is_underlined(
    test: str, named: str, python: str, underlined: str
) -> None:
    shown, _ = broken_at(f"if {test}:\n    return x + 1\nreturn x", named, python)
    assert shown == underlined


@pytest.mark.parametrize(
    "body", ["x = x * 2", "self.rate = max(1e-5, self.rate / 2)", "y = x.clamp(max=keep)"]
)
def test_the_note_on_clamping_needs_a_bound_of_the_same_name(body: str) -> None:
    finding = finding_of(f"if x.sum() > 0:\n    {body}\nreturn x", "x.sum() > 0")
    assert not any("clamping" in hint for hint in finding.hints)


def test_what_the_compiled_code_computes_is_not_passed_in() -> None:
    computed = finding_of("d = x.mean()\nif d > 0.1:\n    x = x / 2\nreturn x", "d > 0.1")
    given = finding_of("if keep > 0.1:\n    x = x / 2\nreturn x", "keep > 0.1")
    assert "return the condition" in computed.hints[0]
    assert "that you pass in" in given.hints[0]


@pytest.mark.parametrize("change", ["self.rate = min(0.1, self.rate * 1.5)", "self.steps = self.steps + 1"])
def test_an_attribute_that_is_computed_of_itself_is_changed_outside(change: str) -> None:
    finding = finding_of(f"if x.sum() > 0:\n    {change}\nreturn x", "x.sum() > 0")
    assert finding.hints == ("Return the condition, and do what depends on it outside the compiled code",)


@pytest.mark.parametrize(
    ("body", "advised"),
    [
        ("torch._foreach_mul_(grads, (keep / x).item())",
         "`torch._foreach_mul_(grads, torch.where(x > 3, keep / x, 1))`"),
        ("torch._foreach_add_(grads, others)", "`for x in grads: x.copy_(torch.where(x > 3, changed, x))`"),
        ("torch._foreach_sub_(grads, 2)", "`for x in grads: x.copy_(torch.where(x > 3, changed, x))`"),
        ("F.relu_(out)", "`out.copy_(torch.where(x > 3, changed, out))`"),
    ],
)  # fmt: skip
def test_a_change_in_place_names_what_the_branch_changes(body: str, advised: str) -> None:
    finding = finding_of(f"if x > 3:\n    {body}\nreturn x", "x > 3")
    assert finding.hints[0].endswith(f" as {advised}")


def test_changes_of_several_tensors_have_no_code_with_an_invented_name() -> None:
    finding = finding_of("if x > 3:\n    left.zero_()\n    right.zero_()\nreturn x", "x > 3")
    assert not any("torch.where" in hint for hint in finding.hints)


@pytest.mark.parametrize(
    ("lines", "advised"),
    [(("    if x.max() > cap:",), "where `apply` is called"),
     (("    top = x.max()", "    if top > cap:"), "ctx.mark_non_differentiable")],
)  # fmt: skip
def test_the_forward_of_an_autograd_function_returns_outputs_with_gradients(
    lines: tuple[str, ...], advised: str
) -> None:
    text = dict(
        enumerate(("def forward(ctx, x, cap):", *lines, "        state['hit'] = True", "    return x"), 20)
    )
    line = 20 + len(lines)
    place = at(line, (7, len(text[line]) - 1), function="forward")
    (finding,) = findings(
        report(breaks=(broken(place, hints=TORCHS),)), read_line=lambda _path, number: text.get(number)
    )
    assert advised in finding.hints[0]


@pytest.mark.parametrize(
    ("registered", "is_hook"),
    [
        ("layer.register_forward_hook(self.watch)", True),
        ("layer.register_forward_pre_hook(watch, with_kwargs=True)", True),
        ("layer.register_full_backward_hook(self.watch_all)", False),
        ("self.watch(layer)", False),
        ("probe = Probe()\n        layer.register_forward_hook(probe)", False),
    ],
)
def test_a_hook_is_not_told_to_return_the_condition(registered: str, *, is_hook: bool) -> None:
    text = (
        "class Probe:\n    def watch(self, module, args, output):\n        if output.isnan().any():\n"
        f"            print('nan')\n\n    def attach(self, layer):\n        {registered}\n"
    )
    lines = dict(enumerate(text.split("\n"), 1))
    place = at(3, (11, 31), function="Probe.watch")
    facts = report(breaks=(broken(place, frame_function="Probe.watch", frame_line=2),))
    (finding,) = findings(facts, read_line=lambda _path, number: lines.get(number))
    assert any("what a hook returns" in hint for hint in finding.hints) is is_hook
    assert any(hint.startswith("Return the condition") for hint in finding.hints) is not is_hook


@pytest.mark.parametrize(
    ("owner", "registered", "is_hook"),
    [
        ("Meter", "meter = Meter()\nlayer.register_forward_hook(meter)", True),
        ("Meter", "net[0].register_forward_pre_hook(Meter())", True),
        ("Meter", "self.meter = Meter()\nlayer.register_forward_hook(self.meter, prepend=True)", True),
        ("Meter", "layer.register_forward_hook(other)", False),
        ("Meter", "meter = Meter()\nmeter(x, y, z)", False),
    ],
)
def test_an_object_that_is_called_as_a_hook_is_not_told_to_return_a_number(
    owner: str, registered: str, *, is_hook: bool
) -> None:
    line = "        self.kept.append(output.mean().item())"
    text = f"class {owner}:\n    def __call__(self, module, args, output):\n{line}\n\n{registered}\n"
    lines = dict(enumerate(text.split("\n"), 1))
    place = at(3, (25, 45), function="__call__")
    item = broken(place, gb="GB0124", frame_function="__call__", frame_line=2)
    (finding,) = findings(report(breaks=(item,)), read_line=lambda _path, number: lines.get(number))
    assert finding.hints[0].startswith("Store the value" if is_hook else "Return the tensor")
    born = (at(3, (8, 24), function="__call__"),)
    grown = failed("len(self.kept) was 1, now 2", source="self.kept", cause=GuardCause.LENGTH, born=born)
    facts = report(recompiles=(again(grown, location=at(2, function="__call__"), function="__call__"),))
    (finding,) = findings(facts, read_line=lambda _path, number: lines.get(number))
    assert finding.hints[0].startswith("Store the value" if is_hook else "Change `self.kept` outside")


@pytest.mark.parametrize(
    ("rest", "is_part"),
    [
        ("    return x[:0]\nreturn x * 2", True),
        ("    return x[:4]\nreturn x", True),
        ("    return x[:4]\nelse:\n    return x[:2]", True),
        ("    return x.neg()\nreturn x * 2", False),
        ("    return x[n:]\nreturn x[:n]", False),
    ],
)
def test_sides_of_different_lengths_are_not_to_be_selected(rest: str, *, is_part: bool) -> None:
    _, finding = broken_at(f"s = x.max()\nif s < 0:\n{rest}\n", "s < 0")
    assert any("select with torch.where" in hint for hint in finding.hints) is not is_part
    assert any(hint.endswith("needs sides of one shape") for hint in finding.hints) is is_part
