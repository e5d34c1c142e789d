/**
 * Offers Fuselight's tools to the coding agents of the editor, attached to its language server.
 *
 * Invariant: listing asks nothing and starts nothing. An agent's server is a bridge to the language server that runs, so
 * that it sees unsaved texts, and the language server asks before code runs.
 */

import * as vscode from "vscode";
import { agentAddressRequest } from "../messages/protocol";
import { startOf } from "../server/client";
import type { Lifecycle } from "../server/lifecycle";
import { inform, warn } from "../workbench/say";

/** As in package.json. */
const providerId = "fuselight.agents";
const label = "Fuselight";

/** A program that serves an agent on stdin and stdout. */
export interface AgentServer {
  readonly command: string;
  readonly args: readonly string[];
}

/** What Cursor offers in place of the API of VS Code. */
interface CursorApi {
  readonly mcp?: {
    registerServer(server: { name: string; server: AgentServer }): void;
    unregisterServer?(name: string): void;
  };
}

export type AgentProvider = ReturnType<typeof createAgentProvider>;

export function createAgentProvider(context: vscode.ExtensionContext, lifecycle: Lifecycle) {
  const changed = new vscode.EventEmitter<void>();
  const version = String(context.extension.packageJSON.version);

  /** The bridge to the language server; null where none can run here. `address`: empty finds it by the working folder. */
  function bridge(address: string): AgentServer | null {
    const server = lifecycle.resolution()?.server ?? null;
    if (server === null) {
      return null;
    }
    const { command, args = [] } = startOf(server, context);
    return { command, args: [...args, "mcp", "--attach", ...(address === "" ? [] : [address])] };
  }

  /** The bridge to the language server once it listens; null where agents are turned off or nothing runs. */
  async function attached(): Promise<AgentServer | null> {
    await lifecycle.ready();
    const answer = await lifecycle.request(agentAddressRequest, { folder: null });
    return answer === null || answer.address === "" ? null : bridge(answer.address);
  }

  const definition = ({ command, args }: AgentServer) =>
    new vscode.McpStdioServerDefinition(label, command, [...args], {}, version);

  function register(): vscode.Disposable {
    const { cursor } = vscode as unknown as { readonly cursor?: CursorApi };
    if (cursor?.mcp !== undefined) {
      return registerInCursor(cursor.mcp);
    }
    // Forks of VS Code may lack it.
    if (typeof vscode.lm?.registerMcpServerDefinitionProvider !== "function") {
      return new vscode.Disposable(() => {});
    }
    return vscode.lm.registerMcpServerDefinitionProvider(providerId, {
      onDidChangeMcpServerDefinitions: changed.event,
      provideMcpServerDefinitions: () => {
        const server = vscode.workspace.isTrusted && isOn() ? bridge("") : null;
        return server === null ? [] : [definition(server)];
      },
      resolveMcpServerDefinition: async () => {
        const server = await attached();
        if (server === null) {
          throw new Error("The Fuselight language server is not running, or agents are turned off.");
        }
        return definition(server);
      },
    });
  }

  function registerInCursor(mcp: NonNullable<CursorApi["mcp"]>): vscode.Disposable {
    const update = async () => {
      const server = vscode.workspace.isTrusted && isOn() ? await attached() : null;
      mcp.unregisterServer?.(label);
      if (server !== null) {
        mcp.registerServer({ name: label, server });
      }
    };
    void update();
    const listening = changed.event(() => void update());
    return new vscode.Disposable(() => {
      listening.dispose();
      mcp.unregisterServer?.(label);
    });
  }

  /** Copies the configuration for an agent that another program runs, as one in a terminal. */
  async function copyConfiguration(): Promise<void> {
    const server = bridge("");
    if (server === null) {
      await warn("Fuselight has no Python for its server. Select an interpreter first.");
      return;
    }
    await vscode.env.clipboard.writeText(JSON.stringify({ mcpServers: { fuselight: server } }, null, 2));
    await inform(
      "Copied. Paste it into `.mcp.json` in the folder that is open here (Cursor: `.cursor/mcp.json`). The agent sees your unsaved text, and Fuselight asks here before code runs.",
    );
  }

  const registered = [
    changed,
    register(),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("fuselight.agents")) {
        changed.fire();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => changed.fire()),
  ];
  return {
    attached,
    copyConfiguration,
    /** The interpreters were resolved again. */
    changed: () => changed.fire(),
    dispose: () => vscode.Disposable.from(...registered).dispose(),
  };
}

function isOn(): boolean {
  return vscode.workspace.getConfiguration("fuselight").get<boolean>("agents", true);
}
