"""Breaks at gradients computed inside the compiled region, and at custom functions."""

import torch
from torch import nn
from torch.autograd import Function

WEIGHT = nn.Parameter(torch.ones(4))
LINEAR = nn.Linear(4, 4)


# fuselight: backward_inside(f32[4], no_grad=False)
def backward_inside(x):
    loss = LINEAR(x).sum()
    loss.backward()  # warning: [GB0123] "`.backward()` is called"
    return loss


# fuselight: grad_inside(f32[4], no_grad=False)
def grad_inside(x):
    loss = LINEAR(x).sum()
    (gradient,) = torch.autograd.grad(loss, [LINEAR.weight])  # warning: [GB9186] "torch.autograd.grad"
    return gradient


# fuselight: reads_grad_fn(f32[4], no_grad=False)
def reads_grad_fn(x):  # info: [FL101] "is not compiled"
    y = x * WEIGHT
    name = y.grad_fn.name()  # warning: [GB0104] "grad_fn"
    return y * len(name)


# fuselight: keeps_a_gradient(f32[4], no_grad=False)
def keeps_a_gradient(x):  # info: [FL101] "is not compiled"
    y = x * WEIGHT
    y.retain_grad()  # warning: [GB0108] "retain_grad"
    return y


# fuselight: makes_a_leaf(f32[4], no_grad=False)
def makes_a_leaf(x):
    return x + torch.zeros(4, requires_grad=True)  # warning: [GB0225] "requires_grad=True"


class WithJvp(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 2


# fuselight: a_custom_jvp(f32[4], train=True)
def a_custom_jvp(x):
    return WithJvp.apply(x * WEIGHT)  # warning: [GB0144] "jvp"


class WithVjp(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def vjp(ctx, gradient):
        return gradient * 2


# fuselight: a_custom_vjp(f32[4], train=True)
def a_custom_vjp(x):
    return WithVjp.apply(x * WEIGHT)  # warning: [GB0145] "vjp"


class Product(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        return gradient, gradient


# fuselight: the_same_tensor_twice(f32[4], train=True)
def the_same_tensor_twice(x):
    y = x * WEIGHT
    return Product.apply(y, y)
    # warning(2.13, 2.14, 2.15): [GB6297] "an autograd.Function receives the same tensor twice"


class Keyword(Function):
    @staticmethod
    def forward(ctx, x, *, scale=1):
        return x * scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient


# fuselight: a_keyword_argument(f32[4], train=True)
def a_keyword_argument(x):
    return Keyword.apply(x * WEIGHT, scale=2)
    # error(2.13, 2.14, 2.15): [FL401] "unexpected keyword"
    # warning(2.13, 2.14, 2.15): [GB4372] "keyword"


class Prints(Function):
    @staticmethod
    def forward(ctx, x):
        print("forward")  # warning: [GB0059] "`print` cannot be traced"
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


# fuselight: a_forward_that_prints(f32[4], train=True)
def a_forward_that_prints(x):
    return Prints.apply(x * WEIGHT)
