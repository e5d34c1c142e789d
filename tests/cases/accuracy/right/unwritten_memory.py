# truth: half of the result is memory that was never written: eager mode differs from itself
# stage: none
# seen: result 0: eager -1.68164e+26, compiled nan
import torch


def filled(x):
    out = torch.empty(4096)
    out[: x.shape[0]] = x
    return out * 2.0


def main():
    scrap = [torch.full((4096,), float(index)) for index in range(3)]
    del scrap
    return torch.compile(filled)(torch.ones(2048))


if __name__ == "__main__":
    print(main())
