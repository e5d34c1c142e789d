"""Programs that were run with the backend `inductor` (torch 2.13.0, g++ 12, one process for each): none raised."""

from __future__ import annotations

_SCALED = """
class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=data.dtype, device=data.device)
    def __init__(self, data, scale): self.data_, self.scale = data, scale
    def __tensor_flatten__(self): return ["data_"], self.scale
    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride): return Scaled(inner["data_"], meta)
    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        import torch.utils._pytree as pt
        un = lambda t: t.data_ if isinstance(t, Scaled) else t
        out = func(*pt.tree_map(un, args), **pt.tree_map(un, kwargs or {}))
        scale = next(a.scale for a in pt.tree_leaves(args) if isinstance(a, Scaled))
        return pt.tree_map(lambda t: Scaled(t, scale) if isinstance(t, torch.Tensor) else t, out)
    def __repr__(self): return "Scaled"
"""

RUNS = {
    "plain_subclass": """
class Image(torch.Tensor): pass
f = torch.compile(lambda x: x.sin() + 1)
f(torch.randn(3).as_subclass(Image))
""",
    "torch_function_subclass": """
class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})
f = torch.compile(lambda x: x.sin() + 1)
f(torch.randn(3).as_subclass(Tagged))
""",
    "subclass_parameter": """
class W(torch.nn.Parameter): pass
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = W(torch.randn(3, 3))
    def forward(self, x): return x @ self.w
torch.compile(Net())(torch.randn(2, 3)).sum().backward()
""",
    "subclass_parameter_2": """
class W(torch.Tensor): pass
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(3, 3).as_subclass(W))
    def forward(self, x): return x @ self.w
torch.compile(Net())(torch.randn(2, 3)).sum().backward()
""",
    "subclass_buffer": """
class B(torch.Tensor): pass
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.randn(3).as_subclass(B))
    def forward(self, x): return x + self.b
torch.compile(Net())(torch.randn(2, 3))
""",
    "subclass_buffer_mutated": """
class B(torch.Tensor): pass
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.zeros(3).as_subclass(B))
    def forward(self, x):
        self.b.add_(1)
        return x + self.b
net = torch.compile(Net()); net(torch.randn(2, 3)); net(torch.randn(2, 3))
""",
    "uninitialized_attr_subclass": """
class Boxes(torch.Tensor):
    @staticmethod
    def __new__(cls, data, size):
        t = torch.as_tensor(data).as_subclass(cls)
        t.size_ = size
        return t
f = torch.compile(lambda x: x * 2)
f(Boxes(torch.randn(4, 4), (3, 3)))
""",
    "wrapper_subclass": _SCALED
    + """
f = torch.compile(lambda x: x.sin() + 1)
f(Scaled(torch.randn(3), 2.0))
""",
    "wrapper_subclass_param": _SCALED
    + """
lin = torch.nn.Linear(3, 3)
lin.weight = torch.nn.Parameter(Scaled(torch.randn(3, 3), 2.0), requires_grad=False)
torch.compile(lin)(torch.randn(2, 3))
""",
    "wrapper_subclass_train": _SCALED
    + """
f = torch.compile(lambda x, w: (x * w).sum())
w = torch.randn(3, requires_grad=True)
f(Scaled(torch.randn(3), 2.0), w)
""",
    "two_tensor": """
from torch.testing._internal.two_tensor import TwoTensor
f = torch.compile(lambda x: x.sin() + 1)
a = torch.randn(3, requires_grad=True)
f(TwoTensor(a, a.clone())).sum().backward()
""",
    "nested_jagged": """
n = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged)
f = torch.compile(lambda x: x.sin() * 2)
f(n)
n2 = torch.nested.nested_tensor([torch.randn(5, 4), torch.randn(3, 4)], layout=torch.jagged)
f(n2)
""",
    "nested_jagged_train": """
lin = torch.nn.Linear(4, 4)
n = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged)
f = torch.compile(lambda x: lin(x).sin())
f(n).values().sum().backward()
""",
    "nested_inside": """
@torch.compile
def f(v, offs):
    n = torch.nested.nested_tensor_from_jagged(v, offs)
    return (n * 2).values()
f(torch.randn(5, 4), torch.tensor([0, 2, 5]))
""",
    "complex": """
f = torch.compile(lambda x: (x * 1j).abs() + x.real)
f(torch.randn(4, dtype=torch.complex64))
""",
    "complex_view_as_real": """
f = torch.compile(lambda x: torch.view_as_real(x * 2))
f(torch.randn(4, dtype=torch.complex64))
""",
    "conj_output": """
f = torch.compile(lambda x: x.conj())
f(torch.randn(4, dtype=torch.complex64))
""",
    "conj_input": """
f = torch.compile(lambda x: x + 1)
f(torch.randn(4, dtype=torch.complex64).conj())
""",
    "neg_input": """
f = torch.compile(lambda x: x + 1)
f(torch.randn(4, dtype=torch.complex64).conj().imag)
""",
    "sparse_coo": """
s = torch.eye(3).to_sparse()
f = torch.compile(lambda s, x: torch.sparse.mm(s, x) + 1)
f(s, torch.randn(3, 3))
""",
    "sparse_embedding": """
e = torch.nn.Embedding(10, 4, sparse=True)
torch.compile(e)(torch.tensor([1, 2])).sum().backward()
""",
    "quantized": """
import warnings; warnings.simplefilter("ignore")
q = torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8)
f = torch.compile(lambda q: q.dequantize() + 1)
f(q)
""",
    "dtensor": """
import torch.distributed as dist, os, tempfile
dist.init_process_group("gloo", rank=0, world_size=1, init_method="file://" + tempfile.mktemp())
from torch.distributed.tensor import distribute_tensor, Shard, Replicate
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (1,))
x = distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
f = torch.compile(lambda x: (x.sin() + 1))
f(x)
""",
    "dtensor_params": """
import torch.distributed as dist, os, tempfile
dist.init_process_group("gloo", rank=0, world_size=1, init_method="file://" + tempfile.mktemp())
from torch.distributed.tensor import distribute_module, DTensor, Replicate
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (1,))
m = distribute_module(torch.nn.Linear(4, 4), mesh)
f = torch.compile(m)
f(DTensor.from_local(torch.randn(2, 4), mesh, [Replicate()])).sum().backward()
""",
    "functional_collective": """
import torch.distributed as dist, tempfile
dist.init_process_group("gloo", rank=0, world_size=1, init_method="file://" + tempfile.mktemp())
import torch.distributed._functional_collectives as fc
f = torch.compile(lambda x: fc.all_reduce(x, "sum", dist.group.WORLD) + 1)
f(torch.randn(4))
""",
    "custom_op_fake": """
@torch.library.custom_op("fuselight_runs::a", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor: return torch.from_numpy(x.numpy() * 2)
@op.register_fake
def _(x): return torch.empty_like(x)
f = torch.compile(lambda x: op(x) + 1)
f(torch.randn(3))
""",
    "custom_op_grad": """
@torch.library.custom_op("fuselight_runs::ag", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor: return torch.from_numpy(x.detach().numpy() * 2)
@op.register_fake
def _(x): return torch.empty_like(x)
op.register_autograd(lambda ctx, g: g * 2)
f = torch.compile(lambda x: op(x).sum())
f(torch.randn(3, requires_grad=True)).backward()
""",
    "custom_op_mutating": """
@torch.library.custom_op("fuselight_runs::m", mutates_args={"x"})
def op(x: torch.Tensor) -> None: x.numpy()[:] += 1
f = torch.compile(lambda x: (op(x), x + 1)[1])
f(torch.randn(3))
""",
    "custom_op_mutating_out": """
@torch.library.custom_op("fuselight_runs::mo", mutates_args={"out"})
def op(x: torch.Tensor, out: torch.Tensor) -> None: out.copy_(x * 2)
def g(x):
    out = torch.empty_like(x); op(x, out); return out + 1
f = torch.compile(g)
f(torch.randn(3))
""",
    "custom_op_composite": """
lib = torch.library.Library("fuselight_runs3", "FRAGMENT")
lib.define("c(Tensor x) -> Tensor")
lib.impl("c", lambda x: x * 2 + 1, "CompositeImplicitAutograd")
f = torch.compile(lambda x: torch.ops.fuselight_runs3.c(x) + 1)
f(torch.randn(3))
""",
    "custom_op_unbacked": """
@torch.library.custom_op("fuselight_runs::nz", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor: return x[x > 0].clone()
@op.register_fake
def _(x):
    n = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(n)
f = torch.compile(lambda x: op(x) + 1, fullgraph=True)
f(torch.randn(8))
""",
    "effectful_op": """
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
@torch.library.custom_op("fuselight_runs::log", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor: return x.clone()
@op.register_fake
def _(x): return torch.empty_like(x)
try: _register_effectful_op(torch.ops.fuselight_runs.log.default, _EffectType.ORDERED)
except TypeError: op.register_effect(_EffectType.ORDERED)
f = torch.compile(lambda x: op(x) + op(x))
f(torch.randn(3))
""",
    "effectful_op_train": """
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
@torch.library.custom_op("fuselight_runs::log2", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor: return x.clone()
@op.register_fake
def _(x): return torch.empty_like(x)
op.register_autograd(lambda ctx, g: g)
_register_effectful_op(torch.ops.fuselight_runs.log2.default, _EffectType.ORDERED)
f = torch.compile(lambda x: (op(x) * 2).sum())
f(torch.randn(3, requires_grad=True)).backward()
""",
    "assert_async": """
@torch.compile
def f(x):
    torch._assert_async((x > -100).all())
    return x + 1
f(torch.randn(3))
""",
    "opaque_generator": """
g = torch.Generator().manual_seed(0)
@torch.compile
def f(x): return x + torch.rand(3, generator=g)
f(torch.randn(3))
""",
    "opaque_reference": """
from torch._library.opaque_object import register_opaque_type, OpaqueBase
class Counter(OpaqueBase):
    def __init__(self): self.n = 0
register_opaque_type(Counter, typ="reference")
@torch.library.custom_op("fuselight_runs::bump", mutates_args=())
def bump(c: Counter, x: torch.Tensor) -> torch.Tensor:
    c.n += 1
    return x * 2
@bump.register_fake
def _(c, x): return torch.empty_like(x)
# main
f = torch.compile(lambda c, x: bump(c, x) + 1, fullgraph=True)
f(Counter(), torch.randn(3))
""",
    "dynamic_sizes": """
@torch.compile(dynamic=True)
def f(x): return x.view(x.shape[0] * 2, -1).sum(0)
for n in (2, 3, 5): f(torch.randn(n, 4))
""",
    "nonzero": """
torch._dynamo.config.capture_dynamic_output_shape_ops = True
f = torch.compile(lambda x: x[x > 0].sum(), fullgraph=True)
f(torch.randn(4, requires_grad=True)).backward()
""",
    "item_unbacked": """
torch._dynamo.config.capture_scalar_outputs = True
@torch.compile(fullgraph=True)
def f(x, n):
    k = n.item()
    torch._check(k >= 2); torch._check(k <= 8)
    return x[:k].sum() + torch.zeros(k).sum()
f(torch.randn(8), torch.tensor(3))
""",
    "autograd_function": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): ctx.save_for_backward(x); return x.sin()
    @staticmethod
    def backward(ctx, g): (x,) = ctx.saved_tensors; return g * x.cos()
