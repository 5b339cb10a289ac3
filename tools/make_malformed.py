"""Write tests/malformed/: one hand-made frame for each rule of docs/format.md, and cases.json.

Each frame keeps every rule but one. cases.json says of each file which error kinds are right (most
often one), a word that the message of the real decoder must contain, and the rule. Kind `accepted`
means that the frame is sound although it looks odd.

usage: make_malformed.py [--check]     (--check writes nothing and fails when a file differs)
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from malformed import (  # noqa: E402
    archives,
    codes,
    counted,
    frames,
    kernels,
    lossy,
    lossy_values,
    rice,
    scaled,
    small_codes,
    tensors,
)

FOLDER = ROOT / "tests" / "malformed"

GROUPS = (
    frames.frame_cases,
    frames.section_cases,
    tensors.tensor_cases,
    tensors.index_cases,
    tensors.trailer_cases,
    scaled.scaled_cases,
    scaled.chunk_cases,
    counted.counted_cases,
    counted.joint_cases,
    codes.table_cases,
    codes.ans_cases,
    codes.gennorm_cases,
    small_codes.small_code_cases,
    kernels.kernel_cases,
    archives.directory_cases,
    archives.archive_cases,
    archives.source_cases,
    rice.rice_cases,
    lossy.body_cases,
    lossy.selection_cases,
    lossy.check_cases,
    lossy_values.rule_cases,
    lossy_values.array_cases,
    lossy_values.value_cases,
)


def all_files() -> dict[str, bytes]:
    """Name -> bytes of all that stands in tests/malformed."""
    files, rows = {}, []
    for case in (case for group in GROUPS for case in group()):
        name = f"{case.name}.gw"
        if name in files:
            raise ValueError(f"two cases have the name {case.name}")
        files[name] = case.frame
        row = {"file": name, "kinds": case.kinds.split(), "word": case.word, "rule": case.rule}
        rows.append("  " + json.dumps(row))
    files["cases.json"] = ("[\n" + ",\n".join(rows) + "\n]\n").encode()
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    check = parser.parse_args().check
    FOLDER.mkdir(exist_ok=True)
    differing = 0
    for name, octets in all_files().items():
        path = FOLDER / name
        if path.exists() and path.read_bytes() == octets:
            continue
        differing += 1
        print(f"{'differs' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_bytes(octets)
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
