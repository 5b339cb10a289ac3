"""What the communication thread does, and what watches over it.

In: jobs, first in first out. Out: each job run once, in order, on one thread. Assumes: all ranks
submit the same jobs in the same order, as DDP hands over its buckets.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch

from gradwire.torch._staging import Staging

_WATCH_S = 0.25


class Job:
    """One bucket on its way, and the future that DDP waits for."""

    def __init__(self, bucket: Any, staging: Staging) -> None:
        """bucket: a ``GradBucket``. Raises ArgumentError where it lies on a device without help."""
        self.index: int = bucket.index()
        self.parameters: list[Any] = bucket.parameters()
        self.is_last: bool = bucket.is_last()
        self._result = bucket.buffer()
        self._staged = staging.stage(self.index, self._result)
        self.buffer = self._result if self._staged is None else self._staged.host  #: on the CPU
        self.came = time.monotonic()  #: there, if it is not staged
        self._lock = threading.Lock()
        self._is_open = True
        staged = self._staged
        self._inner: Any = torch.futures.Future() if staged is None else staged.new_future()
        # DDP casts an exception that is set on a future to a tensor and loses its text; one that a
        # callback raises reaches the caller of backward().
        self.future: Any = self._inner.then(_value_or_raise)

    @property
    def is_staged(self) -> bool:
        """Tell whether ``buffer`` is a copy, to be filled by ``fetch``."""
        return self._staged is not None

    def fetch(self) -> None:
        """Wait until the values are in ``buffer``."""
        if self._staged is not None:
            self._staged.wait()
            self.came = time.monotonic()

    def give_back(self) -> None:
        """Take what is in ``buffer`` for the result."""
        if self._staged is not None:
            self._staged.send_back()

    def finish(self, error: Exception | None) -> None:
        """Complete the future, unless that has been done."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
        if error is not None:
            self._inner.set_exception(error)
            return
        with contextlib.nullcontext() if self._staged is None else self._staged.on_stream():
            self._inner.set_result(self._result)


def _value_or_raise(future: Any) -> Any:
    return future.value()


class Fifo:
    """A thread that runs jobs one after the other; it starts with the first one."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=_run_jobs, args=(self._queue,), name="gradwire-exchange", daemon=True
            )
            self._thread.start()
            weakref.finalize(self, self._queue.put, None)
        self._queue.put(job)

    def close(self) -> None:
        """End the thread once it has run what was submitted."""
        self._queue.put(None)


def _run_jobs(jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # it holds a bucket


class Watched(Protocol):
    """What the watch looks after."""

    def check_open_futures(self) -> bool:
        """Fail futures that are overdue; False when there is nothing left to watch."""
        ...


class Watch:
    """Calls ``check_open_futures`` every quarter of a second while there is something to watch."""

    def __init__(self, watched: Watched) -> None:
        self._watched = weakref.ref(watched)
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Begin to watch; cheap when that is being done."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=_watch, args=(self._watched, self._wake), name="gradwire-watch", daemon=True
            )
            self._thread.start()
            weakref.finalize(self, self._wake.set)
        self._wake.set()


def _watch(reference: weakref.ref[Watched], wake: threading.Event) -> None:
    pause = threading.Event()
    while True:
        wake.wait()
        pause.wait(_WATCH_S)
        watched = reference()
        if watched is None:
            return
        wake.clear()
        if watched.check_open_futures():
            wake.set()
        del watched
