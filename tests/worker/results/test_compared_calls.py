"""Calls of compiled functions are made in eager mode, too, and compared: what is wrong is on its line."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Aspect, RandomDraws
from tests.support.compared_programs import HEAD, LINE, compared, one_call
from tests.support.live_worker import LiveWorker

WRONG = {
    "windows of a view, changed in place": (
        """\
def f(x):
    x.unfold(1, 1, 5).mul_(2.0)
    return x + 0.0
if __name__ == "__main__":
    aot(f)(torch.arange(1.0, 25.0).reshape(4, 6))
""",
        "output differs",
        2,
    ),
    "a size that is rounded": (
        """\
def f(x):
    return x * round(x.shape[0] * 5, -1)
if __name__ == "__main__":
    aot(f, dynamic=True)(torch.ones(3))
""",
        "output differs",
        None,
    ),
    "a decomposition that is a little off": (
        """\
from torch._inductor.decomposition import decompositions
right = decompositions.get(torch.ops.aten.silu.default)
@functools.wraps(right)
def off(x):
    return x * torch.sigmoid(x) * 1.002
torch._inductor.decomposition.decompositions[torch.ops.aten.silu.default] = off
torch._inductor.decomposition.fast_random_decomps.cache_clear()
def f(x):
    y = x.sin()
    z = nn.functional.silu(y)
    return z.cos()
if __name__ == "__main__":
    torch.compile(f, backend="aot_eager_decomp_partition")(torch.linspace(-3, 3, 64))
""",
        "output differs",
        10,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found_on_its_line(live: LiveWorker, name: str) -> None:
    body, words, line = WRONG[name]
    call = one_call(live, body, locate_seconds=60.0)
    assert call.accuracy.passed is False
    assert words in call.accuracy.why
    assert call.location is not None
    if line is not None:
        assert call.accuracy.first[-1].line == LINE + line
    else:
        assert "the capture is wrong" in call.accuracy.why


def test_only_the_second_compile_is_wrong(live: LiveWorker) -> None:
    body = """\
def make(op):
    def apply(x, y):
        return op(x, y)
    return apply
if __name__ == "__main__":
    for op in (torch.Tensor.__add__, torch.Tensor.__mul__):
        aot(make(op))(torch.tensor([6.0]), torch.tensor([3.0]))
"""
    first, second = compared(live, body).calls
    assert first.is_as_eager
    assert second.accuracy.passed is False
    assert (first.name, first.caller and first.caller.line) == ("make.<locals>.apply", LINE + 7)


def test_versions_that_only_the_comparison_needs_do_not_fill_the_recompile_limit(live: LiveWorker) -> None:
    """torch loses the `maxlen` of the deque; at its limit of versions the call runs in eager mode, which is right."""
    body = """\
torch._dynamo.config.recompile_limit = 4
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = collections.deque([1.0, 1.0], maxlen=2)
    def forward(self, x):
        n = x.norm()
        self.norms.append(float(n))
        if len(self.norms) == self.norms.maxlen and n > 2:
            x = x / n
        return x.sin()
if __name__ == "__main__":
    import collections
    net = aot(Net())
    for scale in (1.0, 1.1, 9.0):
        net(torch.full((2,), scale))
"""
    first, second, third = compared(live, body).calls
    assert first.is_as_eager
    assert second.is_as_eager
    assert third.accuracy.passed is False


def test_only_the_gradient_is_wrong(live: LiveWorker) -> None:
    body = """\
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (3 if torch.compiler.is_compiling() else 2) * x
def f(x):
    return Square.apply(x)
if __name__ == "__main__":
    x = torch.ones(3, requires_grad=True)
    y = aot(f)(x * 1.0)
    y.sum().backward()
    print(x.grad)
"""
    call = one_call(live, body)
    assert call.accuracy.passed is False
    assert call.accuracy.why.startswith("gradient of input 0 differs")


def test_state_that_compiled_code_does_not_follow(live: LiveWorker) -> None:
    body = """\
class Config:
    scale = 1.0
config = Config()
@torch.compiler.assume_constant_result
def scale():
    return config.scale
def f(x):
    return x * scale()
if __name__ == "__main__":
    compiled = aot(f)
    for config.scale in (1.0, 2.0):
        compiled(torch.ones(3))
