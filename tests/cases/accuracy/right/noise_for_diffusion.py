# truth: randn_like in compiled code draws other numbers; the distribution is the same
# stage: none
# seen: result 0: eager -0.661673, compiled 1.14209
import torch


def noisy(x, level):
    return x * (1 - level).sqrt() + torch.randn_like(x) * level.sqrt()


def main():
    torch.manual_seed(7)
    return torch.compile(noisy)(torch.zeros(32), torch.tensor(0.25))


if __name__ == "__main__":
    print(main())
