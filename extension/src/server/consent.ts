/**
 * Shows the server's questions before code runs, and remembers the answers in the workspace's own state.
 *
 * Invariant: a question that is closed without an answer counts as "later", never as consent. A run that the user
 * starts asks in a dialog, because VS Code hides a notification after some seconds.
 */

import type * as vscode from "vscode";
import type { ConfirmAnswer } from "../messages/protocol";
import type { ConfirmRun, ConsentChoice } from "../messages/server_types";
import { askInDialog, inform } from "../workbench/say";

const stateKey = "fuselight.consent";

type Remembered = Readonly<Record<string, Exclude<ConsentChoice, "later">>>;

export type Consent = ReturnType<typeof createConsent>;

export function createConsent(state: vscode.Memento) {
  const answers = () => state.get<Remembered>(stateKey, {});
  const of = (subject: string): ConsentChoice | null => answers()[subject] ?? null;

  async function put(subject: string, answer: ConsentChoice): Promise<void> {
    await state.update(stateKey, { ...answers(), [subject]: answer });
  }

  /** Null forgets the answers about a folder and its programs, so that the next run asks again. */
  async function remember(folder: string, answer: "run" | "never" | null): Promise<void> {
    if (answer !== null) {
      await put(folder, answer);
      return;
    }
    const isOther = ([subject]: [string, ConsentChoice]) =>
      subject !== folder && !subject.startsWith(`${folder}/`);
    await state.update(stateKey, Object.fromEntries(Object.entries(answers()).filter(isOther)));
  }

  async function ask(question: ConfirmRun): Promise<ConfirmAnswer> {
    const subject = question.program ?? question.folder;
    const known = of(subject);
    if (known !== null) {
      return { answer: known };
    }
    const title = await show(question);
    const answer = question.answers.find((one) => one.title === title)?.answer ?? "later";
    if (answer !== "later") {
      await put(subject, answer);
    }
    return { answer };
  }

  /** Whether a run that the user starts may continue. Where runs are off, it says so and offers to ask again. */
  async function mayStart(folder: string): Promise<boolean> {
    if (of(folder) !== "never") {
      return true;
    }
    const why = "You turned off runs for this folder.";
    if ((await askInDialog("Fuselight won't run code here.", why, "Ask Again")) === undefined) {
      return false;
    }
    await remember(folder, null);
    return true;
  }

  return { of, remember, mayStart, ask };
}

function show({ message, detail, answers, explicit }: ConfirmRun): Thenable<string | undefined> {
  // A dialog has its own button to cancel.
  const offered = explicit ? answers.filter(({ answer }) => answer !== "later") : answers;
  const titles = offered.map(({ title }) => title);
  return explicit ? askInDialog(message, detail, ...titles) : inform(`${message} ${detail}`, ...titles);
}