"""
    first, second = compared(live, body).calls
    assert first.is_as_eager
    assert second.accuracy.passed is False


TRACED = {
    "a constant": """\
class Config:
    scale = 1.0
config = Config()
@torch.compiler.assume_constant_result
def scale():
    return config.scale
def f(x):
    y = x.sin()
    z = y * scale()  # here
    return z.cos()
if __name__ == "__main__":
    compiled = torch.compile(f)
    for config.scale in (1.0, 2.0):
        compiled(torch.ones(3))
""",
    "a method that no guard names": """\
def make(op):
    def apply(x, y):
        x = x + 1
        x = op(x, y)  # here
        return x * 2
    return apply
if __name__ == "__main__":
    for op in (torch.Tensor.__add__, torch.Tensor.__mul__):
        torch.compile(make(op))(torch.tensor([6.0]), torch.tensor([3.0]))
""",
    "a global that a nested region keeps": """\
class Carry:
    pass
carry = Carry()
carry.total = torch.zeros(3)
@torch.compiler.nested_compile_region
def shifted():
    return carry.total.tanh() + 1.5  # here
def f(x):
    global carry
    for _ in range(2):
        carry = Carry()
        carry.total = x
        x = shifted()
    return x * 2
if __name__ == "__main__":
    torch.compile(f)(torch.ones(3))
""",
    "a size that is rounded": """\
def scaled(x):
    n = round(x.shape[0] * 5, -1)  # here
    return x * n
def f(x):
    return scaled(x.exp()).log()
if __name__ == "__main__":
    torch.compile(f, dynamic=True)(torch.ones(3))
""",
}

BRANCHES = {
    "a branch that was left": """\
class Mode:
    fast = True
def f(x):
    y = x.sin()
    if Mode.fast:  # here
        return y * 2
    return y.exp() + 1
""",
    "a branch that only eager mode runs": """\
class Mode:
    fast = True
def f(x):
    y = x.sin()
    if not Mode.fast:  # here
        y = y * 3
    return y.cos()
""",
    "a number of a branch that was left": """\
class Mode:
    fast = True
def f(x):
    strength = 0.5
    if Mode.fast:  # here
        strength = 3.0
    return (x.sin() * strength).sum()
""",
    "another order of a loop": """\
class Mode:
    fast = True
def parts():
    return ("a", "b") if Mode.fast else ("b", "a")
def f(x):
    for name in parts():  # here
        if name == "a":
            x = x * 3
        else:
            x = x + 1
    return x
""",
    "another method": """\
class Mode:
    fast = True
    def scale(self, x):
        return x * 2
def other(self, x):
    return x * 3
mode = Mode()
def f(x):
    y = x.sin()
    if not Mode.fast:
        pass
    return mode.scale(y).cos()  # here
""",
}


@pytest.mark.parametrize("name", BRANCHES)
def test_another_way_of_eager_mode_is_on_the_statement_that_decides(live: LiveWorker, name: str) -> None:
    body = f"""{BRANCHES[name]}
if __name__ == "__main__":
    compiled = torch.compile(f, options={{"guard_filter_fn": lambda guards: [False for _ in guards]}})
    for Mode.fast in (True, False):
        compiled(torch.ones(3))
        if {name == "another method"}:
            Mode.scale = other
"""
    *_, last = compared(live, body, backend="eager", locate_seconds=30.0).calls
    assert last.accuracy.passed is False
    assert f"{HEAD}{body}".splitlines()[last.accuracy.first[-1].line - 1].endswith("# here")
    assert last.accuracy.first_why


def test_code_that_was_compiled_for_another_state_is_on_its_line(live: LiveWorker) -> None:
    body = """\
scale = [2.0]
@torch.compiler.allow_in_graph
def scaled(x):
    return x * scale[0]
def f(x):
    y = x.sin()
    z = scaled(y) + 1.0  # here
    return z.cos()
if __name__ == "__main__":
    compiled = torch.compile(f)
    for scale[0] in (2.0, 5.0):
        compiled(torch.ones(3))
