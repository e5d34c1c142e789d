/**
 * The status item of jobs that are followed: what was read so far, and the command that stops it.
 *
 * Invariant: it is there from the first moment on, also while a job has no log yet.
 */

import * as vscode from "vscode";
import type { FollowedJob } from "../messages/server_types";

export function createFollowedItem() {
  const item = vscode.window.createStatusBarItem("fuselight.followed", vscode.StatusBarAlignment.Left, 0);
  item.name = "Fuselight: Followed Job";
  item.command = "fuselight.stopFollowingJob";
  return {
    show(jobs: readonly FollowedJob[]): void {
      const [first, ...others] = jobs.map(({ name, words }) => `${name}: ${words}`);
      void vscode.commands.executeCommand("setContext", "fuselight.followsJob", jobs.length > 0);
      if (first === undefined) {
        item.hide();
        return;
      }
      const more = others.length > 0 ? ` and ${others.length} more` : "";
      item.text = `$(sync~spin) Following ${first}${more}`;
      item.tooltip = [first, ...others, "Select it to stop following: what was read is kept."].join("\n");
      item.accessibilityInformation = {
        label: `Following ${first}${more}. Stop following`,
        role: "button",
      };
      item.show();
    },
    dispose: () => item.dispose(),
  };
}
