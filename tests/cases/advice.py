"""The advice of findings. The expected texts are in the message, not in the title."""

import torch


# fuselight: varying_size(f32[4, 8])
# fuselight: varying_size(f32[4, 9])
def varying_size(x):
    return x + 1  # warning: [FL201] "not tried yet"


# fuselight: size_of_one(f32[1])
# fuselight: size_of_one(f32[9])
def size_of_one(x):
    return x + 1  # info: [FL201] "torch compiles a size of 0 or 1 separately"


# fuselight: size_of_one_though_dynamic(f32[4])
# fuselight: size_of_one_though_dynamic(f32[1])
@torch.compile(dynamic=True)
def size_of_one_though_dynamic(x):
    return x + 1  # info: [FL201] "torch compiles a size of 0 or 1 separately"


# fuselight: kept_fixed(f32[4])
# fuselight: kept_fixed(f32[5])
@torch.compile(dynamic=False)  # warning: [FL201] "recompiled: x.size(0) was 4, now 5"
def kept_fixed(x):
    return x + 1


# fuselight: fixed_by_a_loop(f32[4])
# fuselight: fixed_by_a_loop(f32[5])
# fuselight: fixed_by_a_loop(f32[6])
def fixed_by_a_loop(x):
    total = x.sum()  # warning: [FL201] "recompiled: x.size(0) was 4, now 5"
    for i in range(x.size(0)):
        total = total + i
    return total


@torch.compiler.disable
def off(x):
    return x.sin()


# fuselight: a_tensor_comes_from_behind_a_break(f32[4])
# fuselight: a_tensor_comes_from_behind_a_break(f32[5])
def a_tensor_comes_from_behind_a_break(x):
    return off(x) + 1  # warning: [GB0098] "off"
    # warning: [FL201] "its part after the graph break"


# fuselight: an_argument_behind_a_break(f32[4])
# fuselight: an_argument_behind_a_break(f32[5])
def an_argument_behind_a_break(x):
    print("start")  # warning: [GB0059] "print"
    return x * 2  # warning: [FL201] "recompiled: x.size(0) was 4, now 5"


# fuselight: a_number_stands_on_what_made_it(f32[4])
# fuselight: a_number_stands_on_what_made_it(f32[4] * 2)
def a_number_stands_on_what_made_it(x):
    n = x.sum().item()  # warning: [GB0124] "item"
    # warning: [FL201] "the part after the graph break on line 66 was compiled again too"
    print("between")  # warning: [GB0059] "print"
    return x * n


# fuselight: the_same_twice(f32[4], f32[4])
# fuselight: the_same_twice(*[f32[4]] * 2)
def the_same_twice(x, y):  # warning: [FL201] "recompiled: x and y are the same tensor now, which they were not"
    return x + y


# fuselight: several_guards(f32[4], 2, "a")
# fuselight: several_guards(f64[4], 2, "b")
def several_guards(x, n, name):
    if name == "a":  # warning: [FL201] "Other failed guards:"
        return x * n
    return x + n


# fuselight: three_versions(f32[4], "a")
# fuselight: three_versions(f32[4], "b")
# fuselight: three_versions(f32[4], "c")
def three_versions(x, name):
    return x + 1 if name == "a" else x - 1  # warning: [FL201] "name was 'b', now 'c'"


# fuselight: item(f32[4])
def item(x):
    return x * x.sum().item()  # warning: [GB0124] "not tried yet"


# fuselight: no_break_can_be_here(f32[4])
@torch.compile(fullgraph=True)
def no_break_can_be_here(x):
    if x.sum() > 0:  # error: [FL404] "remove fullgraph=True"
        return x + 1
    return x - 1


COUNT = 2


# fuselight: counts(f32[4])
# fuselight: counts(f32[4])
@torch.compile(dynamic=True)
def counts(x):
    global COUNT
    COUNT += 1  # warning(2.11, 2.13): [FL201] "recompiled: COUNT was 2, now 3"
    return x * COUNT  # warning(2.14, 2.15): [FL201] "COUNT was 2, now 3"
