/**
 * A temporary code-server with its own port, profile, extensions and data, all in one folder, which `stop` removes.
 *
 * Invariant: after `stop` no process of its group is alive; otherwise `stop` fails.
 */

import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";

const startMilliseconds = 60_000;
const stopMilliseconds = 10_000;

/** Values from the program that starts the tests (run.py). */
export const tools = {
  node: required("FUSELIGHT_NODE"),
  entry: required("FUSELIGHT_CODE_SERVER"),
  browser: required("FUSELIGHT_BROWSER"),
  browserFlags: JSON.parse(process.env.FUSELIGHT_BROWSER_FLAGS ?? "[]"),
  /** A Python with torch, which starts a worker as a fork of a process that has it imported. */
  python: required("FUSELIGHT_PYTHON"),
  /** A Python without torch. */
  bare: required("FUSELIGHT_BARE_PYTHON"),
  artifacts: required("FUSELIGHT_ARTIFACTS"),
  results: required("FUSELIGHT_RESULTS"),
};

const quiet = {
  "chat.disableAIFeatures": true,
  "editor.accessibilitySupport": "off",
  "editor.cursorBlinking": "solid",
  "editor.hover.delay": 100,
  "editor.minimap.enabled": false,
  "extensions.autoUpdate": "off",
  "extensions.ignoreRecommendations": true,
  "files.autoSave": "off",
  "telemetry.telemetryLevel": "off",
  "update.mode": "none",
  "security.workspace.trust.startupPrompt": "never",
  "security.workspace.trust.untrustedFiles": "open",
  "window.menuBarVisibility": "compact",
  "workbench.colorTheme": "Default Dark Modern",
  "workbench.editor.useModal": "off",
  "workbench.reduceMotion": "on",
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
};

/** Variables of an outer editor or of code-server, which would affect the started one. */
const foreign = [
  "ELECTRON_RUN_AS_NODE",
  "HASHED_PASSWORD",
  "NODE_OPTIONS",
  "PASSWORD",
  "PORT",
  "VIRTUAL_ENV",
  "VSCODE_IPC_HOOK_CLI",
];

/**
 * Start one. `settings` go to the machine's file as well, which is where a remote workbench reads settings of
 * machine scope. `extensions` is a folder that `install` created, `beside` are folders of unpacked extensions. `trusted: false` leaves workspace trust on, so that the folder counts as a stranger's.
 */
export async function startCodeServer({
  extensions = null,
  beside = [],
  settings = {},
  trusted = true,
} = {}) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "fuselight-editor-"));
  const profile = path.join(home, "user-data");
  const all = { ...quiet, "security.workspace.trust.enabled": !trusted, ...settings };
  for (const scope of ["User", "Machine"]) {
    fs.mkdirSync(path.join(profile, scope), { recursive: true });
    fs.writeFileSync(path.join(profile, scope, "settings.json"), JSON.stringify(all, null, 2));
  }
  fs.writeFileSync(path.join(home, "config.yaml"), "auth: none\n");
  const driver = path.join(home, "driver");
  const env = { ...environmentOf(home), FUSELIGHT_DRIVER: driver };
  const common = ["--config", path.join(home, "config.yaml"), "--user-data-dir", profile];
  common.push("--extensions-dir", extensions ?? path.join(home, "extensions"));
  for (const folder of beside) {
    const { publisher, name, version } = JSON.parse(
      fs.readFileSync(path.join(folder, "package.json"), "utf8"),
    );
    fs.cpSync(folder, path.join(home, "extensions", `${publisher}.${name}-${version}`), { recursive: true });
  }
  const port = await freePort();
  const logFile = path.join(home, "server.log");
  const log = fs.openSync(logFile, "a");
  const options = ["--bind-addr", `127.0.0.1:${port}`, "--auth", "none", "--disable-telemetry"];
  options.push("--disable-update-check", "--disable-getting-started-override");
  // Extension hosts outlive their page by this many seconds; the default is hours.
  options.push("--reconnection-grace-time", "2", "--vscode-option", "enable-smoke-test-driver");
  options.push("--vscode-option", "disable-websocket-compression"); // both ends are on this machine
  if (trusted) {
    options.push("--disable-workspace-trust");
  }
  const stdio = ["ignore", log, log];
  const child = spawn(tools.node, [tools.entry, ...common, ...options], { env, stdio, detached: true });
  const exited = new Promise((done) => child.once("exit", done));
  const base = `http://127.0.0.1:${port}`;
  await untilHealthy(base, child, logFile);
  return {
    base,
    home,
    /** The socket of the extension `driver`, if that is among the extensions. */
    driver,
    remote: (file) => `vscode-remote://127.0.0.1:${port}${file}`,
    /** The workbench on a folder (or a `.code-workspace` file), with what VS Code calls a payload. */
    at(folder, payload = []) {
      const what = folder.endsWith(".code-workspace") ? "workspace" : "folder";
      const tail = payload.length > 0 ? `&payload=${encodeURIComponent(JSON.stringify(payload))}` : "";
      return `${base}/?${what}=${encodeURIComponent(folder)}${tail}`;
    },
    log: () => fs.readFileSync(logFile, "utf8"),
    async stop() {
      signal(child.pid, "SIGTERM");
      const late = new Promise((_, fail) =>
        setTimeout(() => fail(new Error(`code-server ${child.pid} does not stop`)), stopMilliseconds).unref(),
      );
      try {
        await Promise.race([exited, late]);
      } finally {
        signal(child.pid, "SIGKILL");
        fs.rmSync(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
      }
    },
  };
}

