// Keeps the memory of Pyodide once it has imported the session, so that the page need not: node snapshot.mjs PYODIDE LIBRARY.zip BUNDLE.zip SNAPSHOT
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const [folder, library, bundle, snapshot] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`).href);
const pyodide = await loadPyodide({ indexURL: `${folder}/`, stdLibURL: library, _makeSnapshot: true });
pyodide.FS.writeFile("/coterie.zip", new Uint8Array(readFileSync(bundle)));
pyodide.runPython(`
import gc, sys, warnings
warnings.simplefilter("ignore", RuntimeWarning)  # google_crc32c is pure Python here
sys.path.insert(0, "/coterie.zip")
import coterie.laboratory.playground.dropped, coterie.laboratory.playground.session
gc.collect()
`);
writeFileSync(snapshot, gzipSync(pyodide.makeMemorySnapshot()));
