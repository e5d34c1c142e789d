"""Discovery, case by case. `#!` at the end of a line says which target has its name there, and what it is.

def step(x): ...  #! step function
fast = torch.compile(step)  #! fast variable compiled wraps=step
"""

from __future__ import annotations

import textwrap

import pytest

from fuselight_server.source.document import read_source

CASES = {
    "decorators, with and without arguments, in any order": """
        import torch, functools
        @torch.compile  #
        def a(x): ...  #! a function compiled (x)
        @torch.compile(fullgraph=True, dynamic=None)
        def b(x, *rest, k=1, **more): ...  #! b function compiled (x,k)
        @functools.cache
        @torch.compile()
        @torch.no_grad()
        def c(): ...  #! c function compiled
        @torch.no_grad()
        def d(): ...  #! d function
        """,
    "functools.partial as a decorator, named and not": """
        import functools, torch
        from functools import partial as p
        @functools.partial(torch.compile, dynamic=True)
        def a(x): ...  #! a function compiled (x)
        fast = p(torch.compile, mode="max-autotune")
        @fast
        def b(x): ...  #! b function compiled (x)
        c = fast(b)  #! c variable compiled (x) wraps=b
        quick = torch.compile(dynamic=True)
        d = quick(a)  #! d variable compiled (x) wraps=a
        """,
    "arguments and functions of newer releases": """
        import torch
        from torch.fx.experimental.dynamic_spec import ShapeVar, TensorSpec, dynamic_spec
        @torch.compile(dynamic_shapes={"x": TensorSpec([ShapeVar("batch"), None])}, isolate_recompiles=True)
        def a(x): ...  #! a function compiled (x)
        @torch.compile(shapes_spec={"x": None})
        @dynamic_spec({"x": None})
        def b(x): ...  #! b function compiled (x)
        torch.compiler.config.compile_on_one_rank = True
        def c(model, x): ...  #! c function (model,x)
        code, cache = torch.compiler.precompile(c, a, 1)
        d = torch.compiler.precompile.load(code, cache)
        e = torch.compile(d)  #! e variable compiled wraps=d
        """,
    "aliased imports": """
        import torch as t
        from torch import compile as c, nn as N
        from torch.nn import Module
        import torch.nn.functional as F
        import torch.nn
        @t.compile
        def a(): ...  #! a function compiled
        @c
        def b(): ...  #! b function compiled
        class M(N.Module): ...  #! M module
        class K(Module): ...  #! K module
        class L(torch.nn.Linear): ...  #! L module
        """,
    "names that only look like torch's": """
        import re
        import tensorflow as torch_
        from mypackage import compile
        pattern = re.compile("x")
        @compile
        def a(): ...  #! a function
        @torch_.compile
        def b(): ...  #! b function
        model = object()
        model.compile()
        class Module: ...
        class Net(Module): ...
        """,
    "a star import": """
        from torch import *
        from torch.nn import *
        f = compile(print)  #! f variable compiled wraps=print
        class Net(Module): ...  #! Net module
        """,
    "a local import counts where it stands": """
        def outer():  #! outer function
            import torch as t
            @t.compile
            def inner(x): ...  #! outer.<locals>.inner function compiled (x)
        @t.compile
        def no(): ...  #! no function
        """,
    "assignments of every form": """
        import torch
        def g(x, y): ...  #! g function (x,y)
        a = torch.compile(g)  #! a variable compiled (x,y) wraps=g
        b: object = torch.compile(g, dynamic=True)  #! b variable compiled (x,y) wraps=g
        (c := torch.compile(model=g))  #! c variable compiled (x,y) wraps=g
        d = e = torch.compile(g)  #! d variable compiled (x,y) wraps=g #! e variable compiled (x,y) wraps=g
        h, i = torch.compile(g), 3  #! h variable compiled (x,y) wraps=g
        j = torch.compile(mode="default")(g)  #! j variable compiled (x,y) wraps=g
        k = torch.compile(g) if c else g  #! k variable compiled (x,y) wraps=g
        l = torch.compile(lambda x: x + 1)  #! l variable compiled wraps=lambda x: x + 1
        m = torch._dynamo.optimize("eager")(g)  #! m variable compiled (x,y) wraps=g
        n = torch.compiler.compile(g)  #! n variable compiled (x,y) wraps=g
        g.fast = torch.compile(g)  #! g.fast variable compiled (x,y) wraps=g
        o = [torch.compile(g)]
        p = torch.compile
        q = p(g)  #! q variable compiled (x,y) wraps=g
        """,
    "modules and their methods": """
        import torch
        from torch import nn
        class Net(nn.Module):  #! Net module (x,scale)
            def __init__(self):
                self.head = nn.Linear(2, 2)
                self.fast = torch.compile(self.step)  #! Net.fast variable compiled (x) wraps=self.step
                self.head.compile()  #! Net.head variable compiled wraps=self.head
            def forward(self, x, *, scale=1.0): ...
            @torch.compile
            def step(self, x): ...  #! Net.step method compiled (x)
            @staticmethod
            @torch.compile
            def plain(x): ...  #! Net.plain method compiled (x)
            class Inner(nn.Module): ...  #! Net.Inner module
        class Sub(Net): ...  #! Sub module (x,scale)
        class Deeper(Sub):  #! Deeper module (z)
            def forward(self, z): ...
        net = torch.compile(Net().eval()).cuda()  #! net variable compiled (x,scale) wraps=Net().eval()
        other = Net().half()
        other.compile(mode="default")  #! other variable compiled (x,scale) wraps=other
        """,
    "a module that compiles itself": """
        import torch
        class Net(torch.nn.Module):  #! Net module compiled
            def __init__(self):
                self.compile()
        """,
    "bases from known libraries, and a forward under an unknown base": """
        import torch, lightning as L
        from pytorch_lightning import LightningModule
        from transformers import PreTrainedModel, BertForMaskedLM, AutoModel, BertConfig
        from .base import Base
        class A(L.LightningModule): ...  #! A module
        class B(LightningModule): ...  #! B module
        class C(PreTrainedModel): ...  #! C module
        class D(BertForMaskedLM): ...  #! D module
        class E(BertConfig): ...
        class F(Base):  #! F module (x)
            def forward(self, x): ...
        class G(Base): ...
        class H(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): ...
        class I(torch.nn.Parameter): ...
        class J(Base[int], metaclass=type):  #! J module (x)
            def forward(self, x): ...
        model = AutoModel.from_pretrained("x")
        model.compile()  #! model variable compiled wraps=model
        """,
    "a directive above a class of unknown bases makes it a target": """
        import enum, torch
        from blocks import Blk
        # fuselight: Sub()(f32[2])
        class Sub(Blk): ...  #! Sub module
        # fuselight: Deeper()(f32[2])
        class Deeper(Sub): ...  #! Deeper module
        # fuselight: Made()(f32[2])
        class Made(Blk.of(3)): ...  #! Made module
        # fuselight: Kind(1)(f32[2])
        class Kind(enum.Enum): ...
        # fuselight: Wrong()(f32[2])
        class Wrong(Exception): ...
        # fuselight: Plain()(f32[2])
        class Plain: ...
        class Quiet(Blk): ...
        """,
    "a module from another file that compiles itself": """
        import re
        import torch
        from blocks import Blk, make
        model = Blk(8).eval()
        model.compile(dynamic=True)  #! model variable compiled wraps=model
        newer = Blk(8)
        newer.compile(dynamic_shapes={"x": None}, recompile_limit=2)  #! newer variable compiled wraps=newer
        other = make(8)
        other.compile()
        query = Blk(9)
        query.compile("sql")
        keras = Blk(9)
        keras.compile(optimizer="adam")
        """,
    "without torch in the file, compile() is anything": """
        from sqlalchemy import Select
        query = Select()
        query.compile()
        """,
    "a directive above an assignment makes its variable a target": """
        import torch
        from blocks import Blk, make
        # fuselight: model(f32[2])
        model = Blk(8)
        model.compile()  #! model variable compiled wraps=model
        # fuselight: comp(f32[2])
        comp = model  #! comp variable wraps=model
        # fuselight: made(f32[2])
        made = make(8)  #! made variable wraps=make(8)
        plain = make(9)
        # fuselight: size(f32[2])
        size = 3
        """,
    "a module by its annotation": """
        from torch import nn
        def train(model: nn.Module, other):  #! train function (model,other)
            model.compile()  #! train.<locals>.model variable compiled wraps=model
            other.compile()
        """,
    "async, generators, nested functions": """
        import torch
        async def a(x): ...  #! a function (x)
        def b(x):  #! b function (x)
            yield x
        async def c():  #! c function
            yield 1
        def d():  #! d function
            def hidden():
                yield 1
            class Hidden(torch.nn.Module): ...
            return lambda: (yield)
        """,
    "conditional definitions": """
        import torch
        try:
            import triton
        except ImportError:
            def f(): ...  #! f function
        else:
            @torch.compile
            def f(x): ...  #! f function compiled (x)
        with torch.no_grad():
            g = torch.compile(f)  #! g variable compiled (x) wraps=f
        if True:
            class N(torch.nn.Module): ...  #! N module
        else:
            class N(torch.nn.Module): ...  #! N module
        """,
    "the main block, provider and overloads": """
        import torch
        from typing import overload
        @overload
        def f(x: int): ...
        def f(x): ...  #! f function (x)
        def example_inputs(): ...
        if __name__ == "__main__":
            g = torch.compile(f)  #! g variable compiled (x) wraps=f
        """,
    "half-typed code costs its own statement only": """
        import torch
        @torch.compile
        def a(x): ...  #! a function compiled (x)
        y = foo(
        @torch.compile
        def b(x): ...  #! b function compiled (x)
        class
        def c(x): ...  #! c function (x)
        """,
    "an open string costs what stands before the next definition": '''
        import torch
        def a(x): ...  #! a function (x)
        text = """never closed
        def b(x): ...  #! b function (x)
        ''',
    "newer syntax": """
        import torch
        type Pair[T] = tuple[T, T]
        @torch.compile
        def f[T](x: T, /, y, *, z) -> T: ...  #! f function compiled (x,y,z)
        text = f"{'a' + "b"}"
        """,
}


