/** The user's own Triton kernels as a user sees them: the lens of a kernel, and its assembly next to its lines. */

import { spawnSync } from "node:child_process";
import { tools } from "../harness/code_server.mjs";
import { expect } from "../harness/expect.mjs";
import { test } from "../harness/session.mjs";

const kernels = `import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm(x, weight, out, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < width
    value = tl.load(x + row * width + at, mask=inside).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value) / width + eps)
    result = value * scale * tl.load(weight + at, mask=inside)
    tl.store(out + row * width + at, result, mask=inside)


# fuselight: norm(bf16[64, 1000], bf16[1000])
@torch.compile
def norm(x, weight):
    out = torch.empty_like(x)
    rms_norm[(x.shape[0],)](x, weight, out, x.shape[1], 1e-6, BLOCK=1024)
    return out
`;
const lineOf = (text) => kernels.split("\n").findIndex((line) => line.includes(text)) + 1;
const hasTriton = () => spawnSync(tools.python, ["-c", "import triton"]).status === 0;

test("a kernel has a lens, and its assembly opens next to its lines", async ({ session }) => {
  test.skip(!hasTriton(), "this environment has no Triton");
  const { view } = await session({ files: { "norm.py": kernels } });

  await test.step("the lens after a run", async () => {
    await view.goToLine(lineOf("def norm"));
    await view.lensAction("Run").first().click();
    await view.allow();
    await view.goToLine(lineOf("def rms_norm"));
    await expect(view.lens(/: \d+ registers, no spills, .*occupancy \d+%, ~[\d.]+ µs/)).toBeVisible({
      timeout: 90_000,
    });
  });

  await test.step("its assembly, and the line of an instruction", async () => {
    await view
      .lensAction(/: \d+ registers/)
      .first()
      .click();
    await expect(view.group(1)).toContainText(".visible .entry");
    await view.group(0).locator(".view-line", { hasText: "tl.store" }).first().click();
    await expect(view.marks(1).first()).toBeVisible();
    await view.screenshot("own-kernel");
    await view.group(0).locator(".view-line", { hasText: "value = tl.load" }).first().click();
    await view.group(1).locator(".view-line", { hasText: "ld.global" }).first().click(); // it is in sight now
    await expect(view.marks(0).first()).toBeVisible();
  });

  await test.step("the same kernel as TTGIR", async () => {
    await view.titleAction("Switch Kernel Form").click();
    await view.choose("Show which form of the kernel?", "TTGIR");
    await expect(view.group(1)).toContainText("ttg.num-warps");
  });
});
