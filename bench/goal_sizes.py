"""Checks of file sizes: against bounds, peers and ndzip, and of gradients out of autocast.

In: a corpus. Out: sections. Fractions are .gw bytes / bytes of the .safetensors file.
"""

from __future__ import annotations

from statistics import fmean, median

from checking import Check, Corpus, Section, at_least, at_most, report

BOUND_MARGINS = {1: 0.006, 2: 0.006, 3: 0.010}
TIGHT = ("bert-fp32-mid", "bert-bf16-mid-r0", "gpt-bf16-early")
NDZIP_FILES = (
    *("gpt-fp32-mid", "resnet18-fp32-mid", "minilm-fp32-mid"),
    *("bert-fp32-mid", "vgg16-fp32-mid", "vit-fp32-mid"),
)
NDZIP_GOALS = {2: 0.195, 3: 0.21}
PUBLISHED_GAIN = 0.1661
AUTOCAST_GOALS = {
    "gpt-bf16amp-mid-r0": 0.331,
    "gpt-bf16amp-mid-mean2": 0.405,
    "resnet18-bf16amp-mid-r0": 0.334,
    "resnet18-bf16amp-mid-mean2": 0.420,
    "minilm-bf16amp-mid-r0": 0.346,
    "minilm-bf16amp-mid-mean2": 0.394,
}


def level(number: int) -> str:
    return f"--level={number}"


def bounds(corpus: Corpus) -> list[Section]:
    """Each level against its bound and the margin."""
    sections = []
    for number, margin in BOUND_MARGINS.items():
        checks = [
            _bound_check(corpus, name, number, margin)
            for name in corpus.names
            if name in corpus.bounds
        ]
        sections.append(Section(f"Level {number}: at most L{number} + {margin:.1%}", checks))
    return sections


def _bound_check(corpus: Corpus, name: str, number: int, margin: float) -> Check:
    bound = corpus.bounds[name][f"L{number}"]
    measured = corpus.fraction(name, level(number))
    return at_most(
        f"{name} (L{number} {bound:.4f}, {measured - bound:+.4f})", bound + margin, measured
    )


def peers(corpus: Corpus) -> list[Section]:
    wide, tight, other = [], [], []
    for name in corpus.names:
        if name not in corpus.peers:
            continue
        peer, fraction = corpus.best_peer(name)
        measured = corpus.fraction(name, level(3))
        check = Check(
            f"{name} ({peer})", f"< {fraction:.4f}", f"{measured:.4f}", measured < fraction
        )
        if not corpus.is_gradient(name):
            other.append(check._replace(met=None))
        else:
            (tight if name in TIGHT else wide).append(check)
    return [
        Section("Level 3 against the best of ten peers", wide),
        Section("The same, where it is tight", tight),
        Section("The same, moments and weights (reported)", other),
    ]


def zstd_on_resnet(corpus: Corpus) -> list[Section]:
    """Level 2 against zstd-3 on byte planes on ResNet files."""
    checks = []
    for name in corpus.names:
        if not name.startswith("resnet18"):
            continue
        zstd = corpus.peers[name]["zstd-3 planes"]
        measured = corpus.fraction(name, level(2))
        met = None if "-f16-" in name else measured < zstd
        checks.append(Check(name, f"< {zstd:.4f}", f"{measured:.4f}", met))
    return [Section("Level 2 against zstd-3 on byte planes, ResNet-18 (f16 reported)", checks)]


def ndzip(corpus: Corpus) -> list[Section]:
    return [_ndzip_level(corpus, number, goal) for number, goal in NDZIP_GOALS.items()]


def _ndzip_level(corpus: Corpus, number: int, goal: float) -> Section:
    ours = {name: corpus.fraction(name, level(number)) for name in NDZIP_FILES}
    ratios = {name: ours[name] / corpus.ndzip[name] for name in NDZIP_FILES}
    bytes_of = {name: corpus.path(name).stat().st_size for name in NDZIP_FILES}
    sums = [
        sum(fractions[name] * bytes_of[name] for name in NDZIP_FILES)
        for fractions in (ours, corpus.ndzip)
    ]
    checks = [
        report(name, f"{1 - ratios[name]:.4f} smaller", f"ndzip {corpus.ndzip[name]:.4f}")
        for name in NDZIP_FILES
    ]
    checks += [
        at_least(f"mean of ratios (published {PUBLISHED_GAIN})", goal, 1 - fmean(ratios.values())),
        report("median of ratios", f"{1 - median(ratios.values()):.4f}"),
        report("sum of bytes", f"{1 - sums[0] / sums[1]:.4f}"),
    ]
    return Section(f"Level {number} against ndzip: share by which it is smaller", checks)


def autocast(corpus: Corpus) -> list[Section]:
    checks = [
        at_most(name, goal, round(corpus.fraction(name, level(2)), 3), 3)
        for name, goal in AUTOCAST_GOALS.items()
    ]
    note = "f32 gradients out of bf16 autocast, level 2. A lossy cast to bf16 gives 0.5."
    return [Section("Autocast", checks, note)]
