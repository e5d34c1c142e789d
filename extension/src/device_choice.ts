/**
 * Decides what a choice of device writes, and where.
 *
 * Invariant: after the choice the chosen device is in force, whatever the settings farther out say.
 */

import type { OfferedDevice } from "./protocol";

/** The setting's values by place, as `WorkspaceConfiguration.inspect` gives them. */
export interface Inspected {
  readonly globalValue?: unknown;
  readonly workspaceValue?: unknown;
  readonly workspaceFolderValue?: unknown;
}

export type Place = "workspaceFolder" | "workspace" | "global";

export interface Change {
  readonly place: Place;
  /** Undefined: the value is taken out, since the default says the same. */
  readonly value: string | undefined;
}

export const automatic = "auto";

/** The innermost place that has a value already, else the folder, else the user's settings. */
export function changeFor(key: string, inspected: Inspected, inFolder: boolean): Change {
  const { workspaceFolderValue, workspaceValue, globalValue } = inspected;
  const outer = { workspaceFolder: [workspaceValue, globalValue], workspace: [globalValue], global: [] };
  const place = placeOf(inspected, inFolder);
  const isDefault = key === automatic && outer[place].every((value) => value === undefined);
  // In a window of one folder the folder's settings are the workspace's: both are there, and both go.
  const alone = key === automatic && globalValue === undefined && workspaceFolderValue === workspaceValue;
  return { place, value: isDefault || alone ? undefined : key };
}

function placeOf({ workspaceFolderValue, workspaceValue, globalValue }: Inspected, inFolder: boolean): Place {
  if (workspaceFolderValue !== undefined) {
    return "workspaceFolder";
  }
  if (workspaceValue !== undefined) {
    return "workspace";
  }
  return inFolder && globalValue === undefined ? "workspaceFolder" : "global";
}

export interface DeviceEntry {
  readonly label: string;
  readonly description: string;
  readonly detail: string;
  readonly key: string;
}

/** The lines of the picker. What is current is told by a word as well as by a mark. */
export function entriesOf(devices: readonly OfferedDevice[]): readonly DeviceEntry[] {
  return devices.map(({ key, name, detail, own, current }) => ({
    label: `$(${current ? "check" : "blank"}) ${key}`,
    description: [name, own ? "yours" : "", current ? "current" : ""]
      .filter((word) => word !== "")
      .join(" - "),
    detail,
    key,
  }));
}
