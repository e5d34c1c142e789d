# truth: `any` of unsigned bytes is of unsigned bytes in eager mode and bool in compiled code; a sum with 255 then is another number
# stage: code
# seen: result 0: eager uint8 [2], compiled bool [2]; result 1: eager uint8 [2], compiled bool [2]
import torch


def flagged(mask, base):
    hit = torch.any(mask, dim=1)  # <-
    return hit, hit + base


def main():
    mask = torch.tensor([[0, 3], [0, 0]], dtype=torch.uint8)
    return torch.compile(flagged)(mask, torch.tensor([True, True]))


if __name__ == "__main__":
    print(main())
