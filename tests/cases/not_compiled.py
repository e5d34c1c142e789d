"""Functions that run entirely in eager mode, and why."""

import torch


# fuselight: yields(f32[4])
def yields(x):  # warning: [FL103] "it is a generator"
    yield x + 1


# fuselight: has_no_tensors(3)
def has_no_tensors(n):  # hint: [FL106] "nothing to compile"
    return n + 1


# fuselight: switched_off(f32[4])
# fuselight: switched_off(f32[5])
@torch.compiler.disable
def switched_off(x):  # info: [FL104] "disabled in the code"
    return x + 1


# fuselight: every_value_is_new(f32[4], "a")
# fuselight: every_value_is_new(f32[4], "b")
# fuselight: every_value_is_new(f32[4], "c")
# fuselight: every_value_is_new(f32[4], "d")
# fuselight: every_value_is_new(f32[4], "e")
# fuselight: every_value_is_new(f32[4], "f")
# fuselight: every_value_is_new(f32[4], "g")
# fuselight: every_value_is_new(f32[4], "h")
# fuselight: every_value_is_new(f32[4], "i")
def every_value_is_new(x, name):  # warning: [FL102] "recompile limit"
    return x + 1 if name == "a" else x - 1  # warning: [FL201] "name was 'a', now 'b'"


LINES = iter(open(__file__))


# fuselight: cannot_be_resumed(f32[4])
def cannot_be_resumed(x):
    # info: [FL101] "the rest of `cannot_be_resumed`, from line"
    y = x.sin() + 1
    for line in LINES:
    # warning(2.11, 2.13): [GB0811] "graph break: this object cannot be iterated while tracing"
    # warning(2.14, 2.15): [GB9493] "graph break: `__iter__` of this object is written in C"
        y = y + len(line)
    return y.cos()


# fuselight: works_in_its_second_call(f32[4], False)
# fuselight: works_in_its_second_call(f32[4], True)
def works_in_its_second_call(x, much):  # hint: [FL106] "torch does not trace it again"
    return x + 1 if much else x
