"""Small tensors of Python's numbers: written into the kernel."""

import torch


# fuselight: weighted(f32[8, 4])
def weighted(boxes):
    return boxes * torch.tensor([0.1, 0.1, 0.2, 0.2], device=boxes.device)  # kernel: triton_poi_fused_lift_fresh_mul
