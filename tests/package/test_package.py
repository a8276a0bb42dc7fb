"""The package as it would be published: the sdist holds all that the wheel is built from, and the wheel, installed alone in
a fresh environment, is a whole coterie."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import coterie
from coterie.runtime.extras import EXTRAS
from tests.package.fresh_environment import BUILD_REQUIRES, NO_COMPILER, ROOT, CommandFailed, FreshEnvironment
from tests.package.package_matrix import Result, saved_results, table

pytestmark = pytest.mark.slow
NOT_PACKAGED = {".so"}


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> FreshEnvironment:
    """A fresh environment with what pyproject.toml requires for a build, and nothing else."""
    made = FreshEnvironment(tmp_path_factory.mktemp("builder") / "environment")
    made.install("build", *BUILD_REQUIRES)
    return made


def build(builder: FreshEnvironment, source: Path, out: Path, *options: str, variables: dict[str, str]) -> Path:
    """The folder with what was built."""
    command: list[str | Path] = [builder.python, "-m", "build", "--no-isolation", *options, "--outdir", out, source]
    builder.run(*command, variables=variables)
    return out


@pytest.fixture(scope="module")
def built(builder: FreshEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the pure wheel, which is built out of the sdist without a compiler."""
    return build(builder, ROOT, tmp_path_factory.mktemp("dist"), variables=NO_COMPILER)


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    assert wheel.name == f"coterie-{coterie.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        packed = {n for n in archive.namelist() if ".dist-info/" not in n}
    sources = {
        str(p.relative_to(ROOT / "src"))
        for package in ("coterie", "pyspark_coterie")
        for p in (ROOT / "src" / package).rglob("*")
        if p.is_file() and p.suffix not in NOT_PACKAGED and p.parent.name != "__pycache__"
    }
    assert packed == sources
    assert "coterie/py.typed" in packed
    assert not [name for name in packed if "coterie_conformance" in name]


def test_the_sdist_has_what_the_tests_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {n.partition("/")[2] for n in archive.getnames()}
    assert {
        "run",
        "constraints.txt",
        "hatch_build.py",
        "README.md",
        "tests/package/test_package.py",
        ".ci/run",
    } <= packed
    assert "conformance/pyproject.toml" in packed
    assert {"LICENSE", "docs/study.md", "tests/spec/transactions.txt"} <= packed


def test_the_second_distribution_has_its_own_files_alone(builder: FreshEnvironment, tmp_path: Path) -> None:
    source = ROOT / "conformance"
    (wheel,) = build(builder, source, tmp_path, "--wheel", variables={}).iterdir()
    with zipfile.ZipFile(wheel) as archive:
        packed = {n for n in archive.namelist() if ".dist-info/" not in n}
    assert packed == {
        str(p.relative_to(source / "src"))
        for p in (source / "src/coterie_conformance").rglob("*")
        if p.is_file() and p.parent.name != "__pycache__"
    }
    assert "coterie[zookeeper]" in metadata(wheel).get_all("Requires-Dist", [])


def test_the_metadata_is_complete(wheel: Path) -> None:
    fields = metadata(wheel)
    assert fields["Version"] == coterie.__version__
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["Description-Content-Type"] == "text/markdown"
    assert set(EXTRAS) <= set(fields.get_all("Provides-Extra", []))
    assert "Typing :: Typed" in fields.get_all("Classifier", [])


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> FreshEnvironment:
    """A fresh environment of this Python with the pure wheel and pytest alone."""
    made = FreshEnvironment(tmp_path_factory.mktemp("fresh") / "environment")
    made.install(str(wheel), "pytest")
    return made


def test_the_wheel_alone_is_a_whole_coterie(environment: FreshEnvironment) -> None:
    assert coterie.__version__ in environment.coterie("--version")
    assert environment.produce_and_consume() == ["one", "two"]
    assert not environment.is_compiled()


def test_the_wheel_brings_the_fixture(environment: FreshEnvironment) -> None:
    assert environment.run_fixture_test().startswith("1 passed")


def test_a_missing_extra_is_one_sentence_in_the_fresh_environment(environment: FreshEnvironment) -> None:
    with pytest.raises(CommandFailed, match=r"coterie demo needs pyspark .*pip install 'coterie\[spark\]'"):
        environment.coterie("demo")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_with_a_compiler_the_wheel_is_compiled(
    builder: FreshEnvironment, built: Path, environment: FreshEnvironment, tmp_path: Path
) -> None:
    """Installed over the pure one, it is what is used. COTERIE_PURE=1 makes the pure one in spite of a compiler."""
    (sdist,) = built.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", sdist, "-C", tmp_path], check=True)
    source = tmp_path / sdist.name.removesuffix(".tar.gz")
    (pure,) = build(builder, source, tmp_path / "pure", "--wheel", variables={"COTERIE_PURE": "1"}).iterdir()
    assert pure.name == f"coterie-{coterie.__version__}-py3-none-any.whl"
    (compiled,) = build(builder, source, tmp_path / "compiled", "--wheel", variables={"CFLAGS": "-O0"}).iterdir()
    assert sysconfig.get_platform().replace("-", "_").replace(".", "_") in compiled.name
    environment.install("--force-reinstall", "--no-deps", str(compiled))
    assert environment.is_compiled()
    assert environment.produce_and_consume() == ["one", "two"]


def test_the_page_of_releases_shows_the_last_matrix() -> None:
    """`./run package PYTHON... --save` writes the results, and the table that it prints goes onto the page."""
    page = (ROOT / "docs/contributing/releasing.md").read_text("utf-8")
    results = saved_results()
    assert "\n".join(table(results)) in page
    failed = [Result("3.11", results[0].check, 1.0, "it does not install")]
    assert "| failed |" in "\n".join(table(failed))
