# truth: os.getenv is read once; the second call keeps the first call's temperature
# stage: capture
# seen: result 1: eager 0.5, compiled 2
import os

import torch


def sharpen(logits):
    return logits / float(os.getenv("SAMPLER_TEMPERATURE", "1"))  # <-


def main():
    sharpened = torch.compile(sharpen)
    logits = torch.tensor([1.0, 2.0, 4.0])
    results = []
    for temperature in ("2", "8"):
        os.environ["SAMPLER_TEMPERATURE"] = temperature
        results.append(sharpened(logits))
    return results


if __name__ == "__main__":
    print(main())
