"""The programs in examples/ build against an installed gradwire and run; so does README.md.

README.md: fenced blocks of python, sh and cpp run in their order, in one folder that looks like the
checkout: `tests`, `build/release/gradwire` (also on the PATH), and a sample as grads.safetensors;
`make` only says what it would do. Python blocks share their names. A cpp block without main is put
into one, where `shape` and `bytes` are a tensor. A block is left out when the line before its fence
is `<!-- not run: REASON -->`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("GRADWIRE_BUILD_DIR", ROOT / "build" / "release"))
EXAMPLES = ROOT / "examples"

FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```\s*$", re.DOTALL | re.MULTILINE)
NOT_RUN = re.compile(r"<!-- not run: .+ -->\s*\Z")
LANGUAGES = ("python", "sh", "cpp")

CPP_BEGIN = """
#include <cstdint>
#include <vector>
int main() {
  const std::vector<std::uint64_t> shape{64, 32};
  const std::vector<std::uint8_t> bytes(64 * 32 * 2, 7);
"""


class Snippet(NamedTuple):
    line: int
    language: str
    code: str


def run(command: list[str], **options: object) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (BUILD / "CMakeCache.txt").exists():
        pytest.skip("no build to install: run `make build`")
    prefix = tmp_path_factory.mktemp("prefix")
    run(["cmake", "--install", str(BUILD), "--prefix", str(prefix)])
    return prefix


@pytest.fixture(scope="module")
def programs(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    configure = ["cmake", "-S", str(EXAMPLES), "-B", str(folder), f"-DCMAKE_PREFIX_PATH={prefix}"]
    run(configure)
    run(["cmake", "--build", str(folder)])
    return folder


@pytest.mark.parametrize("name", ["c_round_trip", "cpp_round_trip"])
def test_an_example_builds_against_the_installed_library_and_runs(programs, name: str) -> None:
    output = run([str(programs / name)])
    assert "every bit came back" in output
    assert "DIFFERENT" not in output


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_mpi_example_averages_alike_on_all_ranks(programs, ranks: int) -> None:
    if not (programs / "mpi_average").exists():
        pytest.skip("gradwire was built without MPI")
    allowed = {f"OMPI_{name}": "1" for name in ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM")}
    environment = {**os.environ, **allowed, "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    command = ["mpirun", "-n", str(ranks), str(programs / "mpi_average")]
    output = run(command, env=environment, timeout=120)
    assert "all ranks have the same bits, near those of MPI_Allreduce" in output
    assert "DIFFERENT" not in output


def test_the_python_example_runs() -> None:
    output = run([sys.executable, str(EXAMPLES / "python_round_trip.py")])
    assert "every bit came back" in output


def test_every_example_is_tested() -> None:
    names = {path.name for path in EXAMPLES.iterdir() if not path.name.startswith((".", "_"))}
    assert names == {
        "CMakeLists.txt",
        "c_round_trip.c",
        "cpp_round_trip.cc",
        "mpi_average.cc",
        "python_round_trip.py",
    }


def test_the_installed_headers_are_the_public_ones(prefix: Path) -> None:
    installed = {path.name for path in (prefix / "include" / "gradwire").iterdir()}
    public = {path.name for path in (ROOT / "include" / "gradwire").glob("*.h")}
    assert installed - {"mpi.h"} == public - {"mpi.h"}
    assert ("mpi.h" in installed) == any(prefix.glob("lib*/**/libgradwire_mpi.*"))


# --- README.md -----------------------------------------------------------------------------------


def snippets(text: str) -> list[Snippet]:
    return [
        Snippet(text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for match in FENCE.finditer(text)
        if match[1] in LANGUAGES and not NOT_RUN.search(text[: match.start()])
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where snippets run, as the working directory."""
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "release").symlink_to(BUILD)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    shutil.copy(ROOT / "tests/data/gpt-bf16-mid-r0.safetensors", tmp_path / "grads.safetensors")
    tools = tmp_path / "tools-on-path"
    tools.mkdir()
    make = tools / "make"
    make.write_text(f'#!/bin/sh\nexec {shutil.which("make")} --dry-run -C "{ROOT}" "$@"\n')
    make.chmod(0o755)
    path = [str(tools), str(BUILD), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_python(code: str, names: dict[str, object]) -> None:
    exec(compile(code, "README.md", "exec"), names)


def run_cpp(code: str, folder: Path, prefix: Path) -> None:
    if "int main" not in code:
        lines = code.splitlines(keepends=True)
        includes = [line for line in lines if line.startswith("#include")]
        rest = [line for line in lines if not line.startswith("#include")]
        code = "".join([*includes, CPP_BEGIN, *rest, "}\n"])
    source = folder / "snippet.cc"
    source.write_text(code)
    library = next(prefix.glob("lib*/**/libgradwire.*"))
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    options = ["-std=c++20", f"-I{prefix}/include", "-o", str(folder / "snippet")]
    run([str(compiler), str(source), str(library), *options, "-pthread"])
    run([str(folder / "snippet")], cwd=folder)


def test_the_snippets_of_the_readme_run(prefix: Path, folder: Path) -> None:
    names: dict[str, object] = {"__name__": "readme"}
    for snippet in snippets((ROOT / "README.md").read_text(encoding="utf-8")):
        try:
            if snippet.language == "python":
                run_python(snippet.code, names)
            elif snippet.language == "cpp":
                run_cpp(snippet.code, folder, prefix)
            else:
                run(["bash", "-euo", "pipefail", "-c", snippet.code], timeout=120)
        except Exception as error:
            pytest.fail(f"README.md:{snippet.line}: {snippet.language} snippet: {error!r}")


def test_snippets_are_found_unless_they_are_marked() -> None:
    text = (
        "# x\n```python\na = 1\n```\n\n<!-- not run: needs a network -->\n```sh\nexit 1\n```\n"
        "```text\nno code\n```\n```sh\ntrue\n```\n"
    )
    assert snippets(text) == [Snippet(2, "python", "a = 1\n"), Snippet(13, "sh", "true\n")]
