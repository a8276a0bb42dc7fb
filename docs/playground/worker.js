// The laboratory's Python, in a worker: a message {id, method, argument} calls that method of a PlaygroundSession and returns its JSON.
import { loadPyodide } from "./pyodide/pyodide.mjs";
import createPyodide from "./pyodide/pyodide.asm.mjs";

const started = performance.now();
const here = (name) => new URL(name, import.meta.url).href;

// The memory of a Python that has imported the session (snapshot.mjs).
async function snapshotOf(response) {
  const unpacked = (await response).body.pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(unpacked).arrayBuffer());
}

async function load() {
  const bundle = fetch(here("coterie.zip")).then((response) => response.arrayBuffer());
  const snapshot = snapshotOf(fetch(here("snapshot.bin")));
  // Pyodide restores the snapshot into memory of the size that it begins with: it grows by what is allocated.
  const createPyodideModule = async (settings) => {
    const module = await createPyodide(settings);
    module._malloc((await snapshot).length);
    return module;
  };
  const pyodide = await loadPyodide({ indexURL: here("pyodide/"), createPyodideModule, _loadSnapshot: snapshot });
  pyodide.FS.writeFile("/coterie.zip", new Uint8Array(await bundle));
  const [session, description, version] = pyodide.runPython(`
import sys
from coterie.laboratory.playground.session import PlaygroundSession, description
PlaygroundSession(), description(), sys.version.split()[0]
`);
  postMessage({ ready: description, python: version, ms: performance.now() - started });
  return session;
}

const loading = load().catch((error) => { postMessage({ failed: String(error) }); throw error; });

addEventListener("message", async ({ data: { id, method, argument } }) => {
  const session = await loading;
  try {
    const result = argument === undefined ? session[method]() : session[method](argument);
    postMessage({ id, result });
  } catch (error) {
    postMessage({ id, result: JSON.stringify({ error: String(error).trim().split("\n").at(-1) }) });
  }
});
