"""Sizes that other lossless codecs reach on the same tensors.

In: tensors as raw bits. Out: bytes. Each peer codes each tensor apart and all tensors of a dtype
together; the smaller counts, without any header of a file. Peers that are not installed are left
out; `pip install zstandard blosc2 pcodec zipnn openzl` brings all of them.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from samples import Tensor

Bits = NDArray[Any]
SizeOf = Callable[[Bits, str], int]

FLOATS = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
NUMPY_FLOATS = {"F16": np.float16, "F32": np.float32}


def byte_planes(bits: Bits) -> bytes:
    """All lowest bytes, then all next ones, and so on."""
    return bits.reshape(-1).view(np.uint8).reshape(-1, bits.itemsize).T.tobytes()


def zstd_planes(level: int) -> SizeOf:
    import zstandard

    compressor = zstandard.ZstdCompressor(level=level)
    return lambda bits, dtype: len(compressor.compress(byte_planes(bits)))


def blosc2_shuffle() -> SizeOf:
    import blosc2

    options: dict[str, Any] = {"clevel": 5, "codec": blosc2.Codec.ZSTD}
    options["filter"] = blosc2.Filter.SHUFFLE
    return lambda bits, dtype: len(
        blosc2.compress(bits.tobytes(), typesize=bits.itemsize, **options)
    )


def pcodec() -> SizeOf:
    from pcodec import ChunkConfig, standalone

    config = ChunkConfig(compression_level=8)

    def size(bits: Bits, dtype: str) -> int:
        values = bits.view(NUMPY_FLOATS[dtype]) if dtype in NUMPY_FLOATS else bits
        return len(standalone.simple_compress(values, config))

    return size


def zipnn() -> SizeOf:
    module = importlib.import_module("zipnn")

    def size(bits: Bits, dtype: str) -> int:
        codec = module.ZipNN(bytearray_dtype=FLOATS[dtype], input_format="byte", threads=1)
        return len(codec.compress(bytearray(bits.tobytes())))

    return size


def openzl_generic() -> SizeOf:
    zl = importlib.import_module("openzl.ext")
    compressor = zl.Compressor()
    compressor.select_starting_graph(zl.graphs.Compress()(compressor))
    return lambda bits, dtype: _openzl_bytes(zl, compressor, bits)


def openzl_float() -> SizeOf:
    """Signs, fractions and exponents apart, exponents by finite state entropy."""
    zl = importlib.import_module("openzl.ext")
    nodes = {
        "BF16": zl.nodes.BFloat16Deconstruct,
        "F16": zl.nodes.Float16Deconstruct,
        "F32": zl.nodes.Float32Deconstruct,
    }

    def size(bits: Bits, dtype: str) -> int:
        compressor = zl.Compressor()
        rest = zl.graphs.Compress()(compressor)
        exponents = zl.graphs.Fse()(compressor)
        split = nodes[dtype]()
        compressor.select_starting_graph(split(compressor, sign_frac=rest, exponent=exponents))
        return _openzl_bytes(zl, compressor, bits)

    return size


def _openzl_bytes(zl: Any, compressor: Any, bits: Bits) -> int:
    context = zl.CCtx()
    context.ref_compressor(compressor)
    context.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
    return len(context.compress([zl.Input(zl.Type.Numeric, bits)]))


MAKERS: dict[str, Callable[[], SizeOf]] = {
    "zstd-3 planes": lambda: zstd_planes(3),
    "zstd-19 planes": lambda: zstd_planes(19),
    "blosc2 shuffle": blosc2_shuffle,
    "pcodec 8": pcodec,
    "zipnn": zipnn,
    "openzl float": openzl_float,
    "openzl generic": openzl_generic,
}


def installed_peers() -> dict[str, SizeOf]:
    """Return the size functions of the peers that can be imported."""
    found = {}
    for name, make in MAKERS.items():
        try:
            found[name] = make()
        except ImportError:
            continue
    return found


def smallest_size(size_of: SizeOf, tensors: Iterable[Tensor]) -> int | None:
    """Return the bytes of a peer: tensors apart or joined, whichever is less; None if it fails."""
    apart = [(tensor.bits.reshape(-1), tensor.dtype) for tensor in tensors if tensor.bits.size]
    by_dtype = itertools.groupby(sorted(apart, key=lambda pair: pair[1]), key=lambda pair: pair[1])
    joined = [(np.concatenate([bits for bits, _ in group]), dtype) for dtype, group in by_dtype]
    sizes = [_total(size_of, group) for group in (apart, joined)]
    return min((size for size in sizes if size is not None), default=None)


def _total(size_of: SizeOf, group: list[tuple[Bits, str]]) -> int | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sum(size_of(bits.copy(), dtype) for bits, dtype in group)
    except Exception as error:  # peers raise what they like; one that fails does not count
        print(f"a peer failed: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def peer_sizes(peers: dict[str, SizeOf], tensors: list[Tensor]) -> dict[str, int]:
    """Return the bytes of each peer that could code the tensors."""
    sizes = {name: smallest_size(size_of, tensors) for name, size_of in peers.items()}
    return {name: size for name, size in sizes.items() if size is not None}
