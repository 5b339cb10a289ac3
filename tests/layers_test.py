"""The rules that hold for the tree as a whole.

Layers: every #include of src/, cli/, python/bindings, examples/ and include/ stays within ALLOWED.
Sizes: no source file has 400 lines or more. Headers: every folder of src/ has one that says what
goes in, what comes out and what is assumed. Links: relative links in Markdown files resolve.

Each check returns its breaches as sentences; the checks themselves are tested on made-up trees.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

STAGES = "stages/*"
ORDER = ["base", "simd", STAGES, "frame", "lossless", "lossy", "feedback", "exchange", "transport"]

# What each layer of src/ may include besides itself and the public headers. A stage never includes
# another stage, and `frame` knows no method beyond its id.
ALLOWED: dict[str, set[str]] = {layer: set(ORDER[:i]) for i, layer in enumerate(ORDER)}
ALLOWED["frame"] = {"base"}
ALLOWED["feedback"] = {"base"}
# Know values, indices and symbols, no bytes.
for part in (
    "select",
    "quantise",
    "gennorm",
    "mantissa",
    "low_rank",
    "transform",
    "thc",
    "sketch",
    "learned",
):
    ALLOWED[f"lossy/{part}"] = {"base"}
ALLOWED["lossy/method"] = ALLOWED["lossy"] | {"lossy", "feedback"}  # puts the parts together
ALLOWED["api"] = set(ORDER)  # implements the public headers and the C ABI
ALLOWED["mpi"] = set(ORDER)  # a library of its own: implements gradwire/mpi.h

# Libraries that only some folders may include; others are free. A public header is a folder of its
# own here, as a program that uses one of them need not have the libraries of another.
LIBRARIES = {
    "hwy/": {"simd"},
    "xxhash.h": {"base"},
    "Eigen/": {"lossy"},
    "mpi.h": {"mpi", "gradwire/mpi.h", "examples"},
    "nlohmann/": {"cli"},
    "CLI/": {"cli"},
    "nanobind/": {"python/bindings"},
    "fmt/": {*ORDER, "api", "mpi", "cli", "python/bindings"},
}

CLIENTS = ["cli", "python/bindings", "examples"]
CXX = {".h", ".cc", ".c"}
SOURCES = ["src", "cli", "include", "python", "tests", "tools", "fuzz", "bench", "examples"]
MAX_LINES = 400
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
FIRST_COMMENT = re.compile(r"\A\s*((?://[^\n]*\n\s*)+|/\*.*?\*/)", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
NOT_OURS = {".git", ".venv", "build", "node_modules", "dist", "demo-output"}


def files_under(root: Path, folder: str, suffixes: set[str]) -> list[Path]:
    return sorted(
        path
        for path in (root / folder).rglob("*")
        if path.suffix in suffixes
        and path.is_file()
        and not NOT_OURS & set(path.relative_to(root).parts)
    )


def layer_of(path_in_src: Path) -> str:
    """`stages/predict/taps.h` is of layer `stages/predict`, and so with folders that ALLOWED names;
    all others are of their first folder."""
    parts = path_in_src.parts
    folder = "/".join(parts[:2])
    is_layer = len(parts) > 2 and (parts[0] == "stages" or folder in ALLOWED)
    return folder if is_layer else parts[0]


def may_include(layer: str, other: str) -> bool:
    if layer == other:
        return True
    if other.startswith(f"{layer}/"):  # what a layer is made of
        return True
    allowed = ALLOWED[STAGES if layer.startswith("stages/") else layer]
    whole = STAGES if other.startswith("stages/") else other.split("/")[0]
    return other in allowed or whole in allowed


def includes(path: Path) -> list[tuple[int, bool, str]]:
    text = path.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start()) + 1, match[1] == '"', match[2])
        for match in INCLUDE.finditer(text)
    ]


def library_breach(folder: str, name: str) -> str | None:
    for prefix, owners in LIBRARIES.items():
        if name.startswith(prefix):
            kind = STAGES if folder.startswith("stages/") else folder
            if kind not in owners:
                return f"<{name}> belongs to {', '.join(sorted(owners))} only"
    return None


def source_breach(root: Path, path: Path, layer: str, quoted: bool, name: str) -> str | None:
    """Why a file of src/ may not have this include, or None."""
    if name.startswith("gradwire/"):
        return None
    if (root / "src" / name).is_file():
        other = layer_of(Path(name))
    elif quoted and (path.parent / name).is_file():
        inside = (path.parent / name).resolve().relative_to((root / "src").resolve())
        other = layer_of(inside)
    elif quoted:
        return f'"{name}" is no file of src/ or include/'
    else:
        return library_breach(layer, name)
    if may_include(layer, other):
        return None
    return f"layer {layer} may not include {other} ({name})"


def client_breach(root: Path, path: Path, folder: str, quoted: bool, name: str) -> str | None:
    """The same for what may see include/gradwire only: clients, and the public headers."""
    if name.startswith("gradwire/"):
        return None
    if quoted and ((path.parent / name).is_file() or (root / folder / name).is_file()):
        target = path.parent / name if (path.parent / name).is_file() else root / folder / name
        inside = target.resolve().is_relative_to((root / folder).resolve())
        return None if inside else f"{folder} may include include/gradwire only, not {name}"
    if quoted or (root / "src" / name).is_file():
        return f"{folder} may include include/gradwire only, not {name}"
    is_public = folder == "include/gradwire"
    return library_breach(f"gradwire/{path.name}" if is_public else folder, name)


def layer_breaches(root: Path) -> list[str]:
    breaches = []
    for path in files_under(root, "src", CXX):
        layer = layer_of(path.relative_to(root / "src"))
        where = path.relative_to(root)
        if layer not in ALLOWED and not layer.startswith("stages/"):
            breaches.append(f"{where}: src/{layer} is no layer; see docs/architecture.md")
            continue
        for line, quoted, name in includes(path):
            if breach := source_breach(root, path, layer, quoted, name):
                breaches.append(f"{where}:{line}: {breach}")
    for folder in [*CLIENTS, "include/gradwire"]:
        for path in files_under(root, folder, CXX):
            for line, quoted, name in includes(path):
                if breach := client_breach(root, path, folder, quoted, name):
                    breaches.append(f"{path.relative_to(root)}:{line}: {breach}")
    return breaches


def size_breaches(root: Path, folders: list[str]) -> list[str]:
    """Files of 400 lines or more; those that say `Generated by` in their first lines are free."""
    breaches = []
    for folder in folders:
        for path in files_under(root, folder, CXX | {".py"}):
            lines = path.read_text(encoding="utf-8").splitlines()
            generated = any("Generated by" in line for line in lines[:3])
            if len(lines) >= MAX_LINES and not generated:
                where = path.relative_to(root)
                breaches.append(f"{where}: {len(lines)} lines, split before {MAX_LINES}")
    return breaches


def says_what_it_does(header: Path) -> bool:
    first_comment = FIRST_COMMENT.match(header.read_text(encoding="utf-8"))
    if not first_comment:
        return False
    lines = [line.strip().lstrip("/* ") for line in first_comment[1].splitlines()]
    return all(any(line.startswith(key) for line in lines) for key in ("In:", "Out:", "Assumes:"))


def header_breaches(root: Path) -> list[str]:
    folders = {path.parent for path in files_under(root, "src", CXX)}
    return [
        f"{folder.relative_to(root)}: no header opens with a comment of lines `In:`, `Out:`, "
        "`Assumes:`"
        for folder in sorted(folders)
        if not any(says_what_it_does(header) for header in sorted(folder.glob("*.h")))
    ]


def link_breaches(root: Path) -> list[str]:
    breaches = []
    for path in files_under(root, ".", {".md"}):
        text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        text = re.sub(r"`[^`\n]*`", "", text)
        for match in LINK.finditer(text):
            target = match[1].split("#")[0]
            if re.match(r"[a-z]+:", target) or not target:
                continue
            if target.startswith("/") or not (path.parent / target).exists():
                breaches.append(f"{path.relative_to(root)}: link to {match[1]} leads nowhere")
    return breaches


# --- the tree ------------------------------------------------------------------


def test_every_include_stays_within_its_layer() -> None:
    assert not layer_breaches(ROOT)


def test_source_files_stay_under_400_lines() -> None:
    assert not size_breaches(ROOT, SOURCES)


def test_every_folder_of_src_has_a_header_that_says_what_it_does() -> None:
    assert not header_breaches(ROOT)


def test_relative_links_in_documents_resolve() -> None:
    assert not link_breaches(ROOT)


# --- the checks ----------------------------------------------------------------


def write(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("source", "include", "is_breach"),
    [
        ("src/base/a.h", '"base/b.h"', False),
        ("src/base/a.h", '"b.h"', False),
        ("src/base/a.h", '"gradwire/error.h"', False),
        ("src/base/a.h", "<xxhash.h>", False),
        ("src/frame/a.h", "<xxhash.h>", True),
        ("src/base/a.h", '"frame/b.h"', True),
        ("src/base/a.h", "<frame/b.h>", True),
        ("src/base/a.h", '"../frame/b.h"', True),
        ("src/base/a.h", '"nowhere.h"', True),
        ("src/simd/a.cc", "<hwy/highway.h>", False),
        ("src/lossless/a.cc", "<hwy/highway.h>", True),
        ("src/stages/entropy/a.h", '"stages/entropy/b.h"', False),
        ("src/stages/entropy/a.h", '"simd/b.h"', False),
        ("src/stages/entropy/a.h", '"stages/predict/b.h"', True),
        ("src/stages/entropy/a.h", '"../predict/b.h"', True),
        ("src/stages/entropy/a.h", '"frame/b.h"', True),
        ("src/frame/a.h", '"base/b.h"', False),
        ("src/frame/a.h", '"simd/b.h"', True),
        ("src/frame/a.h", '"stages/predict/b.h"', True),
        ("src/lossless/a.h", '"stages/predict/b.h"', False),
        ("src/lossless/a.h", '"frame/b.h"', False),
        ("src/lossless/a.h", '"lossy/b.h"', True),
        ("src/lossless/a.h", '"lossy/select/b.h"', True),
        ("src/lossless/a.h", "<nlohmann/json.hpp>", True),
        ("src/lossy/a.h", '"lossy/select/b.h"', False),
        ("src/lossy/a.h", '"lossless/b.h"', False),
        ("src/lossy/select/a.h", '"base/b.h"', False),
        ("src/lossy/select/a.h", '"b.h"', False),
        ("src/lossy/select/a.h", '"lossy/b.h"', True),
        ("src/lossy/select/a.h", '"stages/entropy/b.h"', True),
        ("src/lossy/select/a.h", '"frame/b.h"', True),
        ("src/lossy/select/a.h", '"lossy/quantise/b.h"', True),
        ("src/feedback/a.h", '"lossy/select/b.h"', True),
        ("src/exchange/a.h", '"lossy/select/b.h"', False),
        ("src/api/a.cc", '"lossless/b.h"', False),
        ("src/lossless/a.h", '"api/b.h"', True),
        ("src/mpi/a.h", '"lossless/b.h"', False),
        ("src/mpi/a.h", "<mpi.h>", False),
        ("src/mpi/a.h", '"api/b.h"', True),
        ("src/api/a.cc", "<mpi.h>", True),
        ("src/api/a.cc", '"mpi/b.h"', True),
        ("src/elsewhere/a.h", "<vector>", True),
        ("cli/a.cc", '"b.h"', False),
        ("cli/a.cc", '"gradwire/compress.h"', False),
        ("cli/a.cc", "<nlohmann/json.hpp>", False),
        ("cli/a.cc", '"base/b.h"', True),
        ("cli/a.cc", "<base/b.h>", True),
        ("cli/a.cc", '"../src/base/b.h"', True),
        ("python/bindings/a.cc", "<nanobind/nanobind.h>", False),
        ("python/bindings/a.cc", '"frame/b.h"', True),
        ("examples/a.cc", '"base/b.h"', True),
        ("include/gradwire/a.h", "<vector>", False),
        ("include/gradwire/a.h", "<fmt/format.h>", True),
        ("include/gradwire/a.h", "<mpi.h>", True),
        ("include/gradwire/mpi.h", "<mpi.h>", False),
        ("include/gradwire/a.h", '"base/b.h"', True),
    ],
)
def test_an_include_is_a_breach_exactly_where_the_table_says_so(
    tmp_path: Path, source: str, include: str, is_breach: bool
) -> None:
    layers = ["base", "simd", "stages/predict", "stages/entropy", "frame", "lossless", "lossy"]
    for layer in [*layers, "lossy/select", "api", "mpi"]:
        write(tmp_path, f"src/{layer}/b.h")
    write(tmp_path, "cli/b.h")
    write(tmp_path, source, f"// A comment.\n#include {include}\n")
    assert bool(layer_breaches(tmp_path)) == is_breach


def test_a_file_of_400_lines_is_a_breach_unless_it_is_generated(tmp_path: Path) -> None:
    write(tmp_path, "src/base/short.cc", "\n" * 399)
    assert not size_breaches(tmp_path, ["src"])
    write(tmp_path, "src/base/long.cc", "\n" * 400)
    write(tmp_path, "src/base/tables.cc", "// Generated by a tool.\n" + "\n" * 400)
    assert [breach.split(":")[0] for breach in size_breaches(tmp_path, ["src"])] == [
        "src/base/long.cc"
    ]


def test_a_folder_needs_a_header_whose_first_comment_has_three_lines(tmp_path: Path) -> None:
    write(tmp_path, "src/base/bytes.cc")
    assert header_breaches(tmp_path)
    write(tmp_path, "src/base/bytes.h", "#pragma once\n// In: bytes.\n// Out: x.\n// Assumes: y.\n")
    assert header_breaches(tmp_path), "the comment comes first"
    write(tmp_path, "src/base/bytes.h", "// In: bytes.\n// Out: x, and\n//   y.\n// Assumes: z.\n")
    assert not header_breaches(tmp_path)


def test_a_link_to_a_missing_file_is_a_breach(tmp_path: Path) -> None:
    write(tmp_path, "docs/format.md", "[up](../README.md#top) [web](https://example.org) `[x](y)`")
    assert link_breaches(tmp_path)
    write(tmp_path, "README.md", "[format](docs/format.md)\n```\n[not](a-link.md)\n```\n")
    assert not link_breaches(tmp_path)
