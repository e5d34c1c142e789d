# truth: compiled code draws another mask; masks of either are right
# stage: none
# seen: result 0: eager 1, compiled 21
import torch


def masked(x, keep):
    chosen = torch.rand(x.shape[0]) < keep
    return x * chosen + torch.rand_like(x).round()


def main():
    torch.manual_seed(3)
    return torch.compile(masked)(torch.arange(1.0, 25.0), 0.5)


if __name__ == "__main__":
    print(main())
