/**
 * Asks once in each folder before its code is run, and remembers the answer in the workspace's own state.
 *
 * Invariant: a question that is closed without an answer counts as "later", never as consent.
 */

import * as vscode from "vscode";
import { notice } from "./notice";
import type { ConfirmAnswer, ConfirmRun } from "./protocol";

const stateKey = "fuselight.consent";
const choices = { Run: "run", "Not in This Folder": "never", Later: "later" } as const;

type Remembered = Readonly<Record<string, "run" | "never">>;

export interface Consent {
  ask(question: ConfirmRun): Promise<ConfirmAnswer>;
  /** Null forgets the answer, so that the next run asks again. */
  remember(folder: string, answer: "run" | "never" | null): Promise<void>;
  of(folder: string): "run" | "never" | null;
  /** Whether a run that the user starts may go on. Where runs are off it says so, and offers to take that back. */
  mayStart(folder: string): Promise<boolean>;
}

export function createConsent(state: vscode.Memento): Consent {
  const open = new Map<string, Promise<ConfirmAnswer>>();

  function of(folder: string): "run" | "never" | null {
    return state.get<Remembered>(stateKey, {})[folder] ?? null;
  }

  async function remember(folder: string, answer: "run" | "never" | null): Promise<void> {
    const { [folder]: _, ...others } = state.get<Remembered>(stateKey, {});
    await state.update(stateKey, answer === null ? others : { ...others, [folder]: answer });
  }

  async function ask({ folder, summary, interpreter }: ConfirmRun): Promise<ConfirmAnswer> {
    const message = `Fuselight is about to run code of this folder under torch.compile: ${summary}. Python: ${interpreter}`;
    const chosen = await vscode.window.showInformationMessage(notice(message), ...Object.keys(choices));
    const answer = isChoice(chosen) ? choices[chosen] : "later";
    if (answer !== "later") {
      await remember(folder, answer);
    }
    return { answer };
  }

  async function mayStart(folder: string): Promise<boolean> {
    if (of(folder) !== "never") {
      return true;
    }
    const message = "Fuselight runs nothing in this folder, as you chose.";
    if ((await vscode.window.showInformationMessage(message, "Ask Again")) === undefined) {
      return false;
    }
    await remember(folder, null);
    return true;
  }

  return {
    of,
    remember,
    mayStart,
    ask(question) {
      const known = of(question.folder);
      if (known !== null) {
        return Promise.resolve({ answer: known });
      }
      // Two saves in a row must not stack two questions about one folder.
      const asking = open.get(question.folder) ?? ask(question).finally(() => open.delete(question.folder));
      open.set(question.folder, asking);
      return asking;
    },
  };
}

function isChoice(text: string | undefined): text is keyof typeof choices {
  return text !== undefined && text in choices;
}