/** A new folder of extensions with this package in it, installed as a user does. */
export function install(vsix, beside = []) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "fuselight-extensions-"));
  const scratch = path.join(home, ".scratch");
  fs.mkdirSync(scratch);
  fs.writeFileSync(path.join(scratch, "config.yaml"), "auth: none\n");
  const places = ["--config", path.join(scratch, "config.yaml"), "--user-data-dir", scratch];
  const args = [tools.entry, ...places, "--extensions-dir", home, "--install-extension", vsix, "--force"];
  const installed = spawnSync(tools.node, args, { env: environmentOf(scratch), encoding: "utf8" });
  fs.rmSync(scratch, { recursive: true, force: true });
  if (installed.status !== 0) {
    throw new Error(`${vsix} was not installed: ${installed.stdout}${installed.stderr}`);
  }
  for (const folder of beside) {
    addUnpacked(home, folder);
  }
  return home;
}

/** Adds the folder of an extension to those that VS Code has installed, which it lists in a file. */
function addUnpacked(home, folder) {
  const { publisher, name, version } = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
  const relativeLocation = `${publisher}.${name}-${version}`;
  const place = path.join(home, relativeLocation);
  fs.cpSync(folder, place, { recursive: true });
  const list = path.join(home, "extensions.json");
  const entry = {
    identifier: { id: `${publisher}.${name}` },
    version,
    location: { $mid: 1, path: place, scheme: "file" },
    relativeLocation,
    metadata: {},
  };
  fs.writeFileSync(list, JSON.stringify([...JSON.parse(fs.readFileSync(list, "utf8")), entry]));
}

function environmentOf(home) {
  const env = { ...process.env, XDG_DATA_HOME: home, XDG_CONFIG_HOME: home };
  // Without its own address, every page asks the public gallery.
  env.EXTENSIONS_GALLERY = JSON.stringify({ serviceUrl: "http://127.0.0.1:9/none" });
  for (const name of foreign) {
    delete env[name];
  }
  return env;
}

async function untilHealthy(base, child, logFile) {
  const deadline = Date.now() + startMilliseconds;
  for (;;) {
    const healthy = await fetch(`${base}/healthz`).then(
      (answer) => answer.ok,
      () => false,
    );
    if (healthy) {
      return;
    }
    if (child.exitCode !== null || Date.now() > deadline) {
      throw new Error(`code-server did not start:\n${fs.readFileSync(logFile, "utf8")}`);
    }
    await new Promise((again) => setTimeout(again, 50));
  }
}

function freePort() {
  return new Promise((done, fail) => {
    const probe = net.createServer();
    probe.once("error", fail);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => done(port));
    });
  });
}

/** Signals the process group, which includes code-server's extension hosts and their language servers. */
function signal(pid, name) {
  try {
    process.kill(-pid, name);
  } catch (error) {
    if (error.code !== "ESRCH") {
      throw error;
    }
  }
}

function required(name) {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set: start the editor tests with tests/editor/run.py`);
  }
  return value;
}
