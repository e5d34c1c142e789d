"""Fixes of recompilations: each kind once, with the text after."""

import torch
from torch import nn

SCALE = 1.5


def scaled(value):
    global SCALE
    SCALE = value
    return torch.ones(4)


# fuselight: size(f32[4])
# fuselight: size(f32[7])
@torch.compile
def size(x):
    return x + 1
    # fix: [FL201] dynamic "Compile with dynamic=True"
    # = 1 -> 1 graphs, same results
    # -|@torch.compile
    # +|@torch.compile(dynamic=True)


# fuselight: size_of_one(f32[1, 4])
# fuselight: size_of_one(f32[5, 4])
@torch.compile
def size_of_one(x):
    return x + 1
    # fix: [FL201] shapes_spec "Compile once for all sizes of x in dimension 0; its other sizes stay fixed"
    # = 1 -> 1 graphs, same results
    #  |from torch import nn
    # +|from torch.fx.experimental.dynamic_spec import ParamsSpec, ShapeVar, TensorSpec
    # -|@torch.compile
    # +|@torch.compile(shapes_spec=ParamsSpec({"x": TensorSpec([ShapeVar("x_0"), None])}))


# fuselight: fraction(f32[4], 0.5)
# fuselight: fraction(f32[4], 0.25)
@torch.compile
def fraction(x, scale):
    return x * scale
    # fix: [FL201] tensor_argument "Pass `scale` as a tensor"
    # = 1 -> 1 graphs, same results
    #  |# fuselight: fraction(f32[4], 0.25)
    # +|def fraction(x, scale):
    # +|    return _compiled_fraction(x, torch.as_tensor(scale, dtype=torch.float64) if type(scale) is float else scale)
    # +|
    # +|
    # -|def fraction(x, scale):
    # +|def _compiled_fraction(x, scale):


# fuselight: global_number(scaled(1.5))
# fuselight: global_number(scaled(2.5))
@torch.compile
def global_number(x):
    return x * SCALE
    # fix: [FL201] tensor_argument "Pass `SCALE` to the compiled code as a tensor"
    # = 1 -> 1 graphs, same results
    #  |# fuselight: global_number(scaled(2.5))
    # +|def global_number(x):
    # +|    return _compiled_global_number(x, torch.as_tensor(SCALE, dtype=torch.float64) if type(SCALE) is float else SCALE)
    # +|
    # +|
    # -|def global_number(x):
    # +|def _compiled_global_number(x, SCALE):


# fuselight: Counter()(f32[4])
# fuselight: Counter()(f32[4])
# fuselight: Counter()(f32[4])
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        # fix: [FL201] buffer "Make `self.calls` a tensor, for no training after inference_mode"
        # = 1 -> 1 graphs, same results, except that `calls` becomes a tensor
        # -|        self.calls = 0
        # +|        self.calls = torch.tensor(0, device="cpu")
        # -|        self.calls += 1
        # +|        self.calls = self.calls + 1
        return x + self.calls


class Layer(nn.Module):
    def __init__(self, index: int):
        super().__init__()
        self.index = index
        self.linear = nn.Linear(4, 4)

    @torch.compile
    def forward(self, x):
        return self.linear(x) * self.index
        # fix: [FL201] buffer "Make `self.index` a tensor"
        # = 1 -> 1 graphs, same results, except that `layers.0.index` becomes a tensor
        # -|        self.index = index
        # +|        self.index = torch.tensor(index, device="cpu")
        # fix: [FL201] allow_unspec_int_on_nn_module "Set allow_unspec_int_on_nn_module"
        # = 1 -> 1 graphs, same results
        #  |from torch import nn
        # +|torch._dynamo.config.allow_unspec_int_on_nn_module = True


# fuselight: Stack()(f32[2, 4])
class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(index) for index in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


# fuselight: length(f32[4], [f32[4]])
# fuselight: length(f32[4], [f32[4], f32[4]])
@torch.compile
def length(x, xs):
    return x + sum(xs)
    # fix: [FL201] stack "Pass `xs` as one tensor"
    # = 1 -> 1 graphs, changes behavior: raises an exception for an empty list, for what is no
    # = list or tuple of tensors, and for tensors of different shapes, dtypes or devices; half-
    # = precision sums round and overflow less often
    #  |# fuselight: length(f32[4], [f32[4], f32[4]])
    # +|def length(x, xs):
    # +|    xs = torch.stack(xs)
    # +|    if not torch.compiler.is_compiling():
    # +|        torch._dynamo.decorators.mark_unbacked(xs, 0)
    # +|    return _compiled_length(x, xs)
    # +|
    # +|
    # -|def length(x, xs):
    # -|    return x + sum(xs)
    # +|def _compiled_length(x, xs):
    # +|    return x + xs.sum(0, dtype=xs.dtype if xs.dtype != torch.bool else None)


