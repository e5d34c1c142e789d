/**
 * The target device: its status item, the list to choose from, and the warning about an unknown name.
 *
 * Invariant: the choice is written to `fuselight.device`, where the user can see and undo it.
 */

import * as vscode from "vscode";
import { serverCommand } from "../messages/protocol";
import type { OfferedDevice } from "../messages/server_types";
import { askInList, warn } from "../workbench/say";
import { section, settingTargets } from "../workbench/settings";
import { changeFor, type DeviceEntry, entriesOf } from "./device_choice";
import type { StatusBoard } from "./status";

const command = "fuselight.chooseDevice";

/** Lets the user choose the device of `folder` from the list of the server. */
export async function chooseDevice(
  folder: string | null,
  ask: (command: string, ...args: readonly unknown[]) => Thenable<unknown>,
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
  await configuration.update("device", change.value, settingTargets[change.scope]);
}

/** Opens with the current device selected, which `showQuickPick` cannot do. */
function pick(devices: readonly OfferedDevice[]): Promise<DeviceEntry | undefined> {
  const list = vscode.window.createQuickPick<DeviceEntry>();
  list.title = "Fuselight: target device for generated kernels";
  list.placeholder = "The machine need not have it. Add your own devices in fuselight.devices.";
  list.matchOnDescription = true;
  list.matchOnDetail = true;
  list.items = entriesOf(devices);
  list.activeItems = list.items.filter((_, index) => devices[index]?.current);
  return askInList(list);
}

/** Shows the device of the active editor's folder; a click chooses another. */
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
    item.text = `$(circuit-board) Device: ${device.key}`;
    item.tooltip = [device.problem ?? device.words, "Click to choose another device."].join("\n\n");
    item.accessibilityInformation = { label: `Fuselight target device, ${device.key}`, role: "button" };
    item.backgroundColor =
      device.problem === null ? undefined : new vscode.ThemeColor("statusBarItem.warningBackground");
    item.show();
  }

  const listeners = [board.onDidChange(draw), vscode.window.onDidChangeActiveTextEditor(draw)];
  draw();
  return vscode.Disposable.from(item, ...listeners);
}

/** Warns once about each unknown device name, with a way to choose a device. */
export function warnOfDevices(board: StatusBoard): vscode.Disposable {
  const warned = new Map<string | null, string>();
  return board.onDidChange(async ({ folder, device }) => {
    const problem = device?.problem ?? null;
    const known = problem !== null && [...warned.values()].includes(problem);
    if (problem === null) {
      warned.delete(folder);
      return;
    }
    warned.set(folder, problem);
    if (known) {
      return;
    }
    const choose = "Choose Target Device";
    if ((await warn(`Fuselight: ${problem}`, choose)) === choose) {
      await vscode.commands.executeCommand(command, folder);
    }
  });
}
