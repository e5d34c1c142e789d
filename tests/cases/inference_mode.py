"""Views of an input in inference mode: AOTAutograd refuses them if compiled code enters the mode."""

import torch


# fuselight: view_of_an_input(f32[4])
@torch.inference_mode()
def view_of_an_input(x):
    return x[1:] * 2  # error: [FL402] "Cannot set version_counter for inference tensor"


# fuselight: computes_first(f32[4])
@torch.inference_mode()
def computes_first(x):
    return (x * 2)[1:]


# fuselight: without_gradients(f32[4])
@torch.no_grad()
def without_gradients(x):
    return x[1:] * 2
