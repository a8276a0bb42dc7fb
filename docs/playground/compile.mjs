// Compiles the modules of a zip by the Pyodide that will import them: node compile.mjs PYODIDE SOURCES.zip COMPILED.zip
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, sources, compiled] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`).href);
const pyodide = await loadPyodide({ indexURL: `${folder}/` });
pyodide.FS.writeFile("/sources.zip", new Uint8Array(readFileSync(sources)));
pyodide.runPython(`
import importlib._bootstrap_external as importing, zipfile
with zipfile.ZipFile("/sources.zip") as sources, zipfile.ZipFile("/compiled.zip", "w", zipfile.ZIP_DEFLATED) as compiled:
    for name in sources.namelist():
        data = sources.read(name)
        if name.endswith(".py"):
            code = compile(data, name, "exec", dont_inherit=True)
            name, data = name + "c", bytes(importing._code_to_timestamp_pyc(code, 0, len(data)))
        compiled.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
`);
writeFileSync(compiled, pyodide.FS.readFile("/compiled.zip"));
