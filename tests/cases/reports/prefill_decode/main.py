"""Small compiled layers see prompts of any length, then single tokens."""
import torch

from layers import RMSNorm, Rotary

norm, rotary = RMSNorm(16), Rotary(16)


@torch.inference_mode()
def generate(prompt_length, new_tokens=3):
    x = torch.randn(prompt_length, 16)
    rotary(torch.arange(prompt_length), norm(x))
    for i in range(new_tokens):
        rotary(torch.tensor([prompt_length + i]), norm(torch.randn(1, 16)))


if __name__ == "__main__":
    for length in (7, 12, 31):
        generate(length)
# run by: make corpora
