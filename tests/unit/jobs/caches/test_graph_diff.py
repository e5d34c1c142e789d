"""Which lines of two printed graphs differ."""

from __future__ import annotations

import pytest

from fuselight_server.jobs.caches.graph_diff import MAX_LINES, changed_lines, input_names

HEAD = 'class GraphModule(torch.nn.Module):\n    def forward(self, L_x_: "f32[4, 8][8, 1]cpu", L_y_: "f32[8]"):\n'


def graph(*lines: tuple[int, str, str]) -> str:
    """A graph of Dynamo: line of source, its text, and the statement that torch prints."""
    printed = "".join(
        f"        # File: /job/net.py:{number} in forward, code: {text}\n        {node}\n"
        for number, text, node in lines
    )
    return f"{HEAD}        l_x_ = L_x_\n        l_y_ = L_y_\n{printed}        return (out,)\n"


BASE = (
    (3, "h = x * y", 'mul: "f32[4, 8]" = l_x_ * l_y_;  l_x_ = None'),
    (4, "h = h.relu()", 'h: "f32[4, 8]" = mul.relu();  mul = None'),
    (5, "return h.sum(-1)", 'out: "f32[4]" = h.sum(-1);  h = None'),
)


def test_the_inputs_have_names_and_types() -> None:
    assert input_names(graph(*BASE)) == (("L_x_", "f32[4, 8][8, 1]cpu"), ("L_y_", "f32[8]"))


def test_other_sizes_and_names_change_nothing() -> None:
    other = graph(
        (3, "h = x * y", 'mul_7: "f32[6, 8]" = l_x_ * l_y_;  l_x_ = None'),
        (4, "h = h.relu()", 'h_2: "f32[6, 8]" = mul_7.relu();  mul_7 = None'),
        (5, "return h.sum(-1)", 'out: "f32[6]" = h_2.sum(-1);  h_2 = None'),
    )
    assert changed_lines(graph(*BASE), other) == ()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            (*BASE[:2], (5, "h = h + 1", "h_1 = h + 1"), (6, "return h.sum(-1)", "out = h_1.sum(-1)")),
            [(5, None, "h = h + 1")],
            id="an inserted line",
        ),
        pytest.param(
            (BASE[0], (4, "return h.sum(-1)", "out = mul.sum(-1)")),
            [(4, "h = h.relu()", None)],
            id="a removed line",
        ),
        pytest.param(
            (BASE[0], (4, "h = h.relu()", "h = mul.relu()"), (5, "return h.sum(0)", "out = h.sum(0)")),
            [(5, "return h.sum(-1)", "return h.sum(0)")],
            id="another argument",
        ),
        pytest.param(
            ((3, "h = x * y", "mul = l_y_ * l_x_"), *BASE[1:]),
            [(3, "l_x_ * l_y_", "l_y_ * l_x_")],
            id="swapped operands of an equal line",
        ),
    ],
)
def test_a_change_is_on_its_line_alone(
    lines: tuple[tuple[int, str, str], ...], expected: list[tuple[int, str | None, str | None]]
) -> None:
    actual = [
        (row.location and row.location.line, row.before, row.after)
        for row in changed_lines(graph(*BASE), graph(*lines))
    ]
    assert actual == expected


def test_of_large_graphs_the_first_differences_are_shown() -> None:
    def repeated(operator: str) -> str:
        lines = [(n, "x = x.act()", f"act_{n} = act_{n - 1}.{operator}()") for n in range(1, 3_000)]
        return graph(*lines)

    changes = changed_lines(repeated("relu"), repeated("gelu"))
    assert len(changes) == MAX_LINES
    assert (changes[0].before, changes[0].after) == ("act_0.relu()", "act_0.gelu()")
