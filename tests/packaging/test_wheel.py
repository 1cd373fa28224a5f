"""The wheel holds every module of the package, its data, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from support.tree import PACKAGE, ROOT, modules, packages, pyproject

NOT_SOURCE = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "node_modules")
DATA = ("py.typed", "actors/ops/*.html", "fixtures/broken/*.json", "fixtures/configs/*.json")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from the source archive, as an installer would: what is missing there is missing here."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=NOT_SOURCE)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", folder / "source"]
    done = subprocess.run(build, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (folder / "dist").glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_project_file_lists_every_folder_of_the_package() -> None:
    """`python tests/support/tree.py` writes the list anew."""
    assert pyproject()["tool"]["setuptools"]["packages"] == packages()


def test_every_folder_with_modules_has_an_init() -> None:
    assert {module.parent for module in modules()} == {m.parent for m in modules() if m.name == "__init__.py"}


def test_the_wheel_holds_every_module_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    data = [path.relative_to(ROOT) for pattern in DATA for path in ROOT.glob(pattern)]
    expected = {f"{PACKAGE}/{path.as_posix()}" for path in [*modules(), *data]}
    assert f"{PACKAGE}/py.typed" in expected
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == expected


def test_the_wheel_brings_licence_command_and_readme(wheel: zipfile.ZipFile) -> None:
    inside = {name.partition(".dist-info/")[2]: name for name in wheel.namelist() if ".dist-info/" in name}
    assert "licenses/LICENSE" in inside
    assert f"smcp = {PACKAGE}.cli.main:main" in wheel.read(inside["entry_points.txt"]).decode()
    metadata = Parser().parsestr(wheel.read(inside["METADATA"]).decode())
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert str(metadata.get_payload()).startswith("# smcp-runtime")


def test_the_changelog_has_an_unreleased_chapter() -> None:
    assert "\n## [Unreleased]\n" in Path(ROOT / "CHANGELOG.md").read_text("utf-8")
