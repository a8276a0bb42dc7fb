import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { Operations } from "./operations.js";

/** A refusal of the control API; `code` is Kafka's, where the broker refused. */
export class ControlError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code?: string,
  ) {
    super(message);
    this.name = "ControlError";
  }

  /** What was waited for did not come in time. */
  get isTimeout(): boolean {
    return this.status === 504;
  }
}

/** A broker in memory, which a test controls. */
export class Broker extends Operations {
  private constructor(
    readonly url: string,
    readonly bootstrapAddress: string,
    private readonly token?: string,
    private readonly process?: ChildProcess,
  ) {
    super();
  }

  /**
   * Runs `coterie broker`; the environment variable COTERIE names another program than coterie on the PATH. The options are further
   * ones of the command, such as --brokers 3 or --set num.partitions=6.
   */
  static async start(...options: string[]): Promise<Broker> {
    const [program, ...before] = (process.env.COTERIE ?? "coterie").split(" ");
    const listen = options.includes("--brokers") ? [] : ["--listen", "127.0.0.1:0"];
    const child = spawn(program!, [...before, "broker", "--memory", "--control", "127.0.0.1:0", ...listen, ...options], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const failed = new Promise<never>((_, reject) => {
      const hint = "pip install 'coterie[http]', or name the program in COTERIE";
      child.once("error", (error) => reject(new Error(`coterie does not start: ${error.message}; ${hint}`)));
      child.once("exit", (code) => reject(new Error(`coterie broker ended with exit code ${code}`)));
    });
    const started = (async () => {
      const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
      const url = afterPrefix((await lines.next()).value, "control API on ");
      return new Broker(url, afterPrefix((await lines.next()).value, "listening on "), undefined, child);
    })();
    return Promise.race([started, failed]);
  }

  /** Controls a broker that runs elsewhere, empty from now on. */
  static async connect(url: string, token?: string): Promise<Broker> {
    const broker = new Broker(url, "", token);
    await broker.reset();
    return new Broker(url, await broker.bootstrapServers(), token);
  }

  /** Ends the process, if `start` made it. */
  async close(): Promise<void> {
    const child = this.process;
    if (child === undefined || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await ended;
  }

  protected async call(operation: string, given: Record<string, unknown>): Promise<unknown> {
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (this.token !== undefined) headers.Authorization = `Bearer ${this.token}`;
    const response = await fetch(`${this.url}/v1/${operation}`, { method: "POST", headers, body: JSON.stringify(given) });
    const document = (await response.json()) as { result?: unknown; error?: string; code?: string };
    if (!response.ok) throw new ControlError(document.error ?? operation, response.status, document.code);
    return document.result;
  }
}

function afterPrefix(line: string | undefined, prefix: string): string {
  if (!line?.startsWith(prefix)) throw new Error(`coterie broker printed "${line}", not "${prefix}"`);
  return line.slice(prefix.length);
}
