"""Text edits: before and after."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuselight.shared.inputs import parse_directive
from fuselight_server.source.document import SourceDocument, read_source
from fuselight_server.source.edits import (
    TextEdit,
    insert_ignore,
    insert_inputs_stub,
    insert_mark_dynamic,
    move_directive,
    remove_ignore,
)


def applied(text: str, edits: list[TextEdit]) -> str:
    document = SourceDocument("m.py", text)
    for edit in sorted(edits, key=lambda edit: (edit.span.line, edit.span.column), reverse=True):
        span = edit.span
        assert span.column is not None
        assert span.end_line is not None
        assert span.end_column is not None
        document.edit((span.line, span.column), (span.end_line, span.end_column), edit.new_text)
    return document.text


STUBS = {
    "def f(x): ...": "f(f32[2, 8])",
    "def f(input_ids, labels, mask=None, *rest, **more): ...": "f(i64[2, 8] % 100, i64[2, 8] % 100)",
    "def f(x: torch.Tensor, n: int, p: float, /, flag: bool, *, name: str, k=1): ...": (
        'f(f32[2, 8], 8, 0.5, True, name="text")'
    ),
    'def f(x: Float[Tensor, "batch dim"], y: Int[Tensor, "batch 3"], z: Bool[Tensor, ""]): ...': (
        "f(f32[2, 8], i64[2, 3], bool[])"
    ),
    'def f(x: Float[Tensor, "*batch dim"], y: "BFloat16[Tensor, \'a=4 b\']"): ...': "f(f32[2], bf16[4, 8])",
    "def f(x: Optional[Tensor], y: Tensor | None, z: list[Tensor], w: dict[str, Tensor], v: tuple[int, ...]): ...": (
        'f(f32[2, 8], f32[2, 8], [f32[2, 8]], {"x": f32[2, 8]}, (8,))'
    ),
    "def f(config: Config, ids: torch.LongTensor, a: Any): ...": "f(Config(), i64[2, 8] % 100, f32[2, 8])",
    "class f(torch.nn.Module):\n    def forward(self, x): ...": "f()(f32[2, 8])",
    "class f(torch.nn.Module):\n    def __init__(self, dim, dropout, use_bias, *, depth: int): ...\n"
    "    def forward(self, x, *, scale): ...": "f(8, 0.1, True, depth=8)(f32[2, 8], scale=f32[2, 8])",
    "def g(ids, n: int): ...\nf = torch.compile(g)": "f(i64[2, 8] % 100, 8)",
    "class G(torch.nn.Module):\n    def forward(self, ids): ...\nf = torch.compile(G())": "f(i64[2, 8] % 100)",
    "class G(torch.nn.Module):\n    def __init__(self, width): ...\n    def forward(self, ids, scale=1): ...\n"
    "class f(G): ...": "f(8)(i64[2, 8] % 100)",
    "if True:\n    def f(x: int, *, y: 'Tensor | None'): ...": "f(8, y=f32[2, 8])",
    "f = torch.compile(lambda x: x)": "f(f32[2, 8])",
    "@dataclass\nclass Plan:\n    steps: int\n    rate: float\n    top: int = 3\n"
    "def f(x, plan: Plan, other: 'Plan | None', more: Optional[Plan]): ...": (
        "f(f32[2, 8], Plan(steps=8, rate=0.5), Plan(steps=8, rate=0.5), Plan(steps=8, rate=0.5))"
    ),
    "class Mode(Enum):\n    FAST = 1\n    SLOW = 2\n@dataclass\nclass Plan:\n    mode: Mode\n"
    "def f(mode: Mode, plan: Plan, *, default: Plan = None): ...": "f(Mode.FAST, Plan(mode=Mode.FAST))",
    "class Link:\n    def __init__(self, width, after: 'Link'): ...\ndef f(link: Link): ...": (
        "f(Link(width=8, after=Link(width=8, after=Link(width=8, after=Link(width=8, after=Link())))))"
    ),
}


@pytest.mark.parametrize("definition", STUBS)
def test_a_stub_for_each_kind_of_signature(definition: str) -> None:
    source = f"import torch\n{definition}\n"
    reading = read_source("m.py", source)
    target = next(target for target in reading.targets if target.name == "f")
    after = applied(source, insert_inputs_stub(source, target))
    written = read_source("m.py", after)
    assert [d.text for t in written.targets if t.name == "f" for d in t.directives] == [STUBS[definition]]
    parse_directive(STUBS[definition])
    assert written.directive_problems == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(x): ...  # fuselight: f(1)\n", "# fuselight: f(1)\ndef f(x): ...\n"),
        (
            "import a\n@a\ndef f(x):\n    # fuselight: f(1)\n    return x\n",
            "import a\n# fuselight: f(1)\n@a\ndef f(x):\n    return x\n",
        ),
        ("f = g()  # why  # fuselight: f(1)", "# fuselight: f(1)\nf = g()  # why"),
    ],
)
def test_a_misplaced_directive_is_moved_to_its_target(before: str, after: str) -> None:
    (problem,) = read_source("m.py", before).directive_problems
    assert problem.move_above is not None
    moved = applied(before, move_directive("m.py", before, problem.span.line, problem.move_above))
    assert moved == after
    reading = read_source("m.py", moved)
    assert reading.directive_problems == ()
    assert [d.text for t in reading.targets for d in t.directives] == ["f(1)"]


def test_a_stub_keeps_indentation_line_ends_and_decorators() -> None:
    source = "class N(torch.nn.Module):\r\n\t@torch.compile\r\n\tdef step(self, x): ...\r\nimport torch\r\n"
    target = next(target for target in read_source("m.py", source).targets if target.name == "N.step")
    assert applied(source, insert_inputs_stub(source, target)) == source.replace(
        "\t@", "\t# fuselight: N().step(f32[2, 8])\r\n\t@"
    )


def test_a_stub_after_a_byte_order_mark_and_next_to_broken_code() -> None:
    source = "\ufeffdef f(x): ...\ny = (\ndef g(\n"
    (target, *_) = read_source("m.py", source).targets
    assert applied(source, insert_inputs_stub(source, target)).startswith(
        "\ufeff# fuselight: f(f32[2, 8])\ndef f"
    )


@given(st.text(alphabet="abc:=,*/()[]|\"' TensorFloatint.", max_size=40))
@settings(max_examples=80, deadline=None)
def test_every_signature_that_parses_gets_a_readable_directive(parameters: str) -> None:
    source = f"def f({parameters}): ...\n"
    try:
        cst.parse_module(source)
    except cst.ParserSyntaxError:
        return
    targets = read_source("m.py", source).targets
    if targets:
        (edit,) = insert_inputs_stub(source, targets[0])
        parse_directive(edit.new_text.removeprefix("# fuselight: ").rstrip("\n"))


MARKED = [
    ("y = model(x)", "torch._dynamo.mark_dynamic(x, 0)\ny = model(x)"),
    ("y = model(3, x=batch)", "torch._dynamo.mark_dynamic(batch, 0)\ny = model(3, x=batch)"),
    ("if model(x).any():\n    pass", "torch._dynamo.mark_dynamic(x, 0)\nif model(x).any():\n    pass"),
    ("with a(model(x)):\n    pass", "torch._dynamo.mark_dynamic(x, 0)\nwith a(model(x)):\n    pass"),
    ("for b in model(x): pass", "torch._dynamo.mark_dynamic(x, 0)\nfor b in model(x): pass"),
    ("y = f(model(x))  # kept", "torch._dynamo.mark_dynamic(x, 0)\ny = f(model(x))  # kept"),
    ("y = model(x.cuda())", None),
    ("y = model(*x)", None),
    ("y = model()", None),
    ("y = model(x) + model(z)", None),
    ("y = [model(x) for x in xs]", None),
    ("y = lambda x: model(x)", None),
    ("while model(x): pass", None),
    ("if a: model(x)", None),
    ("y = a and model(x)", None),
    ("if a:\n    pass\nelif model(x):\n    pass", None),
    ("y = (", None),
]


@pytest.mark.parametrize(("before", "after"), MARKED)
def test_mark_dynamic(before: str, after: str | None) -> None:
    head = "import torch\ndef run(xs, x, batch):\n"
    source = head + textwrap.indent(before, "    ") + "\n"
    line = next(
        n for n, text in enumerate(source.splitlines(), 1) if n > 2 and ("model" in text or "(" in text)
    )
    edits = insert_mark_dynamic(
        "m.py", source, line, parameter="x", dimension=0, parameters=("x", "mask"), callee="model"
    )
    assert applied(source, edits) == (
        source if after is None else head + textwrap.indent(after, "    ") + "\n"
    )
    if after is not None:
        marked = applied(source, edits)
        again = insert_mark_dynamic(
            "m.py", marked, line + 1, parameter="x", dimension=0, parameters=("x",), callee="model"
        )
        assert again == []


NESTED = "import torch\ny = h(x, g(ö, x), torch.ones(n))\n"


@pytest.mark.parametrize(
    ("call", "argument"),
    [("h(x, g(ö, x), torch.ones(n))", "x"), ("g(ö, x)", "ö"), ("torch.ones(n)", "n"), (None, None)],
)
def test_the_columns_of_a_call_choose_it(call: str | None, argument: str | None) -> None:
    line = NESTED.splitlines()[1]
    column = len(line[: line.index(call)].encode()) if call else None
    end_column = column + len(call.encode()) if call and column is not None else None
    edits = insert_mark_dynamic(
        "m.py", NESTED, 2, parameter="x", dimension=0, parameters=("x",), column=column, end_column=end_column
    )
    statement = f"torch._dynamo.mark_dynamic({argument}, 0)\n" if argument else ""
    assert applied(NESTED, edits) == NESTED.replace("y =", f"{statement}y =")


def test_a_nested_call_is_not_an_unnamed_argument() -> None:
    source = "import torch\nf(torch.ones(rows, 8))\n"
    assert insert_mark_dynamic("m.py", source, 2, parameter="x", dimension=0, parameters=("x",)) == []


def test_mark_dynamic_uses_the_files_name_for_torch() -> None:
    source = "import torch as t\nmodel(\n    x,\n)\n"
    edits = insert_mark_dynamic("m.py", source, 3, parameter="x", dimension=1, parameters=("x",))
    assert applied(source, edits) == "import torch as t\nt._dynamo.mark_dynamic(x, 1)\nmodel(\n    x,\n)\n"


def test_mark_dynamic_adds_a_missing_import_of_torch() -> None:
    source = '"""Doc."""\nfrom __future__ import annotations\nimport model\n\nmodel(x)\n'
    edits = insert_mark_dynamic("m.py", source, 5, parameter="x", dimension=0, parameters=("x",))
    assert applied(source, edits) == (
        '"""Doc."""\nfrom __future__ import annotations\nimport torch\nimport model\n\n'
        "torch._dynamo.mark_dynamic(x, 0)\nmodel(x)\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1", "x = 1  # fuselight: ignore[FL201]"),
        ("x = 1   ", "x = 1  # fuselight: ignore[FL201]"),
        ("x = 1  # why", "x = 1  # why  # fuselight: ignore[FL201]"),
        ("x = 1  # fuselight: ignore[GB1]  # why", "x = 1  # fuselight: ignore[GB1, FL201]  # why"),
        ("x = 1  # fuselight: ignore[FL201]", None),
        ("x = 1  # fuselight: ignore", None),
        ("x = f(a,", "x = f(a,  # fuselight: ignore[FL201]"),
        ("x = 1 + \\", None),
        ("x = '''a", None),
        ("x = f'''a {b}", None),
        ("x = '''a'''", "x = '''a'''  # fuselight: ignore[FL201]"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_insert_ignore(before: str, after: str | None, end: str) -> None:
    rest = {"x = f(a,": f"{end}b){end}", "x = 1 + \\": f"{end}2{end}", "x = '''a": f"{end}'''{end}"}
    rest["x = f'''a {b}"] = f"{end}'''{end}"
    source = "import torch" + end + before + rest.get(before, end)
    wanted = source if after is None else source.replace(before, after)
    assert applied(source, insert_ignore("m.py", source, 2, "FL201")) == wanted


@pytest.mark.parametrize(
    ("before", "code", "after"),
    [
        ("x = 1  # fuselight: ignore[GB1]", "GB1", "x = 1"),
        ("x = 1  # fuselight: ignore[GB1, FL201, GB2]", "FL201", "x = 1  # fuselight: ignore[GB1, GB2]"),
        ("x = 1  # why  # fuselight: ignore[GB1]", "GB1", "x = 1  # why"),
        ("x = 1  # fuselight: ignore[GB1, GB2]", None, "x = 1"),
        ("x = 1  # fuselight: ignore", None, "x = 1"),
        ("x = 1  # fuselight: ignore[GB1]", "GB2", "x = 1  # fuselight: ignore[GB1]"),
        ("x = 1", None, "x = 1"),
    ],
)
def test_remove_ignore(before: str, code: str | None, after: str) -> None:
    source = f"é = 0\n{before}\ny = 2\n"
    assert applied(source, remove_ignore("m.py", source, 2, code)) == f"é = 0\n{after}\ny = 2\n"


def test_removing_a_lone_ignore_removes_its_line() -> None:
    source = "a = 1\n    # fuselight: ignore[GB1]\nb = 2\n"
    assert applied(source, remove_ignore("m.py", source, 2, "GB1")) == "a = 1\nb = 2\n"


def test_lines_that_are_missing_get_no_edit() -> None:
    assert insert_ignore("m.py", "a = 1\n", 9, "GB1") == []


def test_the_empty_last_line_takes_an_ignore() -> None:
    assert applied("a = 1\n", insert_ignore("m.py", "a = 1\n", 2, "GB1")) == "a = 1\n# fuselight: ignore[GB1]"
    assert remove_ignore("m.py", "a = 1\n", 9) == []
    assert insert_mark_dynamic("m.py", "a = 1\n", 9, parameter="x", dimension=0, parameters=("x",)) == []
