/**
 * "Open a Trace of a Job": opens logs in the server, and shows the page of a job next to the source.
 *
 * Invariant: the server reads the logs and makes what is shown. The folder of a job's source is asked for once, and is
 * remembered for the workspace.
 */

import * as vscode from "vscode";
import { answeredPage } from "../bench/target_runs";
import { fieldsOf } from "../messages/fields";
import type { JobShown } from "../messages/job";
import type { JobPage } from "../messages/page_types";
import { closeJobRequest, jobRequest, openJobRequest, serverCommand } from "../messages/protocol";
import type { JobEntry, JobsChanged, OpenedJobs } from "../messages/server_types";
import type { Lifecycle } from "../server/lifecycle";
import { createWebviewHost, goToPlace, type Page } from "../webviews/host";
import { inform, warn } from "../workbench/say";
import { createFollowedItem } from "./followed";
import { emptyPage, jobMessageIn, jobShownIn, jobTitleOf } from "./target";

type ShownPage = Page<JobShown, JobPage>;
export type JobView = ReturnType<typeof createJobView>;

/** Folders with the source of jobs, as the user has chosen them, in the state of the workspace. */
const sourcesKey = "fuselight.jobSources";
const mostSources = 10;

export function createJobView(context: vscode.ExtensionContext, lifecycle: Lifecycle) {
  let listed: readonly JobEntry[] = [];
  /** The URI of the logs that are followed, until their job has a page. */
  let awaited = "";
  const followed = createFollowedItem();
  const host = createWebviewHost<JobShown, JobPage>(context.extensionUri, {
    viewType: "fuselight.job",
    asset: "job",
    preserveFocus: true,
    titleOf: jobTitleOf,
    restore: jobShownIn,
    fetch: (of) =>
      answeredPage(lifecycle.request(jobRequest, { job: of.target, against: of.against }), (message) =>
        emptyPage(of, message),
      ),
    receive: (page, message) => receive(page, message),
    closed: (shown) => closeUnshown(shown),
  });

  async function receive(page: ShownPage, value: unknown): Promise<void> {
    const message = jobMessageIn(value);
    switch (message?.type) {
      case "open":
        return goToPlace(message.place, page.panel);
      case "compare":
        page.shown = { ...page.shown, against: message.against };
        return page.draw();
      case "compareOther":
        return compareWith(page.shown.target);
      case "close":
        page.panel.dispose();
        return;
      case "reopen":
        await open([vscode.Uri.parse(page.shown.uri)]);
    }
  }

  /** Opens logs, and shows the page of the first job in them. */
  async function open(uris: readonly vscode.Uri[]): Promise<void> {
    const [first] = await openJobs(uris);
    if (first !== undefined) {
      await showJob(first);
    }
  }

  async function openJobs(uris: readonly vscode.Uri[]): Promise<readonly JobEntry[]> {
    const answer = await request(uris);
    if (answer === null || answer.canceled) {
      return [];
    }
    if (answer.needsSource) {
      void askForSource(uris, answer.message); // the page is shown while the question is open
    } else if (answer.message !== "") {
      void warn(answer.message);
    }
    return answer.jobs;
  }

  async function request(uris: readonly vscode.Uri[], follow = false): Promise<OpenedJobs | null> {
    if ((await lifecycle.ready()) === null) {
      await lifecycle.warnNotRunning();
      return null;
    }
    const paths = uris.map((uri) => uri.toString());
    return lifecycle.request(openJobRequest, { paths, source: sources(), follow });
  }

  const sources = () => context.workspaceState.get<readonly string[]>(sourcesKey) ?? [];

  /** Asks for the folder with the job's source, and opens the logs again with it. */
  async function askForSource(uris: readonly vscode.Uri[], message: string): Promise<void> {
    const choose = "Choose Folder\u2026";
    if ((await warn(message, choose)) !== choose) {
      return;
    }
    const folder = await chooseFolder("The folder with the job's source");
    if (folder !== undefined) {
      const others = sources().filter((one) => one !== folder.toString());
      await context.workspaceState.update(sourcesKey, [folder.toString(), ...others].slice(0, mostSources));
      await open(uris);
    }
  }

  async function compareWith(job: string): Promise<void> {
    const uris = await chooseLogs("Compare with which trace?");
    const [other] = uris === undefined ? [] : await openJobs(uris);
    const entry = listed.find(({ id }) => id === job);
    if (other !== undefined && entry !== undefined && other.id !== job) {
      await showJob(entry, other.id);
    }
  }

  async function showJob({ id, source }: JobEntry, against: string | null = null): Promise<void> {
    await host.show({ uri: source, target: id, against }, (page) => {
      page.shown = { ...page.shown, against: against ?? page.shown.against };
    });
  }

  async function chooseJob(title: string, jobs = listed): Promise<JobEntry | undefined> {
    if (jobs.length < 2) {
      return jobs[0];
    }
    const entries = jobs.map((job) => ({
      label: job.name,
      description: job.when,
      detail: job.summary,
      job,
    }));
    return (await vscode.window.showQuickPick(entries, { title }))?.job;
  }

  async function closeJob(job: string | null): Promise<void> {
    await lifecycle.request(closeJobRequest, { job });
  }

  /** Closes the jobs of a closed page, and what they show on lines: but for logs that another page shows. */
  function closeUnshown(shown: JobShown): void {
    const shownElsewhere = new Set([...host.pages].flatMap((page) => logsOf(page.shown)));
    const gone = logsOf(shown).filter((logs) => !shownElsewhere.has(logs));
    const closing = listed.filter(({ source }) => gone.includes(source)).map(({ id }) => closeJob(id));
    void Promise.allSettled(closing); // a server that has ended shows no job
  }

  /** The logs of a page's job, and of the job that it is compared with. */
  function logsOf({ uri, against }: JobShown): string[] {
    return [uri, ...listed.filter(({ id }) => id === against).map(({ source }) => source)];
  }

  return {
    open,
    listed: () => listed,
    /** Opens the logs of a menu entry, else those that the user picks. */
    async choose(first?: unknown, all?: unknown): Promise<void> {
      const uris = urisOf(first, all) ?? (await chooseLogs("Open which trace of a job?"));
      if (uris !== undefined) {
        await open(uris);
      }
    },
    /** Opens the logs of a job that still runs, and goes on while they grow. */
    async follow(): Promise<void> {
      const uris = await chooseLogs("Follow which trace of a job?");
      const [first] = uris ?? [];
      if (uris === undefined || first === undefined) {
        return;
      }
      awaited = first.toString();
      const answer = await request(uris, true); // once it is stopped
      if (answer !== null && !answer.canceled && answer.message !== "") {
        void warn(answer.message);
      }
    },
    async stopFollowing(): Promise<void> {
      await vscode.commands.executeCommand(serverCommand.stopFollowing);
    },
    /** Opens further logs, and compares an open job with them. */
    async compare(): Promise<void> {
      const job = await chooseJob("Compare which job?");
      if (job === undefined) {
        void inform("Open a trace of a job first.");
        return;
      }
      const others = listed.filter(({ id }) => id !== job.id);
      const another = "Open Another Trace\u2026";
      const entries = [
        ...others.map(({ id, name, when }) => ({ label: name, description: when, id })),
        { label: another, description: "", id: "" },
      ];
      const chosen =
        others.length === 0
          ? entries[0]
          : await vscode.window.showQuickPick(entries, { title: `Compare ${job.name} with which job?` });
      if (chosen?.id) {
        await showJob(job, chosen.id);
      } else if (chosen !== undefined) {
        await compareWith(job.id);
      }
    },
    /** Shows the page of the job of a code lens, else that of an open job. */
    async show(argument?: unknown): Promise<void> {
      const { job: id } = fieldsOf(argument);
      const job = listed.find((one) => one.id === id) ?? (await chooseJob("Show which job?"));
      await (job === undefined ? inform("Open a trace of a job first.") : showJob(job));
    },
    async close(): Promise<void> {
      const job = await chooseJob("Close which job?");
      await (job === undefined ? inform("No job is open.") : closeJob(job.id));
    },
    /** The open jobs changed, or what was read of those that are followed. */
    async changed({ jobs, followed: growing }: JobsChanged): Promise<void> {
      followed.show(growing);
      if (jobs.length === 0 && listed.length === 0) {
        return;
      }
      listed = jobs;
      void vscode.commands.executeCommand("setContext", "fuselight.hasJob", jobs.length > 0);
      await host.redraw(() => true);
      const first = jobs.find(({ source }) => source === awaited);
      if (first !== undefined) {
        awaited = "";
        await showJob(first);
      }
    },
    dispose: () => vscode.Disposable.from(host, followed).dispose(),
  };
}

/** The selection of the explorer; undefined for a command of the palette. */
function urisOf(first: unknown, all: unknown): readonly vscode.Uri[] | undefined {
  const selected = Array.isArray(all) ? all.filter((one) => one instanceof vscode.Uri) : [];
  return first instanceof vscode.Uri ? (selected.length > 0 ? selected : [first]) : undefined;
}

function chooseLogs(title: string): Thenable<readonly vscode.Uri[] | undefined> {
  return vscode.window.showOpenDialog({
    title,
    openLabel: "Open Trace",
    canSelectFiles: true,
    canSelectFolders: true,
    canSelectMany: true,
    // The first filter is on: without one, the list begins with the sources of the job.
    filters: { Traces: ["log", "gz", "json"], "All Files": ["*"] },
  });
}

async function chooseFolder(title: string): Promise<vscode.Uri | undefined> {
  const options = { title, openLabel: "Choose", canSelectFiles: false, canSelectFolders: true };
  return (await vscode.window.showOpenDialog(options))?.[0];
}
