"""Compress gradients, restore them, compare the bytes: the Python package from end to end."""

from __future__ import annotations

import tempfile
from pathlib import Path

import gradwire
import ml_dtypes
import numpy as np


def make_gradients() -> dict[str, np.ndarray]:
    """Something like gradients: each row of a matrix has a scale of its own."""
    random = np.random.default_rng(1)
    scale = 1e-3 / (1 + np.arange(256) % 17)[:, None]
    weight = (scale * random.normal(size=(256, 512))).astype(np.float32)
    return {
        "layer.weight": weight,
        "layer.bias": weight[:, 0].copy(),
        "layer.weight.bf16": weight.astype(ml_dtypes.bfloat16),
    }


def main() -> None:
    gradients = make_gradients()

    weight = gradients["layer.weight"]
    frame = gradwire.compress(weight, level=2)
    restored = gradwire.decompress(frame)
    assert restored.tobytes() == weight.tobytes()
    print(f"one tensor: {weight.nbytes} bytes in {len(frame)}, every bit came back")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gradients.gw"
        gradwire.save(gradients, path, level=3)
        with gradwire.open(path) as file:
            for name, tensor in file.items():
                found = file.info(name)
                assert tensor[2:4].tobytes() == gradients[name][2:4].tobytes()
                print(
                    f"{name}: {tensor.dtype} {tensor.shape}, {found.size_fraction:.3f} of its size"
                )


if __name__ == "__main__":
    main()