"""
    *_, last = compared(live, body, backend="aot_eager", locate_seconds=30.0).calls
    assert last.accuracy.passed is False
    assert f"{HEAD}{body}".splitlines()[last.accuracy.first[-1].line - 1].endswith("# here")


BACKWARDS = {
    "a global that changes": (
        "return grad * Mode.weight  # here\n",
        "Mode.weight = 3.0; loss(value).backward()",
        "compiled code uses values that were current in the forward",
    ),
    "no gradient of an output": (
        "if other is None:  # here\n            return grad * 5\n        return grad * Mode.weight + other\n",
        "value[0].sum().backward()",
        "compiled code passes zeros where eager mode passes no gradient",
    ),
    "nothing that is read": ("return grad * 2\n", "Mode.weight = 3.0; loss(value).backward()", None),
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_the_backward_of_the_program_is_compared_in_the_state_of_its_time(
    live: LiveWorker, name: str
) -> None:
    backward, run, why = BACKWARDS[name]
    body = f"""\
class Mode:
    weight = 1.0
def loss(value):
    return sum(part.sum() for part in value)
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 1
    @staticmethod
    def backward(ctx, grad, other):
        {backward}
def f(x):
    return Own.apply(x.sin())
if __name__ == "__main__":
    compiled, kept = torch.compile(f), []
    for _ in range(2):
        Mode.weight = 1.0
        x = torch.ones(3, requires_grad=True)
        value = compiled(x)
        {run}
        kept.append((x.grad.tolist(), Mode.weight))
    assert kept[0] == kept[1], "as without a comparison"
"""
    calls = compared(live, body, backend="eager", locate_seconds=30.0).calls
    assert [call.accuracy.passed for call in calls] == [why is None] * 2
    if why is not None:
        assert why in calls[0].accuracy.why
        first = calls[0].accuracy.first
        assert f"{HEAD}{body}".splitlines()[first[-1].line - 1].endswith("# here")


CACHED = """\
@functools.{cache}
def table(size):
    return torch.ones(size)
def f(x):
    y = table(3)  # here
    {change}
    return y * x
if __name__ == "__main__":
    compiled = torch.compile(f)
    for _ in range(2):
        compiled(torch.ones(3))
"""


@pytest.mark.parametrize("cache", ["cache", pytest.param("lru_cache(maxsize=2)", marks=pytest.mark.corpora)])
@pytest.mark.parametrize(("change", "passed"), [("y.mul_(2)", False), ("y = y + 1", True)])
def test_a_cache_of_functools_decides_by_a_second_call(
    live: LiveWorker,
    cache: str,
    change: str,
    passed: bool,  # noqa: FBT001 - both cases
) -> None:
    body = CACHED.format(cache=cache, change=change)
    first, second = compared(live, body, backend="eager", locate_seconds=30.0).calls
    assert [first.accuracy.passed, second.accuracy.passed] == [passed] * 2, first.accuracy.why
    if not passed:
        assert "eager mode keeps a result in the cache of `table`" in first.accuracy.why
        assert f"{HEAD}{body}".splitlines()[first.accuracy.first[-1].line - 1].endswith("# here")


def test_a_wrong_kernel_is_named_next_to_the_line(live: LiveWorker) -> None:
    body = """\
from torch._inductor.select_algorithm import extern_kernels
def off(x, y, out):
    torch.mm(x, y, out=out).mul_(1.01)
extern_kernels.mm = off
def f(x, weight):
    return torch.mm(x, weight)  # here
if __name__ == "__main__":
    torch.compile(f)(torch.rand(4, 8), torch.rand(8, 8))
"""
    call = one_call(live, body, locate_seconds=30.0)
    assert call.accuracy.first_kernel == "extern_kernels.mm"
    assert call.accuracy.replay is not None
    assert call.accuracy.replay.judged == 1
    assert f"{HEAD}{body}".splitlines()[call.accuracy.first[-1].line - 1].endswith("# here")


@pytest.mark.parametrize("name", TRACED)
def test_what_is_traced_wrong_is_on_the_line_whose_value_differs(live: LiveWorker, name: str) -> None:
    *_, last = compared(live, TRACED[name], backend="eager", locate_seconds=30.0).calls
    marked = f"{HEAD}{TRACED[name]}".splitlines()
    assert last.accuracy.passed is False
    assert marked[last.accuracy.first[-1].line - 1].endswith("# here")


def test_a_small_result_is_compared_next_to_its_size(live: LiveWorker) -> None:
    body = """\
