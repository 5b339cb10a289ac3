"""The programs in examples/ build against an installed gradwire and run; so does README.md.

README.md: fenced blocks of python, sh and cpp run in their order, in one folder, where `tests` is
the one of the checkout and `gradwire` is the tool that was built. Python blocks share their names;
a cpp block without main is put into one. A block is left out when the line before its fence is
`<!-- not run: REASON -->`.
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


class Snippet(NamedTuple):
    line: int
    language: str
    code: str


def run(command: list[str], **options: object) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def environment() -> dict[str, str]:
    """The tool and the interpreter that are under test come first."""
    path = [str(BUILD), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {**os.environ, "PATH": os.pathsep.join(path)}


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


def test_the_python_example_runs() -> None:
    output = run([sys.executable, str(EXAMPLES / "python_round_trip.py")])
    assert "every bit came back" in output


def test_every_example_is_tested() -> None:
    names = {path.name for path in EXAMPLES.iterdir() if not path.name.startswith((".", "_"))}
    assert names == {
        "CMakeLists.txt",
        "c_round_trip.c",
        "cpp_round_trip.cc",
        "python_round_trip.py",
    }


def test_the_installed_headers_are_the_public_ones(prefix: Path) -> None:
    installed = {path.name for path in (prefix / "include" / "gradwire").iterdir()}
    assert installed == {path.name for path in (ROOT / "include" / "gradwire").glob("*.h")}


# --- README.md -----------------------------------------------------------------------------------


def snippets(text: str) -> list[Snippet]:
    return [
        Snippet(text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for match in FENCE.finditer(text)
        if match[1] in LANGUAGES and not NOT_RUN.search(text[: match.start()])
    ]


def run_python(code: str, names: dict[str, object]) -> None:
    exec(compile(code, "README.md", "exec"), names)


def run_cpp(code: str, folder: Path, prefix: Path) -> None:
    if "int main" not in code:
        lines = code.splitlines(keepends=True)
        includes = [line for line in lines if line.startswith("#include")]
        rest = [line for line in lines if not line.startswith("#include")]
        code = "".join([*includes, "int main() {\n", *rest, "}\n"])
    source = folder / "snippet.cc"
    source.write_text(code)
    library = next(prefix.glob("lib*/**/libgradwire.*"))
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    options = ["-std=c++20", f"-I{prefix}/include", "-o", str(folder / "snippet")]
    run([str(compiler), str(source), str(library), *options, "-pthread"])
    run([str(folder / "snippet")], cwd=folder)


def test_the_snippets_of_the_readme_run(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("README.md is not written yet")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "readme"}
    for snippet in snippets(readme.read_text(encoding="utf-8")):
        try:
            if snippet.language == "python":
                run_python(snippet.code, names)
            elif snippet.language == "cpp":
                run_cpp(snippet.code, tmp_path, prefix)
            else:
                shell = ["bash", "-euo", "pipefail", "-c", snippet.code]
                run(shell, cwd=tmp_path, env=environment(), timeout=120)
        except Exception as error:
            pytest.fail(f"README.md:{snippet.line}: {snippet.language} snippet: {error!r}")


def test_snippets_are_found_unless_they_are_marked() -> None:
    text = (
        "# x\n```python\na = 1\n```\n\n<!-- not run: needs a network -->\n```sh\nexit 1\n```\n"
        "```text\nno code\n```\n```sh\ntrue\n```\n"
    )
    assert snippets(text) == [Snippet(2, "python", "a = 1\n"), Snippet(13, "sh", "true\n")]
