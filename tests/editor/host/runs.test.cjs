/** The extension's logic in the real extension host: runs, findings, recovery, the report, the problem report. */

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");
const vscode = require("vscode");
const {
  activate,
  editAndSave,
  folders,
  runFile,
  setInterpreter,
  support,
  until,
  workerPid,
} = require("../harness/host_support.cjs");

const folder = () => folders()[0];
const model = () => vscode.Uri.joinPath(folder().uri, "model.py");
const atRun = { codes: ["GB0059"], line: 14 };

describe("Runs", () => {
  let api;
  let shown;

  before(async () => {
    shown = support(model());
    api = await activate(model());
    await setInterpreter(api, folder(), process.env.FUSELIGHT_PYTHON);
    await api.consent.remember(folder().uri.toString(), "run");
    await api.idle(0);
  });

  after(async () => {
    await setInterpreter(api, folder(), undefined);
    await vscode.commands.executeCommand("workbench.action.closeAllEditors");
  });

  afterEach(function () {
    if (this.currentTest.state === "failed") {
      const found = shown.findings().map((one) => one.message);
      console.log(JSON.stringify({ statuses: api.statuses(), findings: found }, null, 2));
    }
  });

  /** Waits until the active tab is the rendered preview of a file, and closes it. */
  async function closePreview(name) {
    const active = () => vscode.window.tabGroups.activeTabGroup.activeTab;
    const isShown = () =>
      active()?.label === `Preview ${name}` && /markdown\.preview/.test(active().input?.viewType);
    await until(isShown);
    await vscode.window.tabGroups.close(active());
  }

  async function withInterpreter(path, body) {
    await setInterpreter(api, folder(), path);
    try {
      return await body();
    } finally {
      await setInterpreter(api, folder(), process.env.FUSELIGHT_PYTHON);
    }
  }

  const unusable = () =>
    api.until((one) => one.folder === folder().uri.toString() && one.state === "noInterpreter");

  /** Only without torch: with it, the checks compile on each device, which the tests of the worker wait for. */
  async function checksEnvironment(python) {
    await vscode.commands.executeCommand("fuselight.checkEnvironment");
    await closePreview("environment.md");
    const page = vscode.Uri.joinPath(api.storage, "environment.md");
    const text = Buffer.from(await vscode.workspace.fs.readFile(page)).toString("utf8");
    assert.match(text, /^# Fuselight: the environment/);
    assert.match(text, /1 of 2 checks failed/);
    assert.ok(text.replaceAll("\\", "").includes(`torch: not installed in ${python}`), text);
    await vscode.window.showTextDocument(model());
  }

  it("serves an agent with its tools and the text of the editor", async () => {
    assert.equal(typeof vscode.lm.registerMcpServerDefinitionProvider, "function");
    const { command, args } = await api.agentServer();
    const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
    try {
      const lines = readline.createInterface({ input: agent.stdout })[Symbol.asyncIterator]();
      const ask = async (id, method, params) => {
        agent.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
        return JSON.parse((await lines.next()).value).result;
      };
      const client = { name: "test", version: "1" };
      await ask(1, "initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: client });
      const { tools } = await ask(2, "tools/list", {});
      assert.ok(tools.some(({ name }) => name === "check"));
      const paths = [model().fsPath];
      const answer = await ask(3, "tools/call", { name: "targets", arguments: { paths } });
      assert.equal(answer.isError, false, JSON.stringify(answer));
      assert.match(answer.content[0].text, /model\.py/);
      const outside = await ask(4, "tools/call", { name: "targets", arguments: { paths: ["/etc/hosts"] } });
      assert.match(outside.content[0].text, /outside of the folders/);
    } finally {
      agent.stdin.end();
      await once(agent, "exit");
    }
    assert.equal(agent.exitCode, 0);
  });

  it("chooses the interpreter of the setting and says so", () => {
    const own = api.resolution().folders.find((one) => one.uri === folder().uri.toString());
    assert.equal(own.choice.interpreter.executable, process.env.FUSELIGHT_PYTHON);
    assert.equal(own.why, "set by fuselight.interpreter");
  });

  it("shows a graph break on its line, with the page of its code", async () => {
    const status = await runFile(api);
    assert.match(status.torch, /^\d+\.\d+/);
    assert.deepEqual(shown.codes(), atRun.codes);
    const [found] = shown.findings();
    assert.equal(found.range.start.line, atRun.line);
    assert.match(found.code.target.toString(), /^https:/);
  });

  it("has lenses with the counts, Run and Details", async () => {
    const titles = await shown.lenses();
    assert.ok(titles.includes("2 graphs, 1 break"), titles.join("\n"));
    assert.ok(
      titles.some((title) => /^(recompiles if|inputs from line 7)/.test(title)),
      titles.join("\n"),
    );
    assert.ok(titles.includes("Run") && titles.includes("Details"));
  });

  it("goes to the next finding and copies it as Markdown", async () => {
    await vscode.commands.executeCommand("fuselight.nextFinding");
    assert.equal(vscode.window.activeTextEditor.selection.active.line, atRun.line);
    await vscode.commands.executeCommand("fuselight.copyFinding");
    assert.match(await vscode.env.clipboard.readText(), /GB0059/);
  });

  it("goes back to the previous finding from below it", async () => {
    const editor = vscode.window.activeTextEditor;
    const end = editor.document.lineAt(editor.document.lineCount - 1).range.end;
    assert.ok(end.line > atRun.line);
    editor.selection = new vscode.Selection(end, end);
    await vscode.commands.executeCommand("fuselight.previousFinding");
    assert.equal(vscode.window.activeTextEditor.selection.active.line, atRun.line);
  });

  it("shows the report of the target that is asked for", async () => {
    await vscode.commands.executeCommand("fuselight.showDetails", { uri: model().toString(), target: "Net" });
    const [target] = api.report();
    assert.equal(target.label, "Net");
    assert.ok(target.children.some((child) => child.label.startsWith("Graph breaks")));
  });

  it("lists what would compile the target again in its report, and where", () => {
    const [target] = api.report();
    const forecast = target.children.find((child) => child.label.startsWith("Recompiles if"));
    const change = forecast.children.find((child) => child.label.startsWith("the batch changes"));
    assert.match(change.label, /x\.size\(0\): 4 → 3/);
    assert.match(change.description, /one more compile.*line \d+/);
    assert.match(change.tooltip, /mark_dynamic\(x, 0\)/);
    assert.ok(change.range, "it leads to the line that made the guard");
  });

  it("has inlay hints after assignments, and a command that switches them", async () => {
    const whole = new vscode.Range(0, 0, 100, 0);
    const hints = async () => {
      const found = await vscode.commands.executeCommand("vscode.executeInlayHintProvider", model(), whole);
      return found.map((hint) => (typeof hint.label === "string" ? hint.label : hint.label[0].value));
    };
    const configured = () => vscode.workspace.getConfiguration("fuselight", model()).get("inlayHints");
    const has = (text) => async () => (await hints()).some((label) => label.includes("f32[4, 8]")) === text;
    assert.equal(configured(), "assignments");
    assert.ok(await has(true)(), (await hints()).join("\n"));
    for (const [value, isShown] of [
      ["all", true],
      ["off", false],
      ["assignments", true],
    ]) {
      await vscode.commands.executeCommand("fuselight.switchInlayHints");
      assert.equal(configured(), value);
      while (!(await has(isShown)())) {
        await new Promise((again) => setTimeout(again, 50));
      }
    }
  });

  it("changes the findings when the file is edited and saved", async () => {
    const before = api.generation();
    await editAndSave(model(), 'print("layer")', "y = y * 2");
    await api.idle(before + 1);
    assert.deepEqual(shown.codes(), []);
    const titles = await shown.lenses();
    assert.ok(titles.includes("1 graph, no breaks"), titles.join("\n"));
    assert.ok(
      titles.some((text) => /^line \d+( \(deleted\))?: break gone$/.test(text)),
      titles.join("\n"),
    );
    await editAndSave(model(), "y = y * 2", 'print("layer")');
    await api.idle(before + 2);
    assert.deepEqual(shown.codes(), atRun.codes);
  });

  it("recovers when the worker is killed", async () => {
    const pid = await workerPid(folder());
    process.kill(pid, "SIGKILL");
    await runFile(api);
    assert.deepEqual(shown.codes(), atRun.codes);
    assert.notEqual(await workerPid(folder()), pid);
  });

  it("starts the server again when that is killed", async () => {
    const pid = api.serverPid();
    process.kill(pid, "SIGKILL");
    await api.until((one) => one.state === "idle" && api.serverPid() !== null && api.serverPid() !== pid);
    await runFile(api);
    assert.deepEqual(shown.codes(), atRun.codes);
  });

  it("runs what was saved while the server started, and a command that was given then", async () => {
    const restarted = vscode.commands.executeCommand("fuselight.restartServer");
    await editAndSave(model(), 'print("layer")', 'print("layer")  # saved');
    // A warning would wait here for an answer.
    await vscode.commands.executeCommand("fuselight.clearCaches");
    await restarted;
    assert.notEqual(api.serverPid(), null);
    await api.idle(1);
    assert.deepEqual(shown.codes(), atRun.codes);
    await editAndSave(model(), 'print("layer")  # saved', 'print("layer")');
    await api.idle(2);
  });

  it("asks again about a folder whose answer is taken back", async () => {
    const uri = folder().uri.toString();
    await api.consent.remember(uri, "never");
    await vscode.commands.executeCommand("fuselight.askAgain");
    assert.equal(api.consent.of(uri), null);
    await api.consent.remember(uri, "run");
    await runFile(api);
    assert.deepEqual(shown.codes(), atRun.codes);
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

  it("has a link and a quick fix to the page of every code, and opens pages as previews", async () => {
    const pages = vscode.Uri.joinPath(
      vscode.extensions.getExtension("fuselight.fuselight").extensionUri,
      "docs/findings",
    );
    const names = (await vscode.workspace.fs.readDirectory(pages)).map(([name]) => name);
    assert.ok(names.length > 30);
    const opened = [];
    for (const name of names) {
      const code = name.replace(".md", "");
      const page = vscode.Uri.joinPath(pages, name);
      const finding = new vscode.Diagnostic(new vscode.Range(0, 0, 0, 1), "of the server");
      finding.code = { value: code, target: page };
      const { scheme, path: command, query } = api.withPageLinks([finding])[0].code.target;
      assert.equal(scheme, "command");
      assert.deepEqual(JSON.parse(query), [page.toString()], "the address that a quick fix passes");
      if (code.endsWith("01")) {
        opened.push(code); // the first page of a family: a preview takes half a second
        await vscode.commands.executeCommand(command, page.toString());
        await closePreview(name);
      }
    }
    assert.ok(opened.length >= 5, opened.join(", "));
    await vscode.window.showTextDocument(model());
  });

  it("says that an interpreter is not there, and the server stays", async () => {
    const server = api.serverPid();
    const nowhere = vscode.Uri.joinPath(folder().uri, "no-such-python").fsPath;
    await withInterpreter(nowhere, async () => {
      await vscode.commands.executeCommand("fuselight.runFile");
      const status = await unusable();
      assert.match(`${status.detail} ${status.why}`, /no-such-python|no such file/);
    });
    assert.equal(api.serverPid(), server);
  });

  it("looks again when Run is pressed after an environment got torch", async () => {
    const environment = vscode.Uri.joinPath(folder().uri, ".venv").fsPath;
    const link = (python) => {
      fs.rmSync(environment, { force: true });
      fs.symlinkSync(path.dirname(path.dirname(python)), environment);
    };
    link(process.env.FUSELIGHT_BARE_PYTHON);
    try {
      await withInterpreter(path.join(environment, "bin", "python"), async () => {
        await vscode.commands.executeCommand("fuselight.runFile");
        await unusable();
        link(process.env.FUSELIGHT_PYTHON);
        await runFile(api);
        assert.deepEqual(shown.codes(), atRun.codes);
      });
    } finally {
      fs.rmSync(environment, { force: true });
    }
  });

  it("says that a Python has no torch, names it, checks it, and works again with one that has", async () => {
    const bare = process.env.FUSELIGHT_BARE_PYTHON;
    await withInterpreter(bare, async () => {
      await vscode.commands.executeCommand("fuselight.runFile");
      const status = await unusable();
      assert.equal(status.text, "no torch");
      assert.ok(status.detail.includes(bare), status.detail);
      await checksEnvironment(bare);
    });
    await runFile(api);
    assert.deepEqual(shown.codes(), atRun.codes);
  });
});
