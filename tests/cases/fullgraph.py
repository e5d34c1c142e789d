"""`fullgraph=True`: a break is an error, on the line that breaks."""

import time

import torch


# fuselight: a_number_from_the_clock(f32[4])
@torch.compile(fullgraph=True)
def a_number_from_the_clock(x):
    return x * time.time()  # error: [FL404] "graph break under fullgraph=True"
    #          ^^^^^^^^^^^


# fuselight: an_item_stays_symbolic(f32[4])
@torch.compile(fullgraph=True)
def an_item_stays_symbolic(x):
    return x * x.sum().item()


# fuselight: a_branch(f32[4])
@torch.compile(fullgraph=True)
def a_branch(x):
    if x.sum() > 0:  # error: [FL404] "a branch depends on the data of a tensor"
        return x + 1
    return x - 1


def helper(x):
    print("in a helper")  # error: [FL404] "`print` cannot be traced"
    return x + 1


# fuselight: breaks_in_a_helper(f32[4])
@torch.compile(fullgraph=True)
def breaks_in_a_helper(x):
    return helper(x) * 2


# fuselight: whole(f32[4])
@torch.compile(fullgraph=True)
def whole(x):
    return x.sin() + 1
