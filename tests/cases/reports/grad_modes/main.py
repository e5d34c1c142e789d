"""One compiled function is used in training, under no_grad, and on inputs that need gradients."""
import torch


@torch.compile(dynamic=True)
def rmsnorm(x, eps=1e-6):  # info: [FL201] "recompiled: grad mode was off, now on"
    scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    # info: [FL201] "recompiled: 2 <= x.size(0) no longer holds: x.size(0) is 1"
    # warning: [FL201] "recompiled: x.requires_grad was False, now True"
    return (x * scale).to(x.dtype)


def main():
    base = torch.rand(6, 1, 32)
    for flag in (False, True):
        x = base.detach().clone().requires_grad_(flag)
        with torch.no_grad():
            rmsnorm(x)  # info: [FL301] "`x.size(1)` is fixed to 1 although it was marked dynamic"
        y = rmsnorm(x)
        if flag:
            y.sum().backward()
        rmsnorm(base[-1:].detach().requires_grad_(flag))


if __name__ == "__main__":
    main()
# run by: make corpora
