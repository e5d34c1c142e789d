"""Breaks at tensor methods that work only in eager mode."""

import torch


def sparse_eye():
    return torch.eye(4).to_sparse()


# fuselight: assigns_data(f32[4], f32[4])
def assigns_data(x, y):
    z = x + 1
    z.data = y  # warning: [GB0056] "`.data`"
  # ^^^^^^
    return z * 2


# fuselight: asks_an_input_for_gradients(f32[4])
def asks_an_input_for_gradients(x):
    x.requires_grad_()  # warning: [GB0125] "requires_grad_()"
    return x + 1


# fuselight: returns_a_new_leaf(f32[4], no_grad=False)
def returns_a_new_leaf(x):
    y = x + 1
    y.requires_grad_()
    # warning(2.13, 2.14, 2.15): [GB8985] "requires_grad_()"
    # warning(2.11): [GB0125] "`requires_grad_()` cannot be traced here"
    return y * 2


# fuselight: sets_requires_grad(f32[4])
def sets_requires_grad(x):
    x.requires_grad = True  # warning: [GB0206] "requires_grad"
    return x + 1


# fuselight: resizes(f32[4])
def resizes(x):
    y = x + 1
    y.resize_(2)  # warning: [GB0126] "resize_()"
    return y


# fuselight: resizes_as(f32[4])
def resizes_as(x):
    y = x + 1
    y.resize_as_(x)  # warning: [GB0127] "resize_as_()"
    return y


# fuselight: fills_from_a_range(f32[4])
def fills_from_a_range(x):
    return x.clone().uniform_(**{"from": 0.0, "to": 1.0})  # warning: [GB0110] "uniform_"


# fuselight: fills_with_random_integers(f32[4])
def fills_with_random_integers(x):
    return x.clone().random_(3)  # warning: [GB0107] "random_()"


# fuselight: shares_memory(f32[4])
def shares_memory(x):
    return (x + 1).share_memory_()
    # warning(2.11, 2.13): [GB0117] "share_memory_"
    # warning(2.14, 2.15): [GB4197] "`share_memory_()` cannot be traced"


# fuselight: compares_addresses(f32[4], f32[4])
def compares_addresses(x, y):  # info(2.11): [FL101] "`compares_addresses` is not compiled: torch skipped it"
    if x.data_ptr() == y.data_ptr():
    # warning(2.13, 2.14, 2.15): [GB5976] "pointer"
    # warning(2.11): [GB0023] "Builtin `operator.*` comparison with constant `self` failed"
        return x
    return x + y


# fuselight: takes_a_sparse_tensor(sparse_eye())
def takes_a_sparse_tensor(s):  # info: [FL101] "is not compiled"
    return s.to_dense() + 1  # warning: [GB0015] "sparse tensors"


# fuselight: makes_a_sparse_tensor(f32[4])
def makes_a_sparse_tensor(x):  # info: [FL101] "is not compiled"
    s = x.to_sparse()  # warning: [GB0277] "sparse"
    return s.to_dense()  # warning: [GB0015] "sparse tensors"


# fuselight: writes_to_a_smaller_out(f32[4], f32[2])
def writes_to_a_smaller_out(x, out):
    torch.add(x, 1, out=out)  # warning: [GB0247] "out="
    return out


# fuselight: writes_to_a_column(f32[4], f32[4, 2])
def writes_to_a_column(x, table):
    torch.add(x, 1, out=table[:, 0])  # warning: [GB0242] "`out=` is a tensor that is not contiguous"
    return table


# fuselight: adds_a_string(f32[4])
def adds_a_string(x):
    return torch.add(x, "a")  # error: [FL401] "must be Tensor"  # warning: [GB0112] "does not match"


# fuselight: makes_a_nested_tensor([f32[4], f32[3]])
def makes_a_nested_tensor(xs):  # info: [FL101] "is not compiled"
    nested = torch.nested.nested_tensor(xs)  # warning: [GB0090] "fake tensors"
    return nested.to_padded_tensor(0.0)  # warning: [GB0016] "nested"


# fuselight: asks_whether_it_is_an_inference_tensor(f32[4])
def asks_whether_it_is_an_inference_tensor(x):
    return x if x.is_inference() else x + 1  # warning: [GB0045] "is_inference"
