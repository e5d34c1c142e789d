"""Ids of graph breaks in logs of releases that print none."""

from __future__ import annotations

import pytest

from fuselight_server.explain.findings.breaks.break_texts import title_of
from fuselight_server.jobs.trace_log.break_ids import read_registered_reasons

_NOTE = (
    "This function is either a Python builtin (e.g. _warnings.warn) or a third-party C/C++ Python extension"
)


@pytest.mark.parametrize(
    ("printed", "gb_id", "title"),
    [
        ("Unsupported: Tensor.item", "GB0124", "`.item()` converts a tensor to a Python number"),
        ("Data-dependent jump", "GB0170", "a branch depends on the data of a tensor"),
        (
            "Unsupported: dynamic shape operator: aten.masked_select.default; to enable, set x = 1",
            "GB0036",
            "the shape of the result of `masked_select` depends on the tensor's data",
        ),
        (
            "Unsupported: data dependent operator: aten.equal.default",
            "GB0033",
            "`equal` returns a Python number that depends on the tensor's data",
        ),
        (
            "Unsupported: builtin: input [<class 'torch._dynamo.variables.constant.ConstantVariable'>] False",
            "GB0059",
            "`input` cannot be traced",
        ),
        (
            f"Unsupported: Graph break due to unsupported builtin time.sleep. {_NOTE}",
            "GB0007",
            "`time.sleep` is not traced by torch.compile",
        ),
        (
            f"Unsupported: Graph break due to unsupported builtin None.Random.gauss. {_NOTE}",
            "GB0007",
            "`Random.gauss` is not traced by torch.compile",
        ),
        (
            "Unsupported: Graph break due to unsupported Python builtin _warnings.warn. Please file an issue. ",
            "GB0007",
            "`warnings.warn` is not traced by torch.compile",
        ),
        (
            "Unsupported: Logger not supported for non-export cases. To avoid graph breaks, disable logging",
            "GB0291",
            "logging calls are not traced",
        ),
        (
            "Unsupported: call torch._dynamo.disable() wrapped function <function Loader.fetch at 0x7fa849339b20>",
            "GB0098",
            "calls `Loader.fetch`, which is marked torch.compiler.disable",
        ),
        (
            "Unsupported: 'skip function graph_break in file /venv/site-packages/torch/_dynamo/decorators.py'",
            "GB0025",
            "requested by torch._dynamo.graph_break()",
        ),
        (
            "Unsupported: Input tensor for tolist must be an integer tensor",
            "GB0109",
            "`tolist()` of a tensor that does not hold integers",
        ),
        ("Unsupported: Tensor.backward", "GB0123", "`.backward()` is called in the compiled region"),
    ],
)
def test_a_reason_of_torch_2_6_has_the_id_of_later_releases(printed: str, gb_id: str, title: str) -> None:
    (reason,) = read_registered_reasons(printed)
    assert reason.gb_id == gb_id
    assert title_of(reason.gb_id, reason.title, reason.explanation) == title
    assert reason.context == printed.removeprefix("Unsupported: ").strip()


@pytest.mark.parametrize(
    "printed",
    [
        "Unsupported: tobytes is not modelled in torch._numpy",
        "Unsupported: call_method Tensor.itemize",
        "Unsupported: 'skip function graph_break in file /job/own.py'",
        "generic_jump of something else",
    ],
)
def test_another_reason_keeps_torchs_text_without_an_id(printed: str) -> None:
    (reason,) = read_registered_reasons(printed)
    assert (reason.gb_id, reason.explanation) == (None, "")
    assert reason.title == printed.removeprefix("Unsupported: ")


def test_a_title_of_the_registry_has_its_id_where_none_is_printed() -> None:
    text = (
        "Unsupported context manager\n  Explanation: Dynamo does not know how to enter a `Timer` context manager.\n"
        "  Hint: Avoid using the unsupported context manager.\n\n  Developer debug context: Timer\n"
    )
    (reason,) = read_registered_reasons(text)
    assert reason.gb_id == "GB0142"
    chain = read_registered_reasons("Data-dependent branching\n  Explanation: E.\n")
    assert [link.gb_id for link in chain] == ["GB0170"]
    (numbered,) = read_registered_reasons(
        "Data-dependent branching\n\n For more details about this graph break, please visit: https://x.y/gb/gb0999.html"
    )
    assert numbered.gb_id == "GB0999"  # that of the log counts