f = torch.compile(lambda x: F.apply(x).sum())
f(torch.randn(3, requires_grad=True)).backward()
""",
    "tensor_hook": """
@torch.compile
def f(x):
    y = x * 2
    y.register_hook(lambda g: g * 3)
    return y.sum()
f(torch.randn(3, requires_grad=True)).backward()
""",
    "module_hook": """
m = torch.nn.Linear(3, 3)
m.register_forward_hook(lambda m, i, o: o + 1)
m.register_full_backward_hook(lambda m, gi, go: None)
torch.compile(m)(torch.randn(2, 3, requires_grad=True)).sum().backward()
""",
    "hop_cond": """
@torch.compile(fullgraph=True)
def f(p, x): return torch.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,))
f(torch.tensor(True), torch.randn(3))
""",
    "hop_cond_train": """
@torch.compile(fullgraph=True)
def f(p, x): return torch.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,)).sum()
f(torch.tensor(True), torch.randn(3, requires_grad=True)).backward()
""",
    "checkpoint": """
from torch.utils.checkpoint import checkpoint
f = torch.compile(lambda x: checkpoint(lambda y: y.sin().cos(), x, use_reentrant=False).sum())
f(torch.randn(3, requires_grad=True)).backward()
""",
    "checkpoint_dropout": """
