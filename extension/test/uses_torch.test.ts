/** In which files runs are offered. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { usesTorch } from "../src/report/uses_torch.ts";

for (const text of [
  "import torch",
  "from torch import nn",
  "import torch.nn.functional as F",
  "from torchvision.models import resnet18",
  "from model import Net\n\n# fuselight: Net()(f32[4, 8])\nnet = Net()",
]) {
  test(`${JSON.stringify(text)} uses torch`, () => assert.ok(usesTorch(text)));
}

for (const text of ["", "import os", "torchlight = 1", "print('a fuselight: lamp')", "import numpy as np"]) {
  test(`${JSON.stringify(text)} does not use torch`, () => assert.ok(!usesTorch(text)));
}
