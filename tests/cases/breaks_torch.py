"""Breaks at torch's own functions: random state, parameters, settings, control flow."""

import torch
from torch._dynamo.comptime import comptime

library = torch.library.Library("fuselight_cases", "DEF")
library.define("double(Tensor x) -> Tensor")
library.impl("double", lambda x: x * 2, "CPU")


# fuselight: asked_for(f32[4])
def asked_for(x):
    torch._dynamo.graph_break()  # info: [GB0025] "requested by torch._dynamo.graph_break()"
    return x + 1


# fuselight: asked_for_at_compile_time(f32[4])
def asked_for_at_compile_time(x):
    comptime.graph_break()  # warning: [GB0030] "comptime"
    return x + 1


# fuselight: skips_its_frame(f32[4])
def skips_its_frame(x):  # info: [FL101] "is not compiled"
    torch._dynamo.skip_frame()  # info: [GB4297] "requested by torch._dynamo.skip_frame()"
    return x + 1


# fuselight: steps_out(f32[4])
def steps_out(x):  # info: [FL101] "is not compiled"
    y = x + 1
    torch._dynamo.step_unsupported()  # warning: [GB0275] "step_unsupported"
    return y + 1


# fuselight: number_of_threads(f32[4])
def number_of_threads(x):
    return x + torch.get_num_threads()  # warning: [GB0208] "does not return a tensor"


# fuselight: makes_a_generator(f32[4])
def makes_a_generator(x):
    generator = torch.Generator()
    # warning(2.13, 2.14, 2.15): [GB0363] "opaque object"
    # warning(2.11): [GB0007] "`Generator.__new__` is not traced by torch.compile"
    generator.manual_seed(3)
    # warning(2.13, 2.14, 2.15): [GB7650] "torch.Generator"
    # warning(2.11): [GB0156] "the method `manual_seed` cannot be traced"
    return x + torch.rand(4, generator=generator)
    # warning: [GB0055] "graph break: `generator` (a `Generator` object) cannot be part of a graph"


# fuselight: asks_for_inference_mode(f32[4])
def asks_for_inference_mode(x):
    return x if torch.is_inference_mode_enabled() else x + 1  # warning: [GB0046] "is_inference_mode_enabled"


# fuselight: looks_for_anomalies(f32[4])
def looks_for_anomalies(x):  # info: [FL101] "is not compiled"
    with torch.autograd.detect_anomaly(check_nan=False):
    # warning(2.11, 2.13): [GB0142] "context"
    # warning: [GB0008] "not traced"
    # warning(2.14, 2.15): [GB0008] "`detect_anomaly.__init__` is not traced by torch.compile"
        return x + 1


# fuselight: an_operator_without_a_fake(f32[4])
def an_operator_without_a_fake(x):
    return torch.ops.fuselight_cases.double(x) + 1  # warning: [GB0090] "fake tensors"
