/** An untrusted folder: its interpreters and its code never run, and features that need neither work. */

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");
const { activate, editAndSave, folders, support } = require("../harness/host_support.cjs");

describe("An untrusted workspace", () => {
  const folder = () => folders()[0].uri.fsPath;
  const model = () => vscode.Uri.joinPath(folders()[0].uri, "model.py");
  const started = () => path.join(folder(), "was-started");
  let api;
  let shown;

  before(async () => {
    // All settings with which a folder could start its own program in place of a Python.
    const trap = `#!/bin/sh\necho "$0" >> ${started()}\n`;
    for (const name of [".venv/bin/python", "venv/bin/python", "python3"]) {
      fs.mkdirSync(path.dirname(path.join(folder(), name)), { recursive: true });
      fs.writeFileSync(path.join(folder(), name), trap, { mode: 0o755 });
    }
    fs.mkdirSync(path.join(folder(), ".vscode"));
    const settings = {
      "fuselight.interpreter": path.join(folder(), ".venv/bin/python"),
      "fuselight.serverInterpreter": path.join(folder(), ".venv/bin/python"),
      "python.defaultInterpreterPath": path.join(folder(), "venv/bin/python"),
    };
    fs.writeFileSync(path.join(folder(), ".vscode/settings.json"), JSON.stringify(settings));
    // Code that would leave a file if it were imported.
    fs.appendFileSync(model().fsPath, `\nopen(${JSON.stringify(started())}, "a").write("imported")\n`);
    shown = support(model());
    api = await activate(model());
    await api.consent.remember(folders()[0].uri.toString(), "run");
    await api.until((one) => one.state === "untrusted");
  });

  after(() => {
    assert.ok(!fs.existsSync(started()), fs.existsSync(started()) ? fs.readFileSync(started(), "utf8") : "");
  });

  it("is untrusted for VS Code", () => {
    assert.equal(vscode.workspace.isTrusted, false);
  });

  it("has no interpreter, and the server still reads the source", async () => {
    assert.ok(api.resolution().folders.every((one) => one.choice === null));
    assert.notEqual(api.serverPid(), null);
    await editAndSave(model(), "f32[4, 8]", "f32[4, 8");
    await shown.until((found) => found.some((one) => one.code.value === "FL501"));
    const { target } = shown.findings().find((one) => one.code.value === "FL501").code;
    assert.equal(target.scheme, "command");
    assert.match(target.query, /file:.*docs\/findings\/FL501\.md/);
  });

  it("offers no run", async () => {
    assert.ok(!(await shown.lenses()).includes("Run"));
  });

  it("runs nothing on a save or on request", async () => {
    await editAndSave(model(), "f32[4, 8", "f32[4, 8]");
    await shown.until((found) => found.every((one) => one.code.value !== "FL501"));
    const command = { uri: model().toString(), target: "Net" };
    await vscode.commands.executeCommand("fuselight.server.run", command);
    const report = String(await vscode.commands.executeCommand("fuselight.server.problemReport"));
    assert.doesNotMatch(report, /worker: pid/);
    assert.ok(api.statuses().every((one) => one.state === "untrusted" && one.generation === 0));
  });
});
