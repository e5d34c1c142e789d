"""Breaks at statements: definitions, exceptions, `with` blocks, loops."""

import contextlib

import torch


# fuselight: defines_a_class(f32[4])
def defines_a_class(x):
    class Local:
    # warning(2.13, 2.14, 2.15): [GB8977] "a class is defined in the compiled region"
    # warning(2.11): [GB0007] "`__build_class__` is not traced by torch.compile"
        scale = 2

    return x * Local.scale


# fuselight: raises(f32[4])
# error: [FL501] "the call passes f32[4], and the code raises ValueError: one dimension is too few"
def raises(x):
    if x.dim() == 1:
        raise ValueError("one dimension is too few")
    return x


# fuselight: reads_before_it_writes(f32[4])
def reads_before_it_writes(x):  # info: [FL101] "is not compiled"
    if x.dim() > 3:
        scale = 2
    return x * scale  # error: [FL401] "UnboundLocalError"  # warning: [GB0011] "a variable is read before it is set"


# fuselight: imports_what_is_not_there(f32[4])
def imports_what_is_not_there(x):  # info: [FL101] "is not compiled"
    import no_such_module  # error: [FL401] "ModuleNotFoundError: No module named 'no_such_module'"
    # warning: [GB0069] "import fails"

    return no_such_module.scale * x


# fuselight: unpacks_too_many(f32[4])
def unpacks_too_many(x):  # info: [FL101] "is not compiled"
    first, second = [x, x, x]
    # error: [FL401] "too many values"
    # warning(2.13, 2.14, 2.15): [GB0088] "raised"
    # warning(2.11): [GB0077] "Length mismatch when unpacking object for UNPACK_SEQUENCE"
    return first + second


# fuselight: breaks_in_a_loop(f32[4])
def breaks_in_a_loop(x):  # info: [FL101] "is not compiled"
    for i in range(3):
        print(i)  # warning: [GB0059] "`print` cannot be traced"
        x = x + 1
    return x


# fuselight: breaks_in_a_try(f32[4])
def breaks_in_a_try(x):  # info: [FL101] "is not compiled"
    try:
        print("in try")  # warning: [GB0059] "`print` cannot be traced"
        return x + 1
    except ValueError:
        return x


class Quiet:
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False


# fuselight: breaks_in_a_with(f32[4])
def breaks_in_a_with(x):  # info: [FL101] "is not compiled"
    with Quiet():
        print("in with")  # warning: [GB0059] "`print` cannot be traced"
        x = x + 1
    return x


# fuselight: breaks_in_no_grad(f32[4])
def breaks_in_no_grad(x):
    with torch.no_grad():
        print("in no_grad")  # warning: [GB0059] "`print` cannot be traced"
        x = x + 1
    return x


# fuselight: breaks_in_a_comprehension([f32[4], f32[4]])
def breaks_in_a_comprehension(xs):
    first, *_ = [print("here") or x + 1 for x in xs]  # warning: [GB0059] "`print` cannot be traced"
    return first


# fuselight: opens_in_a_with(f32[4])
def opens_in_a_with(x):  # info: [FL101] "is not compiled"
    with open("/dev/null") as file:  # warning: [GB0142] "context manager"  # warning: [GB0059] "`open`"
        return x + len(file.read())


# fuselight: closes_what_it_opens(f32[4])
def closes_what_it_opens(x):  # info(2.11, 2.13): [FL101] "is not compiled"
    quiet = contextlib.redirect_stdout(None)  # warning: [GB0262] "contextlib"
    with quiet:  # warning(2.11, 2.13): [GB0142] "context manager"
        return x + 1


# fuselight: consumes_by_a_generator(f32[4])
def consumes_by_a_generator(x):  # info: [FL101] "is not compiled"
    return sum(float(part) for part in x) + x  # warning: [GB0124] "Python number"  # info: [GB8335] "enerator"


# fuselight: calls_none(f32[4])
def calls_none(x):  # info(2.14, 2.15): [FL101] "`calls_none` is not compiled: torch skipped it"
    activation = None
    return activation(x)
    # error: [FL401] "not callable"
    # warning(2.11, 2.13): [GB0147] "cannot be traced"
    # warning(2.14, 2.15): [GB0088] "an exception is raised here while tracing"


# fuselight: adds_an_object(f32[4], object())
def adds_an_object(x, other):  # info: [FL101] "is not compiled"
    return x + other
    # error: [FL401] "TypeError"
    # warning: [GB0055] "graph break: an argument of this call cannot be part of a graph"


# fuselight: an_attribute_that_a_range_has_not(f32[4])
def an_attribute_that_a_range_has_not(x):  # info: [FL101] "is not compiled"
    return x + range(3).size
    # warning(2.13, 2.14, 2.15): [GB4841] "the type of this object is not known"
    # error: [FL401] "AttributeError"
    # warning(2.11): [GB0059] "`add` cannot be traced"