from torch.utils.checkpoint import checkpoint
f = torch.compile(lambda x: checkpoint(lambda y: torch.dropout(y.sin(), 0.5, True), x, use_reentrant=False).sum())
f(torch.randn(3, requires_grad=True)).backward()
""",
    "vmap": """
f = torch.compile(lambda x: torch.vmap(lambda y: y.sin().sum())(x), fullgraph=True)
f(torch.randn(3, 4))
""",
    "func_grad": """
f = torch.compile(lambda x: torch.func.grad(lambda y: y.sin().sum())(x), fullgraph=True)
f(torch.randn(3, 4))
""",
    "autocast": """
m = torch.nn.Linear(4, 4)
@torch.compile
def f(x):
    with torch.autocast("cpu", dtype=torch.bfloat16): return m(x)
f(torch.randn(2, 4)).float().sum().backward()
""",
    "no_grad": """
m = torch.compile(torch.nn.Linear(4, 4))
with torch.no_grad(): m(torch.randn(2, 4))
""",
    "inference_mode": """
m = torch.compile(torch.nn.Linear(4, 4))
with torch.inference_mode(): m(torch.randn(2, 4))
""",
    "inference_tensor_in": """
with torch.inference_mode(): x = torch.randn(2, 4)
m = torch.compile(lambda x: x + 1)
m(x)
""",
    "inference_inside": """
