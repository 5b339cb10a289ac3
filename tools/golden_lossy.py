"""Golden frames of lossy bodies: every selection with every form of values.

In: the C++ test that makes them, in build/release or as GRADWIRE_LOSSY_GOLDEN says. Out: names and
frames.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

TEST = Path(__file__).resolve().parents[1] / "build" / "release" / "tests" / "lossy_golden_test"


def lossy_frames() -> Iterator[tuple[str, bytes]]:
    test = os.environ.get("GRADWIRE_LOSSY_GOLDEN", str(TEST))
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"GRADWIRE_WRITE_GOLDEN": folder}
        subprocess.run([test], check=True, capture_output=True, env=environment)
        for path in sorted(Path(folder).glob("*.gw")):
            yield path.stem, path.read_bytes()
