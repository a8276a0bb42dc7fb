"""The playground as a folder of static files: the page, the laboratory's Python packed for Pyodide, and Pyodide itself.

    python -m reference_pages.playground_site FOLDER [--serve PORT]      (with docs/ on the path; `./run playground` does it)

Pyodide comes from npm, of one version, into a cache outside the repository; nothing of it is committed. Node compiles the
modules by that very Pyodide, since each version of Python has a bytecode of its own, and those of Python's own library, which
come as sources; then it imports them and keeps the memory, which the page restores in place of the imports.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from coterie.console.timeline_page import MODULES

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "playground"
STATIC = DOCS.parent / "src" / "coterie" / "web" / "static"
TEXTS = (DOCS.parent / "src" / "coterie" / "laboratory" / "playground" / "texts.json", STATIC.parent / "texts.json")
SHARED = (*(f"{name}.js" for name in MODULES), "phrases.js", "timeline.css", "console.css", "theme.js")
CONSOLES = ("timeline.", "phrase.", "span.")  # the console's texts that the page has too
VERSION = "314.0.7"
INTEGRITY = "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="  # SHA-512
LIBRARY = "python_stdlib.zip"
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", LIBRARY, "pyodide-lock.json")
BUNDLE, SNAPSHOT = "coterie.zip", "snapshot.bin"
# The modules that a session imports, each with its name in the bundle.
_MODULES = """
import json, sys
before = set(sys.modules)
import coterie.laboratory.playground.session, coterie.laboratory.playground.dropped, google_crc32c.python
names = [n for n in sys.modules if n not in before and n.split(".")[0] in ("coterie", "google_crc32c")]
files = {n: sys.modules[n].__file__ for n in sorted(names)}
print(json.dumps({n: f for n, f in files.items() if f and f.endswith(".py")}))
"""


class NoRuntime(Exception):
    """Pyodide is not here and cannot be fetched; the text says why."""


def cache() -> Path:
    """The folder of this version of Pyodide."""
    folder = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(folder) / "coterie" / f"pyodide-{VERSION}"


def runtime(*, fetch: bool) -> Path:
    """The folder of Pyodide's files. Raises NoRuntime."""
    folder = cache()
    if all((folder / name).is_file() for name in RUNTIME):
        return folder
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise NoRuntime("npm and node are missing; they fetch Pyodide and compile for it")
    if not fetch:
        raise NoRuntime("Pyodide is not in the cache; ./run playground fetches it")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as packed:
        command = [npm, "pack", f"pyodide@{VERSION}", "--silent", "--pack-destination", packed]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        archives = list(Path(packed).glob("*.tgz"))
        if done.returncode or not archives:
            raise NoRuntime(f"npm could not fetch Pyodide {VERSION}: {done.stderr.strip()[-300:]}")
        data = archives[0].read_bytes()
        if base64.b64encode(hashlib.sha512(data).digest()).decode() != INTEGRITY:
            raise NoRuntime(f"the package of Pyodide {VERSION} is not the one that is pinned")
        with tarfile.open(archives[0]) as archive:
            for name in RUNTIME:
                member = archive.extractfile(f"package/{name}")
                assert member is not None, name
                arriving = folder / f".{name}.{os.getpid()}"
                arriving.write_bytes(member.read())
                arriving.replace(folder / name)
    return folder


def sources() -> dict[str, bytes]:
    """The files of the bundle by their names in it: modules, and the texts."""
    done = subprocess.run([sys.executable, "-c", _MODULES], capture_output=True, text=True, check=True)
    files: dict[str, bytes] = {}
    for name, file in json.loads(done.stdout).items():
        path = name.replace(".", "/")
        files[path + ("/__init__.py" if Path(file).name == "__init__.py" else ".py")] = Path(file).read_bytes()
    files["coterie/laboratory/playground/texts.json"] = TEXTS[0].read_bytes()
    return files


