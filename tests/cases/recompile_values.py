"""Recompilations because a Python value among the arguments changed."""

import torch


class Plain:
    pass


class Scaled:
    scale = 3


def adder(k):
    def add(x):
        return x + k  # warning: [FL201] "was 1, now 2"

    return add


def increment(x):
    return x + 1


def decrement(x):
    return x - 1


# fuselight: whole_number(f32[4], 2)
# fuselight: whole_number(f32[4], 3)
def whole_number(x, n):
    return x * n  # warning(2.13, 2.14, 2.15): [FL201] "n was 2, now 3"
    #      ^^^^^
    # warning(2.11): [FL201] "n was 2, now 3"


# fuselight: fraction(f32[4], 0.5)
# fuselight: fraction(f32[4], 0.25)
def fraction(x, scale):
    return x * scale  # warning: [FL201] "scale was 0.5, now 0.25"


# fuselight: text(f32[4], "sin")
# fuselight: text(f32[4], "cos")
def text(x, name):
    return x.sin() if name == "sin" else x.cos()  # warning: [FL201] "name was 'sin', now 'cos'"


# fuselight: switch(f32[4], True)
# fuselight: switch(f32[4], False)
def switch(x, flag):
    return x + 1 if flag else x - 1  # warning: [FL201] "flag was True, now False"


# fuselight: nothing_then_a_tensor(f32[4], None)
# fuselight: nothing_then_a_tensor(f32[4], f32[4])
def nothing_then_a_tensor(x, bias):
    return x * 2 if bias is None else x + bias  # warning: [FL201] "bias was None"


# fuselight: a_tensor_then_nothing(f32[4], f32[4])
# fuselight: a_tensor_then_nothing(f32[4], None)
def a_tensor_then_nothing(x, bias):
    return x * 2 if bias is None else x + bias  # warning: [FL201] "now None"


# fuselight: longer_list([f32[4]])
# fuselight: longer_list([f32[4], f32[4]])
def longer_list(xs):
    return sum(xs)  # warning: [FL201] "len(xs) was 1, now 2"


# fuselight: tuple_for_a_list([f32[4]])
# fuselight: tuple_for_a_list((f32[4],))
def tuple_for_a_list(xs):
    return sum(xs)  # warning: [FL201] "list"


# fuselight: another_key({"a": f32[4]})
# fuselight: another_key({"a": f32[4], "b": f32[4]})
def another_key(parts):
    return sum(parts.values())  # warning: [FL201] "parts"


# fuselight: another_order({"a": f32[4], "b": f32[4]})
# fuselight: another_order({"b": f32[4], "a": f32[4]})
def another_order(parts):
    return sum(parts.values())  # warning: [FL201] "key 0 of parts was 'a', now 'b'"


# fuselight: key_that_was_not_there(f32[4], {"a": 1})
# fuselight: key_that_was_not_there(f32[4], {"a": 1, "b": 3})
def key_that_was_not_there(x, options):
    return x + options.get("b", 0)  # warning: [FL201] "'b'"


# fuselight: set_of_names(f32[4], {"a"})
# fuselight: set_of_names(f32[4], {"b"})
def set_of_names(x, names):
    return x + 1 if "a" in names else x - 1  # warning: [FL201] "names"


# fuselight: another_torch_function(f32[4], torch.sin)
# fuselight: another_torch_function(f32[4], torch.cos)
def another_torch_function(x, activation):
    return activation(x)  # warning: [FL201] "activation"


# fuselight: another_function(f32[4], increment)
# fuselight: another_function(f32[4], decrement)
def another_function(x, step):
    return step(x)
    # warning(2.13, 2.14, 2.15): [FL201] "step is another function"
    # warning(2.11): [FL201] "step is another object than before: decrement"


# fuselight: another_closure(f32[4], adder(1))
# fuselight: another_closure(f32[4], adder(2))
def another_closure(x, step):
    return step(x)


# fuselight: attribute_that_was_not_there(f32[4], Plain())
# fuselight: attribute_that_was_not_there(f32[4], Scaled())
def attribute_that_was_not_there(x, thing):
    return x * getattr(thing, "scale", 1)  # warning: [FL201] "thing"


# fuselight: more_arguments(f32[4])
# fuselight: more_arguments(f32[4], 1)
def more_arguments(x, *rest):
    return x + len(rest)  # warning: [FL201] "rest"


KEPT = {}


# fuselight: keeps_a_tensor(f32[4])
# fuselight: keeps_a_tensor(f32[4])
def keeps_a_tensor(x):
    KEPT["last"] = x + 1  # warning: [FL201] "KEPT was empty, now a dict of 1"
    return KEPT["last"] * 2
