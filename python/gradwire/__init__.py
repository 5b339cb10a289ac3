"""Compression of gradients and other neural network tensors: lossless, or by lossy methods.

>>> import gradwire, numpy as np
>>> gradient = np.random.default_rng(1).normal(0, 1e-3, (64, 256)).astype(np.float32)
>>> frame = gradwire.compress(gradient, level=2)
>>> restored = gradwire.decompress(frame)
>>> restored.tobytes() == gradient.tobytes()
True

One tensor: ``compress``, ``decompress``, ``info``, ``compress_lossy``; many: ``compress_batch``,
``decompress_batch``; files: ``save``, ``load``, ``open``; in a loop: ``Compressor``,
``Decompressor``. All errors are ``GradwireError``.
"""

from gradwire._archives import (
    compress_batch,
    decompress_batch,
    info_batch,
    load,
    open,
    save,
)
from gradwire._codec import (
    TensorInfo,
    compress,
    compress_bound,
    decompress,
    info,
    lossless_methods,
    order0_bound,
    zero_share,
)
from gradwire._contexts import Compressor, Decompressor
from gradwire._core import version as _version
from gradwire._lazy import Archive, LazyTensor
from gradwire._lossy import LossyReport, compress_lossy, lossy_methods
from gradwire.errors import (
    ArgumentError,
    CorruptError,
    FileError,
    GradwireError,
    LimitError,
    TransportError,
    TruncatedError,
    UnsupportedError,
)

__version__ = _version()

__all__ = [
    "Archive",
    "ArgumentError",
    "Compressor",
    "CorruptError",
    "Decompressor",
    "FileError",
    "GradwireError",
    "LazyTensor",
    "LimitError",
    "LossyReport",
    "TensorInfo",
    "TransportError",
    "TruncatedError",
    "UnsupportedError",
    "__version__",
    "compress",
    "compress_batch",
    "compress_bound",
    "compress_lossy",
    "decompress",
    "decompress_batch",
    "info",
    "info_batch",
    "load",
    "lossless_methods",
    "lossy_methods",
    "open",
    "order0_bound",
    "save",
    "zero_share",
]