@torch.compile
def f(x):
    with torch.inference_mode(): y = x * 2
    return y + 1
f(torch.randn(2, 4))
""",
    "alias_output": """
f = torch.compile(lambda x: (x, x.view(-1), x[0]))
f(torch.randn(3, 4))
f(torch.randn(3, 4, requires_grad=True))[1].sum().backward()
""",
    "alias_inputs": """
@torch.compile
def f(x, y): x.add_(1); return y * 2
b = torch.randn(4); f(b, b.view(2, 2)); f(b[:2], b[1:3])
""",
    "alias_outputs": """
def g(x): y = x * 2; return y, y.view(-1), y.t()
f = torch.compile(g)
o = f(torch.randn(3, 4, requires_grad=True)); o[1].sum().backward()
""",
    "no_outputs": """
@torch.compile
def f(x): x.add_(1)
f(torch.randn(3))
""",
    "set_data": """
m = torch.nn.Linear(3, 3)
@torch.compile
def f(x):
    with torch.no_grad(): m.weight.mul_(0.9)
    return m(x).sum()
f(torch.randn(2, 3)).backward()
""",
    "detach_mutation": """
@torch.compile
def f(x): y = x.detach(); y.add_(1); return x * 2
f(torch.randn(3, requires_grad=True)).sum().backward()
""",
    "mutate_leaf_no_grad": """
@torch.compile
def f(x):
    with torch.no_grad(): x.add_(1)
    return x.sin()
f(torch.randn(3, requires_grad=True)).sum().backward()
""",
    "lstm": """
m = torch.compile(torch.nn.LSTM(4, 4)); m(torch.randn(3, 2, 4))[0].sum().backward()
""",
    "masked_tensor": """
import warnings; warnings.simplefilter("ignore")
from torch.masked import masked_tensor
m = masked_tensor(torch.randn(3), torch.tensor([True, False, True]))
f = torch.compile(lambda x: x.get_data() + 1)
f(m)
""",
    "parametrized": """
m = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 3))
torch.compile(m)(torch.randn(2, 3)).sum().backward()
""",
    "saved_tensors_hooks": """
@torch.compile
def f(x): return x.sin().sum()
with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
    f(torch.randn(3, requires_grad=True)).backward()
""",
    "functional_tensor_mode": """
from torch.utils._python_dispatch import TorchDispatchMode
class M(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None): return func(*args, **(kwargs or {}))
f = torch.compile(lambda x: x + 1)
x = torch.randn(3)
f(x)
with M(): f(x)
""",
    "torch_function_mode": """
from torch.overrides import TorchFunctionMode
class M(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None): return func(*args, **(kwargs or {}))
f = torch.compile(lambda x: x + 1)
with M(): f(torch.randn(3))
""",
    "mark_subclass_out": """
class Image(torch.Tensor): pass
f = torch.compile(lambda x: (x + 1).as_subclass(Image))
f(torch.randn(3))
""",
    "subclass_mixed_outputs": """
class Image(torch.Tensor): pass
f = torch.compile(lambda x, y: (x * 2, y + 1, x.view(-1)))
f(torch.randn(2, 2).as_subclass(Image), torch.randn(3))
""",
    "torchvision_like_mutation": """
class Image(torch.Tensor): pass
@torch.compile
def f(x): x.mul_(2); return x
f(torch.randn(2, 2).as_subclass(Image))
""",
    "torch_function_attr": """
class Units(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(out, cls): out.unit = next((a.unit for a in args if isinstance(a, cls)), None)
        return out
x = torch.randn(3).as_subclass(Units); x.unit = "m"
f = torch.compile(lambda x: x * 2)
f(x)
""",
}

FURTHER = {
    "subclass_parameter_2",
    "subclass_buffer_mutated",
    "wrapper_subclass_param",
    "nested_inside",
    "complex_view_as_real",
    "conj_output",
    "neg_input",
    "sparse_embedding",
    "dtensor_params",
    "custom_op_mutating_out",
    "custom_op_composite",
    "effectful_op",
    "opaque_reference",
    "item_unbacked",
    "hop_cond",
    "checkpoint_dropout",
    "inference_tensor_in",
    "alias_inputs",
    "mutate_leaf_no_grad",
    "torchvision_like_mutation",
}
"""Programs of a kind that another one has, too."""
