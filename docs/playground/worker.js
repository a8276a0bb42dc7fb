// The laboratory's Python, in a worker: a message {id, method, argument} calls that method of a PlaygroundSession and returns its JSON.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const started = performance.now();
const here = (name) => new URL(name, import.meta.url).href;

async function load() {
  const bundle = fetch(here("coterie.zip")).then((response) => response.arrayBuffer());
  const pyodide = await loadPyodide({ indexURL: here("pyodide/") });
  pyodide.FS.writeFile("/coterie.zip", new Uint8Array(await bundle));
  const [session, description, version] = pyodide.runPython(`
import sys, warnings
warnings.simplefilter("ignore", RuntimeWarning)  # google_crc32c is pure Python here
sys.path.insert(0, "/coterie.zip")
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
