/**
 * The target device: its status item, the list to choose from, and the word about a name that is no device's.
 *
 * Invariant: the choice is written to `fuselight.device`, where the user can see it and take it back.
 */

import * as vscode from "vscode";
import { changeFor, type DeviceEntry, entriesOf, type Place } from "./device_choice";
import { notice } from "./notice";
import type { OfferedDevice } from "./protocol";
import { serverCommand } from "./protocol";
import { section } from "./settings";
import type { StatusBoard } from "./status";

const command = "fuselight.chooseDevice";
const targets: Record<Place, vscode.ConfigurationTarget> = {
  workspaceFolder: vscode.ConfigurationTarget.WorkspaceFolder,
  workspace: vscode.ConfigurationTarget.Workspace,
  global: vscode.ConfigurationTarget.Global,
};

/** Asks for a device for `folder`, whose list comes from the server by way of `ask`. */
export async function chooseDevice(
  folder: string | null,
  ask: (command: string, ...args: readonly unknown[]) => Promise<unknown>,
): Promise<void> {
  const devices = await ask(serverCommand.devices, { folder });
  if (!Array.isArray(devices)) {
    return;
  }
  const chosen = await pick(devices as readonly OfferedDevice[]);
  if (chosen === undefined) {
    return;
  }
  const scope = folder === null ? undefined : vscode.Uri.parse(folder);
  const configuration = vscode.workspace.getConfiguration(section, scope);
  const change = changeFor(chosen.key, configuration.inspect("device") ?? {}, scope !== undefined);
  await configuration.update("device", change.value, targets[change.place]);
}

/** Opens on the current one, which `showQuickPick` cannot. */
function pick(devices: readonly OfferedDevice[]): Promise<DeviceEntry | undefined> {
  const list = vscode.window.createQuickPick<DeviceEntry>();
  list.title = "Fuselight: the device that kernels are generated for";
  list.placeholder = "It need not be there. Add devices of your own in fuselight.devices.";
  list.matchOnDescription = true;
  list.matchOnDetail = true;
  list.items = entriesOf(devices);
  list.activeItems = list.items.filter((_, index) => devices[index]?.current);
  return new Promise((done) => {
    list.onDidAccept(() => {
      done(list.selectedItems[0]);
      list.hide();
    });
    list.onDidHide(() => {
      done(undefined);
      list.dispose();
    });
    list.show();
  });
}

/** Shows the device of the active editor's folder; pressed, it lets another be chosen. */
export function createDeviceItem(board: StatusBoard): vscode.Disposable {
  const item = vscode.window.createStatusBarItem("fuselight.device", vscode.StatusBarAlignment.Right, 89);
  item.name = "Fuselight: Target Device";
  item.command = command;

  function draw(): void {
    const editor = vscode.window.activeTextEditor;
    const device = board.of(editor?.document.uri).device;
    if (editor?.document.languageId !== "python" || device === null) {
      item.hide();
      return;
    }
    item.text = `$(circuit-board) ${device.key}`;
    item.tooltip = [device.problem ?? device.words, "Press to choose another."].join("\n\n");
    item.accessibilityInformation = { label: `Fuselight target device, ${device.key}`, role: "button" };
    item.backgroundColor =
      device.problem === null ? undefined : new vscode.ThemeColor("statusBarItem.warningBackground");
    item.show();
  }

  const listeners = [board.onDidChange(draw), vscode.window.onDidChangeActiveTextEditor(draw)];
  draw();
  return vscode.Disposable.from(item, ...listeners);
}

/** Tells the user, once for each wrong name, that it is no device's, with a way to choose one. */
export function warnOfDevices(board: StatusBoard): vscode.Disposable {
  const told = new Map<string | null, string>();
  return board.onDidChange(async ({ folder, device }) => {
    const problem = device?.problem ?? null;
    const known = problem !== null && [...told.values()].includes(problem);
    if (problem === null) {
      told.delete(folder);
      return;
    }
    told.set(folder, problem);
    if (known) {
      return;
    }
    const choose = "Choose Target Device";
    if ((await vscode.window.showWarningMessage(notice(`Fuselight: ${problem}`), choose)) === choose) {
      await vscode.commands.executeCommand(command, folder);
    }
  });
}
