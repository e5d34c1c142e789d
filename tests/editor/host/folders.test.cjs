/** Two folders, each with its own interpreter, selected in fakes of the two Python extensions. */

const assert = require("node:assert/strict");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const vscode = require("vscode");
const { activate, folders, runFile, support, workerPid } = require("../harness/host_support.cjs");

describe("Two folders", () => {
  const python = process.env.FUSELIGHT_PYTHON;
  const [one, two] = [folders()[0].uri, folders()[1].uri];
  const [oneFile, twoFile] = [vscode.Uri.joinPath(one, "model.py"), vscode.Uri.joinPath(two, "two.py")];
  let api;
  let selections;
  let environments;
  let aliases;
  /** The same interpreter by another path, which counts as another interpreter. */
  let alias;

  before(async () => {
    aliases = fs.mkdtempSync(path.join(os.tmpdir(), "fuselight-alias-"));
    const prefix = path.dirname(path.dirname(python));
    fs.symlinkSync(prefix, path.join(aliases, "env"));
    alias = path.join(aliases, "env", path.relative(prefix, python));
    api = await activate(oneFile);
    selections = await vscode.extensions.getExtension("ms-python.python").activate();
    environments = await vscode.extensions.getExtension("ms-python.vscode-python-envs").activate();
    for (const folder of [one, two]) {
      await api.consent.remember(folder.toString(), "run");
    }
  });

  after(() => fs.rmSync(aliases, { recursive: true, force: true }));

  const status = (folder, interpreter) =>
    api.until((at) => at.folder === folder.toString() && at.interpreter === interpreter);
  const workers = () => Promise.all(folders().map(workerPid));

  it("follows the Python extension, folder by folder", async () => {
    const server = api.serverPid();
    selections.select(one, alias);
    assert.equal((await status(one, alias)).why, "selected in the Python extension");
    assert.notEqual(api.statuses().find((at) => at.folder === two.toString()).interpreter, alias);
    selections.select(two, alias);
    await status(two, alias);
    assert.equal(api.serverPid(), server, "an interpreter is no reason to restart the server");
  });

  it("asks the Python Environments extension first", async () => {
    environments.select(two, python);
    assert.equal((await status(two, python)).why, "selected in the Python Environments extension");
    assert.equal(api.statuses().find((at) => at.folder === one.toString()).interpreter, alias);
  });

  it("runs each folder in its own worker, and shows its findings on its own file", async () => {
    await runFile(api, one.toString());
    await vscode.window.showTextDocument(twoFile);
    await runFile(api, two.toString());
    assert.deepEqual(support(oneFile).codes(), ["GB0059"]);
    assert.deepEqual(support(twoFile).codes(), []);
    assert.ok((await support(twoFile).lenses()).some((text) => text.startsWith("1 graph, no breaks")));
    const [first, second] = await workers();
    assert.ok(first && second && first !== second, `${first}, ${second}`);
  });

  it("gives one folder another interpreter without touching the other's worker", async () => {
    const [, before] = await workers();
    environments.select(one, python);
    await status(one, python);
    await vscode.window.showTextDocument(oneFile);
    await runFile(api, one.toString());
    const [, now] = await workers();
    assert.equal(now, before);
    assert.deepEqual(support(oneFile).codes(), ["GB0059"]);
  });
});