def pack(files: dict[str, bytes], to: Path) -> None:
    """A zip that depends on the files alone."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)


def _make(script: str, pyodide: Path, *sources: Path, kept: Path) -> None:
    """What the script of Node's makes of the sources with that Pyodide, unless it is there."""
    if kept.is_file():
        return
    arriving = kept.with_suffix(f".{os.getpid()}")
    command = ["node", str(PAGE / script), str(pyodide), *map(str, sources), str(arriving)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoRuntime(f"{script} failed: {done.stderr.strip()[-300:]}")
    arriving.replace(kept)


def bundle(pyodide: Path) -> tuple[Path, Path]:
    """The modules, compiled, and the memory after their import; kept in the cache until one of them changes."""
    files = sources()
    scripts = b"".join((PAGE / name).read_bytes() for name in ("compile.mjs", "snapshot.mjs"))
    content = b"".join(name.encode() + data for name, data in sorted(files.items()))
    digest = hashlib.sha256(content + scripts).hexdigest()
    kept = pyodide / f"bundle-{digest[:16]}.zip"
    if not kept.is_file():
        for former in pyodide.glob("bundle-*"):
            former.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / BUNDLE
            pack(files, source)
            _make("compile.mjs", pyodide, source, kept=kept)
    memory = kept.with_suffix(".bin")
    _make("snapshot.mjs", pyodide, library(pyodide), kept, kept=memory)
    return kept, memory


def library(pyodide: Path) -> Path:
    """Python's own library, compiled."""
    kept = pyodide / f"compiled-{LIBRARY}"
    _make("compile.mjs", pyodide, pyodide / LIBRARY, kept=kept)
    return kept


def texts() -> dict[str, dict[str, str]]:
    """The page's texts with those of the timeline and of the coordinator's sentences."""
    own, console = (json.loads(path.read_text("utf-8")) for path in TEXTS)
    return {**{name: text for name, text in console.items() if name.startswith(CONSOLES)}, **own}


def assemble(folder: Path, *, fetch: bool) -> str:
    """Writes the page's files; returns why it has no Pyodide, or an empty text. A page without it says so."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in PAGE.iterdir():
        if path.suffix in (".html", ".js", ".css"):
            shutil.copy(path, folder)
    for name in SHARED:
        shutil.copy(STATIC / name, folder)
    (folder / "texts.json").write_text(json.dumps(texts(), ensure_ascii=False), "utf-8")
    missing = ""
    try:
        pyodide = runtime(fetch=fetch)
        (folder / "pyodide").mkdir(exist_ok=True)
        for name in RUNTIME:
            shutil.copy(library(pyodide) if name == LIBRARY else pyodide / name, folder / "pyodide" / name)
        for path, name in zip(bundle(pyodide), (BUNDLE, SNAPSHOT), strict=True):
            shutil.copy(path, folder / name)
    except NoRuntime as error:
        missing = str(error)
    built = {"pyodide": VERSION, "missing": missing}
    (folder / "built.json").write_text(json.dumps(built), "utf-8")
    return missing


class PlaygroundHandler(SimpleHTTPRequestHandler):
    """Serves the folder with the types that browsers insist on."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".js": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, format: str, *args: object) -> None:
        """Nothing of each file."""


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Of that folder, on loopback."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(PlaygroundHandler, directory=str(folder)))


def main(arguments: list[str]) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(description="Assemble the playground, and serve it on loopback.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--serve", type=int, metavar="PORT", help="serve it there; 0: any free port")
    chosen = parser.parse_args(arguments)
    missing = assemble(chosen.folder, fetch=True)
    if missing:
        print(f"the playground has no Python: {missing}", file=sys.stderr)
        return 1
    if chosen.serve is None:
        return 0
    with server(chosen.folder, chosen.serve) as serving:
        print(f"the playground is at http://127.0.0.1:{serving.server_port}/ (Ctrl-C ends it)", flush=True)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
