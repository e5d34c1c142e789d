"""Findings from the source only, and ignore comments."""

from __future__ import annotations

from fuselight.shared.report import Tier
from fuselight_server.explain.findings import apply_ignores, findings, nothing_ran, static_findings
from fuselight_server.source.document import read_source
from tests.support.reports import FILE, at, broken, report


def read(text: str) -> dict:  # type: ignore[type-arg] # path to reading, built here
    return {FILE: read_source(FILE, text)}


BREAK = broken(at(2, (4, 12)))


def test_a_compiled_target_without_inputs_gets_a_hint_with_a_suggested_call() -> None:
    (finding,) = static_findings(
        read_source(FILE, "import torch\n@torch.compile\ndef f(x, y):\n    return x\n")
    )
    assert (finding.code, finding.tier, finding.span.line, finding.target) == ("FL502", Tier.STATIC, 3, "f")
    assert finding.fixes == ("insert_inputs",)
    assert "`# fuselight: f(...)`" in finding.message


def test_the_suggested_call_is_that_of_the_signature_where_it_is_read() -> None:
    reading = read_source(FILE, "import torch\n@torch.compile\ndef f(x, y):\n    return x\n")
    (finding,) = static_findings(reading, example=lambda target: f"{target.name}(i64[2], 8)")
    assert "`# fuselight: f(i64[2], 8)`" in finding.message


def test_no_hint_if_a_rung_applies() -> None:
    compiled = "import torch\n{}@torch.compile\ndef f(x):\n    return x\n{}"
    for above, below in (
        ("# fuselight: f(f32[4])\n", ""),
        ("", "def example_inputs():\n    return 1\n"),
        ("", "if __name__ == '__main__':\n    f(1)\n"),
    ):
        assert static_findings(read_source(FILE, compiled.format(above, below))) == ()


def test_no_hint_if_a_run_found_inputs_outside_the_source() -> None:
    reading = read_source(FILE, "import torch\n@torch.compile\ndef f(x):\n    return x\n")
    assert static_findings(reading, answered={"f"}) == ()


def test_an_attribute_of_objects_gets_a_hint_unless_its_module_runs() -> None:
    source = (
        "import torch\nclass A{}:\n    def __init__(self):\n        self.fast = torch.compile(self.step)\n"
        "    def step(self, x):\n        return x\n"
    )
    (finding,) = static_findings(read_source(FILE, source.format("")))
    assert "`# fuselight: A().fast(...)`" in finding.message
    assert static_findings(read_source(FILE, source.format("(torch.nn.Module)"))) == ()


MADE_INSIDE = "import torch\n{}def train(x, n=2):\n    model = torch.compile(torch.nn.ReLU())\n    model(x)\n"


def test_an_object_created_in_a_function_gets_a_hint_to_call_the_function() -> None:
    (finding,) = static_findings(read_source(FILE, MADE_INSIDE.format("")))
    assert (finding.code, finding.span.line, finding.target) == ("FL502", 3, "train.<locals>.model")
    assert "`# fuselight: train(...)`" in finding.message
    assert finding.data == (("target", "train"),)
    annotated = MADE_INSIDE.format("# fuselight: train(f32[4])\n")
    assert static_findings(read_source(FILE, annotated)) == ()
    main = MADE_INSIDE.format("") + "if __name__ == '__main__':\n    train(1)\n"
    assert static_findings(read_source(FILE, main)) == ()


def test_no_hint_on_a_variable_whose_class_has_directives() -> None:
    source = (
        "import torch\n{}class Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
        "net = torch.compile(Net())\nhead = torch.compile(Net().head)\n"
    )
    assert [finding.target for finding in static_findings(read_source(FILE, source.format("")))] == [
        "net",
        "head",
    ]
    reading = read_source(FILE, source.format("# fuselight: Net()(f32[2])\n"))
    assert [finding.target for finding in static_findings(reading)] == ["head"]


def test_hints_are_bounded_and_other_findings_are_not() -> None:
    source = "import torch\n" + "@torch.compile\ndef f{}(x):\n    return x\n"
    text = (
        "".join(source.format(number) for number in range(5)) + "# fuselight: g(\ndef g(x):\n    return x\n"
    )
    for hints, expected in ((None, 5), (3, 3), (0, 0)):
        findings = static_findings(read_source(FILE, text), hints=hints)
        assert [finding.code for finding in findings] == ["FL501"] + ["FL502"] * expected


