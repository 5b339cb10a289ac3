"""Buckets on a GPU: copied to pinned memory, added there and copied back, on a stream of their own.

In: a bucket, filled by the current stream. Out: its values in pinned memory; later its mean on the
GPU, and a stream that is done when it is there. Assumes: CUDA, or ROCm under its name.

Not run on a GPU yet. It rests on what ``torch.futures.Future`` says of ``devices``: a future notes
the stream that is current where it is completed, and whoever waits for it makes the own stream wait
for that one.
"""

from __future__ import annotations

from typing import Any

import torch

from gradwire.errors import ArgumentError


class Staged:
    """One bucket of one step; the copy to pinned memory begins when this is made."""

    def __init__(self, buffer: Any, host: Any, stream: Any) -> None:
        self.host = host  #: pinned, as long as the bucket; to be read after ``wait``
        self._buffer = buffer
        self._stream = stream
        stream.wait_stream(torch.cuda.current_stream(buffer.device))
        with self.on_stream():
            host.copy_(buffer, non_blocking=True)
            self._is_there = stream.record_event()
        buffer.record_stream(stream)  # DDP may drop it, after a failure while copies are under way

    def wait(self) -> None:
        """Wait until all values are in ``host``, and so until the GPU has come that far."""
        self._is_there.synchronize()

    def send_back(self) -> None:
        """Begin the copy to the GPU; ``host`` is left alone until the bucket's next step."""
        with self.on_stream():
            self._buffer.copy_(self.host, non_blocking=True)

    def new_future(self) -> Any:
        """A future that is completed with ``on_stream``, after ``send_back``."""
        return torch.futures.Future(devices=[self._buffer.device])

    def on_stream(self) -> Any:
        """A context in which the current stream is the one of the copies."""
        return torch.cuda.stream(self._stream)


class Staging:
    """Pinned memory, as much as there are gradients, and a stream for each GPU."""

    def __init__(self) -> None:
        self._hosts: dict[int, Any] = {}
        self._streams: dict[Any, Any] = {}

    def stage(self, index: int, buffer: Any) -> Staged | None:
        """Begin to copy a bucket to the CPU; None for one that is there.

        Raises ArgumentError for another device and for sparse gradients on a GPU.
        """
        if buffer.device.type == "cpu":
            return None
        if buffer.device.type != "cuda" or buffer.layout != torch.strided:
            raise ArgumentError(
                f"bucket {index} is {buffer.layout} on {buffer.device}: only gradients on the CPU "
                "and dense ones on a CUDA device can be sent"
            )
        host = self._hosts.get(index)
        if host is None or (host.dtype, host.numel()) != (buffer.dtype, buffer.numel()):
            host = torch.empty(buffer.numel(), dtype=buffer.dtype, pin_memory=True)
            self._hosts[index] = host
        return Staged(buffer, host, self._stream_of(buffer.device))

    def _stream_of(self, device: Any) -> Any:
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        return self._streams[device]
