"""Breaks at NumPy calls that torch cannot turn into its own."""

import numpy as np
import torch


# fuselight: a_function_without_a_counterpart(f32[4])
def a_function_without_a_counterpart(x):
    return x + torch.as_tensor(np.unwrap(x.numpy()))  # warning: [GB0294] "no equivalent in torch"
    #                          ^^^^^^^^^^^^^^^^^^^^


# fuselight: a_method_of_a_function(f32[4])
def a_method_of_a_function(x):
    return x + np.linalg.norm.__call__(x.numpy())
    # warning: [GB0290] "a method of a NumPy function is called"


# fuselight: an_attribute(f32[4])
def an_attribute(x):  # info: [FL101] "is not compiled"
    return x + x.numpy().flags.c_contiguous  # warning: [GB0157] "attribute of a NumPy array"


# fuselight: a_method(f32[4])
def a_method(x):
    return x + len(x.numpy().tobytes())  # warning: [GB0158] "method of a NumPy array"


# fuselight: an_array_of_objects(f32[4])
def an_array_of_objects(x):  # info: [FL101] "the rest of `an_array_of_objects` is not compiled"
    objects = x.numpy().astype(object)  # warning: [GB0250] "astype(object)"
    return x + len(objects)  # warning: [GB0185] "this NumPy array cannot become a tensor"


# fuselight: stays_in_torch(f32[4])
def stays_in_torch(x):
    return x + torch.from_numpy(np.sin(x.numpy()))
