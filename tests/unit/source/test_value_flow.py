"""Branches that depend on the value of a call. `# call` marks the line of the call, `# on` the branches that depend."""

from __future__ import annotations

import ast
import textwrap

import pytest

from fuselight_server.source.value_flow import CallSite, ValueBranches, branches_on


def read(source: str, **site: object) -> tuple[ValueBranches, list[int], list[int]]:
    """The result, the lines of its branches, and the marked ones."""
    text = textwrap.dedent(source)
    lines = text.splitlines()
    call = next(number for number, line in enumerate(lines, 1) if "# call" in line)
    result = branches_on(ast.parse(text), CallSite(call, **site))  # type: ignore[arg-type]
    marked = [number for number, line in enumerate(lines, 1) if "# on" in line]
    return result, sorted({node.lineno for node in result.branches}), marked


@pytest.mark.parametrize(
    "source",
    [
        """
        def f(loss, other):
            if loss.item() > 1:
                pass
            dist.all_reduce(loss)  # call
            if loss.item() > 1:  # on
                pass
            elif other > 2:
                pass
        """,
        """
        def f(loss):
            work = dist.all_reduce(loss, async_op=True)  # call
            if work is not None:
                work.wait()
            while bool(loss > 0):  # on
                loss = loss - 1
            mean = float(loss) / 2
            assert mean < 3  # on
        """,
        """
        def f(x):
            y = funcol.all_reduce(x, "sum", group)  # call
            if x.sum() > 0:
                pass
            z = y * 2
            word = "high" if z.mean() > 1 else "low"  # on
            match z.argmax().item():  # on
                case 0: pass
        """,
        """
        def f(x):
            if funcol.all_reduce(x, "sum", group).item() > 0:  # call # on
                return x
            return -x
        """,
        """
        def f(x):
            parts = [torch.empty_like(x) for _ in range(4)]
            dist.all_gather(parts, x)  # call
            if len(parts) == 4 and parts[0].shape == x.shape and parts[1].dtype is x.dtype:
                pass
            for part in parts:
                if part.max() > 0:  # on
                    pass
            big = [p for p in parts if p.sum() > 1]  # on
            if isinstance(parts, list) or parts[0].numel() > 3 or parts[0].dim() == 1:
                pass
        """,
        """
        def f(x):
            names = [None] * 2
            dist.all_gather_object(names, "me")  # call
            first, own = names[0], "me"
            if first == own:  # on
                pass
            if own == "me":
                pass
            names = ["a", "b"]
            if names[0] == "a":
                pass
        """,
        """
        def f(x):
            out = x.new_zeros(3)
            dist.reduce_scatter_tensor(output=out, input=x)  # call
            if (total := torch.sum(out)) > 0:  # on
                pass
            if not math.isfinite(total):  # on
                pass
            if check(total) or self.check(total):
                pass
        """,
        """
        def f(x):
            whole = x.full_tensor()  # call
            history = []
            history.append(whole.item())
            state.last = whole
            if history[-1] > 2:  # on
                pass
            if state.last.any() or state.best:  # on
                pass
            if state.best:
                pass
            state.last = 0
            if state.last:
                pass
        """,
        """
        best = 0
        for step in range(3):
            if best > 1:  # on
                pass
            dist.broadcast(loss, src=0)  # call
            best = loss.item()
        """,
        """
        def f(x):
            try:
                dist.gather(x, gather_list=parts, dst=0)  # call
            finally:
                pass
            with torch.no_grad():
                if torch.stack(parts).mean() < 1:  # on
                    pass
            if x.mean() < 1:
                pass
        """,
        """
        def f(x):
            total = distribute_tensor(x, mesh, [Shard(0)]).sum().full_tensor()  # call
            if total > 0:  # on
                pass
        """,
        """
        def f(x):
            total = 0
            total += norm(x.to_local())  # call
            total, other = total * 2, 3
            if other:
                pass
            if total:  # on
                pass
            def later():
                if total:
                    pass
        """,
    ],
)
def test_branches_that_depend_on_the_value(source: str) -> None:
    _, lines, marked = read(source)
    assert lines == marked


@pytest.mark.parametrize(
    "call",
    [
        "x = torch.nn.parallel.DistributedDataParallel(x)",
        "x = distribute_tensor(x, mesh)",
        "x = torch.nn.parallel.DistributedDataParallel(x.to(device))",
        "x = init_device_mesh('cpu', (2,))",
        "dist.broadcast_object_list(x, src=0)",
        "x.step()",
        "x = other",
    ],
)
def test_a_call_that_gives_no_value_decides_nothing(call: str) -> None:
    _, lines, _ = read(f"def f(x, mesh):\n    {call}  # call\n    if x:\n        pass\n")
    assert lines == []


@pytest.mark.parametrize(
    ("source", "is_returned", "parameters", "positions", "is_method"),
    [
        ("def f(a, x):\n    dist.all_reduce(x)  # call\n", False, ("x",), (1,), False),
        ("def f(self, x):\n    dist.all_reduce(x)  # call\n    return x / 2\n", True, ("x",), (1,), True),
        ("def f(x):\n    x = x.clone()\n    dist.all_reduce(x)  # call\n    return x\n", True, (), (), False),
        (
            "def f(x):\n    y = funcol.all_reduce(x, 'sum', g)  # call\n    return y.shape\n",
            False,
            (),
            (),
            False,
        ),
        ("dist.all_reduce(x)  # call\n", False, (), (), False),
    ],
)
def test_what_the_caller_gets(
    source: str,
    *,
    is_returned: bool,
    parameters: tuple[str, ...],
    positions: tuple[int, ...],
    is_method: bool,
) -> None:
    result, _, _ = read(source)
    assert (result.is_returned, result.parameters, result.positions, result.is_method) == (
        is_returned,
        parameters,
        positions,
        is_method,
    )


@pytest.mark.parametrize(
    ("call", "site", "has_result", "has_argument"),
    [
        ("y = mean(a, x)", {"callee": "mean"}, True, False),
        (
            "y = mean(a, x)",
            {"callee": "mean", "is_returned": False, "parameters": ("t",), "positions": (1,)},
            False,
            True,
        ),
        (
            "y = self.mean(a, t=x)",
            {"callee": "mean", "parameters": ("t",), "positions": (2,), "is_method": True},
            True,
            True,
        ),
        (
            "y = self.mean(a, x)",
            {"callee": "mean", "parameters": ("t",), "positions": (2,), "is_method": True},
            True,
            True,
        ),
        ("y = model(x)", {"callee": "forward"}, True, False),
    ],
)
def test_a_call_of_a_function_of_the_program(
    call: str, site: dict[str, object], *, has_result: bool, has_argument: bool
) -> None:
    branches = "".join(f"    if {name}:\n        pass\n" for name in ("y", "x", "a"))
    source = f"def f(self, model, a, x):\n    {call}  # call\n{branches}"
    _, lines, _ = read(source, **site)
    assert lines == [*([3] if has_result else []), *([5] if has_argument else [])]