from torch._inductor.decomposition import decompositions
@functools.wraps(decompositions[torch.ops.aten.silu.default])
def off(x):
    return x * torch.sigmoid(x) * 1.01
decompositions[torch.ops.aten.silu.default] = off
torch._inductor.decomposition.fast_random_decomps.cache_clear()
def f(x):
    return nn.functional.silu(x)
if __name__ == "__main__":
    decomposed(f)(torch.linspace(-1, 1, 64) * 1e-7)
"""
    call = one_call(live, body)
    assert call.accuracy.passed is False
    assert call.accuracy.why.startswith("output is off by 0.01 of its root mean square")


def test_text_that_only_eager_mode_prints_is_a_difference(live: LiveWorker) -> None:
    body = """\
def f(x):
    if not torch.compiler.is_compiling():
        print("in eager mode")
    return x + 1
if __name__ == "__main__":
    aot(f)(torch.ones(2))
"""
    call = one_call(live, body)
    assert call.accuracy.passed is True
    assert [(other.aspect, other.text) for other in call.others] == [
        (Aspect.PRINTED, "compiled code does not print `in eager mode`")
    ]


OPERATORS = """\
@torch.library.custom_op("tests::shift", mutates_args=())
def shift(x: torch.Tensor) -> torch.Tensor:
    return x + 1
@torch.library.custom_op("tests::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    {body}
@shift.register_fake
@scale.register_fake
def _(x):
    return torch.empty_like(x)
def f(x):
    y = x * 2.0
    z = scale(shift(y) if {shifts} else y)
    return y + 1.0, torch.stack([z, z])
def early(gm, _inputs):
    nodes = {{node.target: node for node in gm.graph.nodes}}
    nodes[torch.ops.aten.mul.Tensor].append(nodes[torch.ops.aten.add.Tensor])
    gm.recompile()
    return gm
if __name__ == "__main__":
    from torch._dynamo.backends.common import aot_autograd
    torch.compile(f, backend={backend})(torch.linspace(1, 2, 4))
"""
"""Its backend adds before the operator is called, as Inductor does."""


@pytest.mark.parametrize(
    ("body", "shifts", "check", "words"),
    [
        ("n = x.norm(); x.div_(n); return n.expand(4).clone()", False, "test_schema", "was mutated"),
        pytest.param("return x.double()", True, "test_faketensor", "not equal", marks=pytest.mark.corpora),
    ],
)
def test_a_custom_operator_that_is_declared_wrong_is_named(
    live: LiveWorker, body: str, *, shifts: bool, check: str, words: str
) -> None:
    # Only Inductor believes the declared dtype.
    backend = "'inductor'" if "double" in body else "aot_autograd(fw_compiler=early)"
    call = one_call(live, OPERATORS.format(body=body, shifts=shifts, backend=backend))
    assert call.accuracy.passed is False
    (fault,) = call.operators
    assert (fault.name, fault.check) == ("tests::scale", check)
    assert words in fault.why
    assert fault.stack[-1].line == LINE + 13


RANDOM = """\
class Other:
    def __init__(self, change):
        self.change = change
    def __call__(self, gm, _inputs):
        return lambda *given: (self.change(torch.empty_like(gm(*given)[0])),)
def f(x):
    return torch.rand_like(x)
def g(x):
    return torch.rand_like(x)
if __name__ == "__main__":
    torch.compile(f, backend=Other(lambda y: y.uniform_(0, 0.5)))(torch.ones(64, 8))
    torch.compile(g, backend=Other(lambda y: 1 - y.uniform_()))(torch.ones(64, 8))
"""


def test_random_numbers_are_compared_as_distributions(live: LiveWorker) -> None:
    other, same = compared(live, RANDOM).calls
    assert other.accuracy.passed is None
    assert other.draws is not None
    assert other.draws.why.startswith("output has another distribution: its mean is 0.2")
    assert [place.line - LINE for place in other.draws.first] == [11, 7]
    assert other.draws.operator == "rand_like"
    assert (same.accuracy.passed, same.draws) == (None, RandomDraws(compared=1)), (
        "other numbers alone are not wrong"
    )
