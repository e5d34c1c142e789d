# truth: nan_to_num replaces the infinity of half precision in eager mode; compiled code computes in float32, where there is none yet, and returns infinity
# stage: code
# seen: result 0: eager 65504, compiled inf
import torch


def bounded(logits, scale):
    scaled = logits * scale
    return torch.nan_to_num(scaled)  # <-


def main():
    logits = torch.tensor([6e4, -6e4, 0.5, 7.0], dtype=torch.float16)
    return torch.compile(bounded)(logits, torch.tensor(2.0, dtype=torch.float16))


if __name__ == "__main__":
    print(main())
