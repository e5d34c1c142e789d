/** The extension's logic in the real extension host: runs, findings, recovery, the report, the problem report. */

const assert = require("node:assert/strict");
const path = require("node:path");
const vscode = require("vscode");

const folder = () => vscode.workspace.workspaceFolders[0];
const model = () => vscode.Uri.joinPath(folder().uri, "model.py");
const findings = () => vscode.languages.getDiagnostics(model()).filter((one) => one.source === "fuselight");
const codes = () => findings().map((one) => String(one.code?.value ?? one.code));

describe("Fuselight", () => {
  let api;

  before(async () => {
    // A run that was cut short may have left the setting of the last test behind.
    const configuration = vscode.workspace.getConfiguration("fuselight", folder());
    await configuration.update("interpreter", undefined, vscode.ConfigurationTarget.Workspace);
    await vscode.window.showTextDocument(model());
    api = await vscode.extensions.getExtension("fuselight.fuselight").activate();
    await api.ready;
    await api.consent.remember(folder().uri.toString(), "run");
    await api.idle(0);
  });

  afterEach(function () {
    if (this.currentTest.state === "failed") {
      console.log(
        JSON.stringify({ statuses: api.statuses(), findings: findings().map((one) => one.message) }, null, 2),
      );
    }
  });

  async function runFile() {
    const next = api.generation() + 1;
    await vscode.commands.executeCommand("fuselight.runFile");
    return api.idle(next);
  }

  it("chooses the interpreter of the setting and says so", () => {
    const own = api.resolution().folders.find((one) => one.uri === folder().uri.toString());
    assert.equal(own.choice.interpreter.executable, process.env.FUSELIGHT_PYTHON);
    assert.equal(own.why, "set by fuselight.interpreter");
  });

  it("shows a graph break on its line, with the page of its code", async () => {
    const status = await runFile();
    assert.match(status.torch, /^\d+\.\d+/);
    const found = findings();
    assert.equal(found.length, 1, codes().join());
    assert.equal(found[0].range.start.line, 14);
    assert.match(String(found[0].code.value), /^GB\d{4}$/);
    assert.match(found[0].code.target.toString(), /^https:/);
  });

  it("has lenses with the counts, Run and Details", async () => {
    const lenses = await vscode.commands.executeCommand("vscode.executeCodeLensProvider", model(), 100);
    const titles = lenses.map((lens) => lens.command.title);
    assert.ok(
      titles.some((title) => /^2 graphs, 1 break, 0 recompilations - inputs from line 7$/.test(title)),
      titles.join("\n"),
    );
    assert.ok(titles.includes("Run") && titles.includes("Details"));
  });

  it("goes to the next finding and copies it as Markdown", async () => {
    await vscode.commands.executeCommand("fuselight.nextFinding");
    assert.equal(vscode.window.activeTextEditor.selection.active.line, 14);
    await vscode.commands.executeCommand("fuselight.copyFinding");
    assert.match(await vscode.env.clipboard.readText(), /GB\d{4}/);
  });

  it("shows the report of the target that is asked for", async () => {
    await vscode.commands.executeCommand("fuselight.showDetails", { uri: model().toString(), target: "Net" });
    const [target] = api.report();
    assert.equal(target.label, "Net");
    assert.ok(target.children.some((child) => child.label.startsWith("Graph breaks")));
  });

  it("recovers when the worker is killed", async () => {
    const text = String(await vscode.commands.executeCommand("fuselight.server.problemReport"));
    const pid = Number(/worker: pid (\d+)/.exec(text)[1]);
    process.kill(pid, "SIGKILL");
    await runFile();
    if (codes().includes("FL409")) {
      await runFile(); // the run that met the dead worker says so, and the next one has a new worker
    }
    assert.equal(findings().length, 1, codes().join());
  });

  it("makes a problem report without the user's code", async () => {
    await vscode.commands.executeCommand("fuselight.reportProblem");
    const text = vscode.window.activeTextEditor.document.getText();
    assert.match(text, /Nothing has been sent/);
    assert.match(text, /torch \d/);
    assert.doesNotMatch(text, /self\.layer/);
    await vscode.commands.executeCommand("workbench.action.revertAndCloseActiveEditor");
    await vscode.window.showTextDocument(model());
  });

  it("says what is wrong with an interpreter that has no torch, and the server stays", async () => {
    const server = api.serverPid();
    const configuration = vscode.workspace.getConfiguration("fuselight", folder());
    const bare = path.join(folder().uri.fsPath, "no-such-python");
    await configuration.update("interpreter", bare, vscode.ConfigurationTarget.Workspace);
    try {
      await api.until((one) => one.interpreter === bare);
      await vscode.commands.executeCommand("fuselight.runFile");
      const status = await api.until((one) => one.state === "noInterpreter");
      assert.match(`${status.detail} ${status.why}`, /no-such-python|no such file/);
      assert.equal(api.serverPid(), server);
    } finally {
      await configuration.update("interpreter", undefined, vscode.ConfigurationTarget.Workspace);
    }
  });
});
