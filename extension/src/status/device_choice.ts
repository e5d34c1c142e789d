/**
 * Decides which value of `fuselight.device` a choice writes, and into which settings.
 *
 * Invariant: the chosen device is in effect afterwards, whatever the outer settings say.
 */

import type { OfferedDevice } from "../messages/server_types";

/** The values of the setting, as `WorkspaceConfiguration.inspect` returns them. */
export interface Inspected {
  readonly globalValue?: unknown;
  readonly workspaceValue?: unknown;
  readonly workspaceFolderValue?: unknown;
}

export type SettingScope = "workspaceFolder" | "workspace" | "global";

export interface Change {
  readonly scope: SettingScope;
  /** Undefined removes the value, because the default is the same. */
  readonly value: string | undefined;
}

export const automatic = "auto";

/** The innermost settings that have a value already, else the folder's, else the user's. */
export function changeFor(key: string, inspected: Inspected, inFolder: boolean): Change {
  const { workspaceFolderValue, workspaceValue, globalValue } = inspected;
  const outer = { workspaceFolder: [workspaceValue, globalValue], workspace: [globalValue], global: [] };
  const scope = scopeOf(inspected, inFolder);
  const isDefault = key === automatic && outer[scope].every((value) => value === undefined);
  // In a window with one folder, inspect reports the folder's value twice; both are removed.
  const alone = key === automatic && globalValue === undefined && workspaceFolderValue === workspaceValue;
  return { scope, value: isDefault || alone ? undefined : key };
}

/** Where a changed value belongs: next to the innermost one that there is. */
export function scopeOf(
  { workspaceFolderValue, workspaceValue, globalValue }: Inspected,
  inFolder: boolean,
): SettingScope {
  if (workspaceFolderValue !== undefined) {
    return "workspaceFolder";
  }
  if (workspaceValue !== undefined) {
    return "workspace";
  }
  return inFolder && globalValue === undefined ? "workspaceFolder" : "global";
}

export type DeviceEntry = ReturnType<typeof entriesOf>[number];

/** The lines of the picker. A word marks the current device as well as a check mark. */
export function entriesOf(devices: readonly OfferedDevice[]) {
  return devices.map(({ key, name, detail, own, current }) => ({
    label: `$(${current ? "check" : "blank"}) ${key}`,
    description: [name, own ? "yours" : "", current ? "current" : ""]
      .filter((word) => word !== "")
      .join(" - "),
    detail,
    key,
  }));
}