# fuselight: dtype(f32[4])
# fuselight: dtype(f16[4])
@torch.compile
def dtype(x):
    return x + 1
    # fix: [FL201] cast "Compute in float32 for each dtype of `x`"
    # = 1 -> 1 graphs, changes behavior: precision: all is computed in float32, and each result
    # = gets the dtype of `x`, a tensor
    #  |# fuselight: dtype(f16[4])
    # +|def dtype(x):
    # +|    return _compiled_dtype(x.to(torch.float32)).to(x.dtype)
    # +|
    # +|
    # -|def dtype(x):
    # +|def _compiled_dtype(x):


# fuselight: layout(f32[4, 6])
# fuselight: layout(f32[6, 4].t())
@torch.compile
def layout(x):
    """Add one."""
    return x + 1
    # fix: [FL201] contiguous "Make `x` contiguous before the compiled code"
    # = 1 -> 1 graphs, changes behavior: the strides of results
    # -|@torch.compile
    #  |    """Add one."""
    # +|    return _compiled_layout(x.contiguous() if torch.is_tensor(x) else x)
    # +|
    # +|
    # +|@torch.compile
    # +|def _compiled_layout(x):


# fuselight: tuple_for_a_list([f32[4]])
# fuselight: tuple_for_a_list((f32[4],))
@torch.compile
def tuple_for_a_list(xs):
    return sum(xs)
    # fix: [FL201] list_argument "Pass `xs` as a list"
    # = 1 -> 1 graphs, same results
    #  |# fuselight: tuple_for_a_list((f32[4],))
    # +|def tuple_for_a_list(xs):
    # +|    return _compiled_tuple_for_a_list(list(xs) if type(xs) is tuple else xs)
    # +|
    # +|
    # -|def tuple_for_a_list(xs):
    # +|def _compiled_tuple_for_a_list(xs):


# fuselight: order_of_keys({"a": f32[4], "b": f32[4]})
# fuselight: order_of_keys({"b": f32[4], "a": f32[4]})
@torch.compile
def order_of_keys(parts):
    return sum(parts.values())
    # fix: [FL201] sorted_keys "Sort the keys of `parts` before the compiled code"
    # = 1 -> 1 graphs, changes behavior: the order of additions: large values round, cancel and
    # = overflow differently
    #  |# fuselight: order_of_keys({"b": f32[4], "a": f32[4]})
    # +|def order_of_keys(parts):
    # +|    return _compiled_order_of_keys(dict(sorted(parts.items(), key=lambda item: str(item[0]))) if type(parts) is dict else parts)
    # +|
    # +|
    # -|def order_of_keys(parts):
    # +|def _compiled_order_of_keys(parts):


# fuselight: conjugate(c64[4])
# fuselight: conjugate(torch.conj(c64[4]))
@torch.compile
def conjugate(x):
    return x + 1
    # fix: [FL201] resolve_conj "Resolve lazy conjugation of `x`"
    # = 1 -> 1 graphs, same results
    #  |# fuselight: conjugate(torch.conj(c64[4]))
    # +|def conjugate(x):
    # +|    return _compiled_conjugate(x.resolve_conj() if torch.is_tensor(x) else x)
    # +|
    # +|
    # -|def conjugate(x):
    # +|def _compiled_conjugate(x):


class Core(nn.Module):
    def forward(self, x, scale):
        return x * scale
        # fix: [FL201] tensor_argument_at_call "Pass `scale` as a tensor in the call on line 133"
        # = 1 -> 1 graphs, same results
        # -|    return core(x, scale) + 1
        # +|    return core(x, torch.as_tensor(scale, dtype=torch.float64) if type(scale) is float else scale) + 1


core = torch.compile(Core())


# fuselight: step(f32[4], 0.5)
# fuselight: step(f32[4], 0.25)
def step(x, scale):
    return core(x, scale) + 1