@pytest.mark.parametrize("case", CASES)
def test_targets(case: str) -> None:
    source = textwrap.dedent(CASES[case])
    wanted = {
        f"{number}: {described.strip()}"
        for number, line in enumerate(source.splitlines(), start=1)
        for described in line.split("#!")[1:]
    }
    texts = set()
    for target in read_source("m.py", source).targets:
        words = [target.name, target.kind]
        words += ["compiled"] if target.compiled else []
        words += [f"({','.join(target.parameters)})"] if target.parameters else []
        words += [f"wraps={target.wraps}"] if target.wraps else []
        texts.add(f"{target.name_span.line}: {' '.join(words)}")
    assert texts == wanted


def test_spans_cover_decorators_and_point_at_the_name() -> None:
    source = "import torch\n\n@torch.compile\n@deco\ndef ünï(x):\n    return x\n\ng = torch.compile(ünï)\n"
    first, second = read_source("m.py", source).targets
    assert (first.span.line, first.span.end_line, first.def_line) == (3, 6, 5)
    assert (first.name_span.line, first.name_span.column, first.name_span.end_column) == (5, 4, 9)
    assert (second.span.line, second.span.column, second.span.end_column) == (
        8,
        0,
        len("g = torch.compile(ünï)".encode()),
    )


TO_COLUMN_0 = [
    'x = """\ndef no(): ...\n"""',
    "x = [\ny,\nz\n]",
    "x = f(\n# def no(): ...\n1)",
    "x = 1 + \\\ny",
]


@pytest.mark.parametrize("text", TO_COLUMN_0)
def test_strings_and_brackets_may_reach_column_0(text: str) -> None:
    reading = read_source("m.py", f"def a(): ...\n{text}\ndef b(): ...\n")
    assert [target.name for target in reading.targets] == ["a", "b"]
    assert reading.syntax_error is None
