"""A function clips parameters under no_grad, before and after they are trained."""
import torch


@torch.compile(backend="eager")
def clipped_sum(a, b):
    with torch.no_grad():
        return (a + b).clip(0)
        # warning: [FL201] "recompiled: a.requires_grad was False, now True"
        # warning: [FL201] "recompiled: b.requires_grad was False, now True"


if __name__ == "__main__":
    torch.manual_seed(0)
    a, b = torch.randn(16, 16), torch.randn(16, 16)
    clipped_sum(a, b)
    a.requires_grad_(True)
    clipped_sum(a, b)
    b.requires_grad_(True)
    print(clipped_sum(a, b).shape)
# run by: make corpora
