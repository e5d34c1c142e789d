"""Breaks at user-defined objects."""

import collections
import enum
import operator

import torch


class Mode(enum.Enum):
    FAST = 1


class Plain:
    pass


class Other:
    pass


OBJECT = Plain()


class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        print(function)  # warning: [GB0059] "`print` cannot be traced"
        return super().__torch_function__(function, types, args, kwargs or {})


def loud():
    return torch.ones(4).as_subclass(Loud)


# fuselight: changes_its_class(f32[4])
def changes_its_class(x):
    OBJECT.__class__ = Other  # warning: [GB4271] "__class__"
    return x + 1


# fuselight: a_queue_of_too_many_words(f32[4])
def a_queue_of_too_many_words(x):
# info(2.15): [FL101] "`a_queue_of_too_many_words` is not compiled: torch skipped it"
    collections.deque([1, 2], 2, 3)
    # error: [FL401] "at most 2"
    # warning(2.11, 2.13, 2.14): [GB0258] "deque"
    # warning(2.15): [GB0088] "graph break: an exception is raised here while tracing"
    return x + 1


# fuselight: an_enum_of_a_tensor(f32[4], i64[])
def an_enum_of_a_tensor(x, i):
    return x + Mode(i).value
    # error: [FL401] "not a valid Mode"
    # warning(2.13, 2.14, 2.15): [GB0569] "repr()"
    # warning(2.11): [GB0059] "`repr` cannot be traced"


# fuselight: calls_an_object_written_in_c(f32[4], operator.itemgetter(0))
def calls_an_object_written_in_c(x, first):
    return first([x]) + 1
    # warning(2.11, 2.13): [GB0156] "itemgetter"
    # warning(2.14, 2.15): [GB4818] "this object cannot be called while tracing"


# fuselight: a_tensor_with_a_function_of_its_own(loud())
def a_tensor_with_a_function_of_its_own(x):  # info: [FL101] "is not compiled"
    return x + 1


@torch._dynamo.nonstrict_trace
def takes_anything(x, other):
    return x + 1


# fuselight: gives_an_object_to_a_traced_function(f32[4], object())
def gives_an_object_to_a_traced_function(x, other):
    return takes_anything(x, other)  # warning: [GB0236] "nonstrict_trace"


@torch._dynamo.nonstrict_trace
def gives_anything(x):
    return Plain()


# fuselight: takes_an_object_from_a_traced_function(f32[4])
def takes_an_object_from_a_traced_function(x):
    gives_anything(x)  # warning: [GB0251] "nonstrict_trace"
    return x + 1
