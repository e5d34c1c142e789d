/** Generated kernels in the real extension host: generate, show, linked cursors, heat, a removed text. */

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const vscode = require("vscode");
const {
  activate,
  editAndSave,
  folders,
  setInterpreter,
  support,
  until,
} = require("../harness/host_support.cjs");

const folder = () => folders()[0];
const model = () => vscode.Uri.joinPath(folder().uri, "gelu.py");
const [matmul, gelu, double] = [7, 8, 9];
const hasTriton = () => spawnSync(process.env.FUSELIGHT_PYTHON, ["-c", "import triton"]).status === 0;

describe("Kernels", () => {
  let api;
  let shown;

  before(async function () {
    if (!hasTriton()) {
      this.skip();
    }
    shown = support(model());
    api = await activate(model());
    await setInterpreter(api, folder(), process.env.FUSELIGHT_PYTHON);
    await vscode.workspace.getConfiguration("fuselight").update("device", "h200", true);
    await api.until((one) => one.device?.key === "h200");
    await api.consent.remember(folder().uri.toString(), "run");
    await api.idle(0);
  });

  afterEach(function () {
    if (this.currentTest.state === "failed") {
      console.log(JSON.stringify({ statuses: api.statuses(), marked: api.marked() }, null, 2));
    }
  });

  after(async () => {
    await vscode.workspace.getConfiguration("fuselight").update("device", undefined, true);
    await setInterpreter(api, folder(), undefined);
    await vscode.commands.executeCommand("workbench.action.closeAllEditors");
  });

  async function generate() {
    const next = api.generation() + 1;
    await vscode.commands.executeCommand("fuselight.kernels");
    await api.idle(next);
  }

  async function moveTo(editor, line) {
    await vscode.window.showTextDocument(editor.document, { viewColumn: editor.viewColumn });
    const active = vscode.window.activeTextEditor;
    active.selection = new vscode.Selection(line, 0, line, 0);
  }

  /** Resolves when the marks are as wanted: they follow a move of the cursor a little later. */
  async function marked(wanted) {
    const sorted = (all) => JSON.stringify(all.toSorted((one, other) => one.uri.localeCompare(other.uri)));
    await until(() => sorted(api.marked()) === sorted(wanted));
  }

  const kernelEditor = () =>
    vscode.window.visibleTextEditors.find(({ document }) => document.uri.scheme === "fuselight-kernel");
  const sourceEditor = () =>
    vscode.window.visibleTextEditors.find(({ document }) => document.uri.toString() === model().toString());

  it("generates the kernels of the target at the cursor", async () => {
    vscode.window.activeTextEditor.selection = new vscode.Selection(gelu, 0, gelu, 0);
    await generate();
    const titles = await shown.lenses();
    assert.ok(
      titles.some((text) => /^2 kernels, ~[\d.]+ µs on h200$/.test(text)),
      titles.join("\n"),
    );
    assert.ok(titles.some((text) => /^1 kernel, ~[\d.]+ µs \(\d+%\), fused with line 10$/.test(text)));
  });

  it("marks the lines by their share of the time", () => {
    const lines = api.heat(model()).map(({ line }) => line);
    assert.deepEqual(lines, [matmul, gelu, double]);
  });

  it("shows the source of a kernel next to the line", async () => {
    await vscode.commands.executeCommand("fuselight.showKernel", { uri: model().toString(), line: double });
    const { document } = kernelEditor();
    assert.equal(document.languageId, "python");
    assert.match(document.uri.path, /triton_poi_fused_gelu_mul_0\.py$/);
    assert.match(document.getText(), /^# triton_poi_fused_gelu_mul_0: launch 2 of 2 of the inference graph/);
    assert.match(document.getText(), /# From gelu\.py, lines 9-10\.\n/);
    assert.match(document.getText(), /tl\.load/);
    assert.equal(vscode.window.activeTextEditor.document.uri.toString(), model().toString());
  });

  it("links a kernel that a lens has opened to the line of the lens until the cursor moves", async () => {
    await moveTo(sourceEditor(), 0);
    await marked([]);
    const lens = { uri: model().toString(), line: double, last: double };
    await vscode.commands.executeCommand("fuselight.showKernel", lens);
    const kernel = kernelEditor().document;
    await marked([
      { uri: kernel.uri.toString(), lines: [{ first: 0, last: kernel.lineCount - 2 }] },
      { uri: model().toString(), lines: [{ first: double, last: double }] },
    ]);
    assert.equal(vscode.window.activeTextEditor.selection.active.line, 0);
    await moveTo(sourceEditor(), matmul);
    await marked([]);
  });

  it("marks the kernel's text from the source, and the lines from the kernel's text", async () => {
    const kernel = kernelEditor().document;
    await moveTo(sourceEditor(), gelu);
    const whole = { first: 0, last: kernel.lineCount - 2 };
    await marked([{ uri: kernel.uri.toString(), lines: [whole] }]);
    await moveTo(sourceEditor(), matmul);
    await marked([]);
    await moveTo(kernelEditor(), 12);
    await marked([{ uri: model().toString(), lines: [{ first: gelu, last: double }] }]);
  });

  it("follows the lines when the source is edited above them", async () => {
    const before = api.generation();
    await moveTo(sourceEditor(), gelu); // otherwise the file would be opened a second time, next to itself
    await editAndSave(model(), "import torch\n", "import math\nimport torch\n");
    await api.idle(before + 1);
    await vscode.commands.executeCommand("fuselight.showKernel", {
      uri: model().toString(),
      line: double + 1,
    });
    await moveTo(kernelEditor(), 12);
    await marked([{ uri: model().toString(), lines: [{ first: gelu + 1, last: double + 1 }] }]);
    await moveTo(sourceEditor(), gelu);
    await editAndSave(model(), "import math\n", "");
    await api.idle(before + 2);
  });

  it("is read-only", async () => {
    const uri = kernelEditor().document.uri;
    await assert.rejects(async () => vscode.workspace.fs.writeFile(uri, Buffer.from("x")));
    await assert.rejects(async () => vscode.workspace.fs.delete(uri));
  });

  it("saves a standalone script from the button of the document and from the command palette", async () => {
    await moveTo(kernelEditor(), 12);
    await savesScript(kernelEditor().document.uri);
    await moveTo(kernelEditor(), 12);
    await savesScript(undefined);
  });

  /** `document` is what a button in an editor's title passes. */
  async function savesScript(document) {
    const to = vscode.Uri.joinPath(folder().uri, "kernels.py");
    await vscode.commands.executeCommand("fuselight.saveKernelScript", document, to);
    const text = Buffer.from(await vscode.workspace.fs.readFile(to)).toString("utf8");
    assert.match(text, /^# Runs by itself on a machine with the device and torch/);
    assert.match(text, /def captured_graph\(self, /);
    assert.match(text, /raise SystemExit\(0 if agreed/);
    await vscode.commands.executeCommand("workbench.action.closeActiveEditor");
    await vscode.workspace.fs.delete(to);
  }

  it("switches to the compiled forms of the kernel", async () => {
    const id = new URLSearchParams(kernelEditor().document.uri.query);
    const [uri, target, kernel] = ["uri", "target", "kernel"].map((name) => id.get(name));
    const ptx = { uri, target, kernel, form: "ptx", name: "triton_poi_fused_gelu_mul_0.ptx" };
    const compiled = new Promise((done) => {
      const listener = vscode.workspace.onDidChangeTextDocument(({ document }) => {
        if (/\.visible \.entry/.test(document.getText())) {
          done(listener.dispose());
        }
      });
    });
    await vscode.commands.executeCommand("fuselight.showKernel", ptx);
    assert.equal(kernelEditor().document.languageId, "gpu-assembly");
    await compiled;
    assert.match(kernelEditor().document.getText(), /\/\/ Compiled: \d+ registers/);
    const before = api.report().map(({ label }) => label);
    await moveTo(kernelEditor(), 1);
    assert.deepEqual([before, api.report().map(({ label }) => label)], [["f"], ["f"]]);
    await savesScript(kernelEditor().document.uri);
    await vscode.commands.executeCommand("fuselight.showKernel", { ...ptx, form: "source", name: "k.py" });
  });

  it("marks the source line of an instruction, and the instructions of a line", async () => {
    const source = kernelEditor();
    await moveTo(source, 12);
    await vscode.commands.executeCommand("fuselight.switchKernelFormBeside", "ptx");
    const ptx = vscode.window.visibleTextEditors.find(({ document }) => document.uri.path.endsWith(".ptx"));
    assert.notEqual(ptx.viewColumn, source.viewColumn);
    const line = ({ document }, wanted) =>
      document
        .getText()
        .split("\n")
        .findIndex((text) => wanted.test(text));
    const [stored, store] = [line(source, /tl\.store\(/), line(ptx, /^\s*st\.global/)];
    await moveTo(ptx, store);
    const lines = [{ first: gelu, last: double }];
    await marked([
      { uri: model().toString(), lines },
      { uri: source.document.uri.toString(), lines: [{ first: stored, last: stored }] },
    ]);
    await moveTo(source, stored);
    const back = () => api.marked().find(({ uri }) => uri === ptx.document.uri.toString())?.lines ?? [];
    await until(() => back().some(({ first, last }) => first <= store && store <= last));
    assert.ok(back().every(({ first, last }) => last - first < ptx.document.lineCount / 2));
    await moveTo(ptx, store);
    await vscode.commands.executeCommand("workbench.action.closeActiveEditor");
  });

  it("says what to do when the kernel is gone, and shows it again", async () => {
    const { document } = kernelEditor();
    const text = (wanted) =>
      new Promise((done) => {
        const check = () => wanted.test(document.getText()) && done(listener.dispose());
        const listener = vscode.workspace.onDidChangeTextDocument(check);
        check();
      });
    await vscode.commands.executeCommand("fuselight.clearCaches");
    await text(/To generate them again, open gelu\.py and press Kernels above f/);
    await moveTo(sourceEditor(), gelu);
    await generate();
    await text(/tl\.load/);
  });
});
