"""Helpers that become operators: the text before, and the text after."""

from __future__ import annotations

import pytest

from fuselight_server.fixes.rewrites.families import FixClass, rewrites
from fuselight_server.fixes.rewrites.helpers import operator_space
from tests.support.offered_remedies import finding_at, offered

BODY = "    return torch.from_numpy(np.sort(x.detach().numpy(), axis=1))\n"
HELPER = f"@torch.compiler.disable\ndef helper(x: torch.Tensor):\n{BODY}"
CALLER = "\n\ndef f(y):\n    return helper(y) + 1\n"


def text(helper: str = HELPER, caller: str = CALLER) -> str:
    return f"import numpy as np\nimport torch\n\n\n{helper}{caller}"


def kinds(program: str, mark: str = "helper(y)") -> list[str]:
    return [remedy.kind for remedy in offered(program, mark, "GB0098", is_traced=False)]


def test_a_disabled_function_becomes_an_operator() -> None:
    (remedy,) = offered(text(), "helper(y)", "GB0098")
    assert remedy.texts["m.py"] == text(
        '@torch.library.custom_op("m::helper", mutates_args=())\n'
        "def helper_operator(x: torch.Tensor) -> torch.Tensor:\n"
        "    return torch.from_numpy(np.sort(x.detach().numpy(), axis=1)).contiguous()\n\n\n"
        "@helper_operator.register_fake\ndef _(x):\n    return x.new_empty(x.shape)\n\n\n"
        "def helper(x: torch.Tensor) -> torch.Tensor:\n    return helper_operator(x).detach()\n"
    )
    words = "resolves the lazy conjugation of tensors and returns contiguous tensors"
    assert remedy.caveat == f"`helper` takes only `x: torch.Tensor`, {words}"
    assert remedy.fix_class is FixClass.EQUAL


def test_a_helper_that_fails_for_gradients_stays() -> None:
    program = text(HELPER.replace("x.detach().numpy()", "x.numpy()"))
    finding, report = finding_at(program, "helper(y)", "GB0098")
    assert offered(program, "helper(y)", "GB0098") == ()
    (refusal,) = rewrites(finding, report, {"m.py": program}.get).refused
    assert refusal.reason == "`helper` fails where `x` requires a gradient, and an operator would not"


@pytest.mark.parametrize(
    "helper",
    [
        HELPER.replace("disable\n", 'disable(reason="NumPy")\n'),
        HELPER.replace("compiler.disable", "_dynamo.disable"),
        HELPER.replace(
            BODY,
            f'    """Sort."""\n    rows = x.detach().numpy()\n{BODY.replace("x.detach().numpy()", "rows")}',
        ),
        HELPER.replace("np.sort(x.detach().numpy(), axis=1)", "np.flip(x.detach().numpy()).copy()"),
        HELPER.replace(") ->", ")").replace("x: torch.Tensor):", "x: torch.Tensor) -> torch.Tensor:"),
    ],
)
def test_forms_of_helpers_that_fit(helper: str) -> None:
    assert kinds(text(helper)) == ["custom_op"]


NOT_CERTAIN = {
    "another shape": HELPER.replace("np.sort(x.detach().numpy(), axis=1)", "np.unique(x.detach().numpy())"),
    "another dtype": HELPER.replace("np.sort(x.detach().numpy(), axis=1)", "np.sqrt(x.detach().numpy())"),
    "a flat sort": HELPER.replace("axis=1", "axis=None"),
    "a sort with a key of a structured array": HELPER.replace("axis=1", 'order="a"'),
    "a view of the argument": HELPER.replace(
        "np.sort(x.detach().numpy(), axis=1)", "np.ascontiguousarray(x.detach().numpy())"
    ),
    "a name for a view": HELPER.replace(
        BODY, "    y = np.flip(x.detach().numpy())\n    return torch.from_numpy(np.ascontiguousarray(y))\n"
    ),
    "random numbers on the way": HELPER.replace(BODY, f"    seed = np.random.rand()\n{BODY}"),
    "no NumPy": HELPER.replace(BODY, "    return x.clone()\n"),
    "two ways out": HELPER.replace(BODY, f"    if x.ndim > 1:\n    {BODY}{BODY}"),
    "another decorator": "@functools.cache\n" + HELPER,
    "not recursive": HELPER.replace("disable\n", "disable(recursive=False)\n"),
    "an argument of unknown type": HELPER.replace("x: torch.Tensor", "x"),
    "an annotation that operators do not take": HELPER.replace("x: torch.Tensor", "x: Rows"),
    "a default": HELPER.replace("x: torch.Tensor", "x: torch.Tensor = None"),
    "a comment in the signature": HELPER.replace("x: torch.Tensor", "\n    x: torch.Tensor,  # rows\n"),
    "defined twice": f"{HELPER}\n\n{HELPER}",
    "assigned": f"{HELPER}\n\nhelper = print\n",
}


@pytest.mark.parametrize("helper", NOT_CERTAIN.values(), ids=NOT_CERTAIN)
def test_no_operator_whose_shape_rule_is_not_certain(helper: str) -> None:
    assert kinds(text(helper)) == []


def test_files_of_one_name_have_operators_of_their_own() -> None:
    assert operator_space("/a/audio-net/utils.py") == "audio_net_utils"
    assert operator_space("text/utils.py") == "text_utils"
    assert operator_space("utils.py") == "utils"