def test_a_target_that_is_not_compiled_needs_no_inputs() -> None:
    assert static_findings(read_source(FILE, "def f(x):\n    return x\n")) == ()


def test_an_unreadable_directive_is_marked_where_it_is_wrong_and_no_hint_is_added() -> None:
    text = "import torch\n# fuselight: f(f32[4]\n@torch.compile\ndef f(x):\n    return x\n"
    findings = static_findings(read_source(FILE, text))
    assert [finding.code for finding in findings] == ["FL501"]
    assert findings[0].span.line == 2


def test_an_ignore_silences_its_code_on_its_line_only() -> None:
    actual_findings = findings(report(breaks=(BREAK, broken(at(3, (4, 12))))))
    source = "def f(x):\n    x.item()  # fuselight: ignore[GB0170]\n    x.item()\n"
    assert [(ignore.code, ignore.span.line) for ignore in apply_ignores(actual_findings, read(source))] == [
        ("GB0170", 3)
    ]


def test_an_ignore_without_codes_silences_all() -> None:
    source = "def f(x):\n    x.item()  # fuselight: ignore\n"
    assert apply_ignores(findings(report(breaks=(BREAK,))), read(source)) == ()


def test_an_unused_ignore_is_reported_with_its_unused_code() -> None:
    source = "def f(x):\n    x.item()  # fuselight: ignore[GB0170, FL201]\n"
    (ignore,) = apply_ignores(findings(report(breaks=(BREAK,))), read(source))
    assert (ignore.code, ignore.span.line) == ("FL503", 2)
    assert ignore.data == (("code", "FL201"),)
    assert ignore.fixes == ("remove_ignore",)


def test_a_capture_does_not_call_an_ignore_of_kernel_findings_unused() -> None:
    source = (
        "def f(x):\n    x.item()  # fuselight: ignore[GB0170, FL701]\n"
        "    x.sin()  # fuselight: ignore[FL201, FL702]\n"
    )
    actual_findings = findings(report(breaks=(BREAK,)))
    (ignore,) = apply_ignores(actual_findings, read(source))
    assert (ignore.span.line, ignore.data) == (3, (("code", "FL201"),))
    remaining = apply_ignores(actual_findings, read(source), has_run=lambda _path, _origin: True)
    assert [(two.span.line, two.data) for two in remaining] == [
        (2, (("code", "FL701"),)),
        (3, (("code", "FL201"), ("code", "FL702"))),
    ]


def test_without_a_run_no_ignore_is_unused() -> None:
    source = "x = 1  # fuselight: ignore\ny = 1  # fuselight: ignore[GB0170]\n"
    assert [ignore.code for ignore in apply_ignores((), read(source))] == ["FL503", "FL503"]
    assert apply_ignores((), read(source), has_run=nothing_ran) == ()


def test_one_of_two_definitions_gets_a_hint_unless_the_other_has_inputs() -> None:
    text = (
        "import torch\nif torch.cuda.is_available():\n    @torch.compile\n    def f(x):\n        return x\nelse:\n"
        "    {}@torch.compile\n    def f(x):\n        return x + 1\n"
    )
    assert [finding.span.line for finding in static_findings(read_source(FILE, text.format("")))] == [4]
    assert static_findings(read_source(FILE, text.format("# fuselight: f(f32[4])\n    "))) == ()


def test_no_hint_on_a_compiled_forward_whose_class_has_directives() -> None:
    text = (
        "import torch\n\n# fuselight: Net()(f32[2])\nclass Net(torch.nn.Module):\n    @torch.compile\n"
        "    def forward(self, x):\n        return x\n    @torch.compile\n    def part(self, x):\n        return x\n"
    )
    assert [finding.target for finding in static_findings(read_source("m.py", text))] == ["Net.part"]
    undirected = text.replace("# fuselight: Net()(f32[2])\n", "")
    assert [finding.target for finding in static_findings(read_source("m.py", undirected))] == [
        "Net.forward",
        "Net.part",
    ]
