"""Print the project's numeric goals beside what is measured, met or missed.

    bench/issue_numbers.py --corpus DIR [--speed RESULTS.json] [--only NAME...] [--output FILE.md]

DIR holds the captured files with bounds.json, peers.json and ndzip.json. RESULTS.json is what
bench/run.py wrote for speeds; without it speeds and memory are left out. Exits with 1 when a number
is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import goal_coding  # noqa: E402
import goal_published  # noqa: E402
import goal_sizes  # noqa: E402
import goal_speed  # noqa: E402
import machine  # noqa: E402
from checking import Corpus, Section, markdown  # noqa: E402

GOALS: dict[str, Callable[[Corpus], list[Section]]] = {
    "bounds": goal_sizes.bounds,
    "peers": goal_sizes.peers,
    "zstd": goal_sizes.zstd_on_resnet,
    "ndzip": goal_sizes.ndzip,
    "autocast": goal_sizes.autocast,
    "published": goal_published.published,
    "small": goal_coding.small,
    "ans": goal_coding.ans,
    "gennorm": goal_coding.gennorm,
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--speed", type=Path, help="speeds that bench/run.py wrote")
    parser.add_argument("--only", nargs="+", choices=GOALS, default=list(GOALS))
    parser.add_argument("--output", type=Path, help="a Markdown file for the same text")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    corpus = Corpus(arguments.corpus)
    sections: list[Section] = []
    for name in arguments.only:
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        sections += GOALS[name](corpus)
    if arguments.speed:
        sections += goal_speed.speeds(arguments.speed)
    text = machine.markdown(machine.provenance()) + "\n" + markdown(sections)
    print(text)
    if arguments.output:
        arguments.output.write_text(text)
    return int(any(check.met is False for section in sections for check in section.checks))


if __name__ == "__main__":
    sys.exit(main())
