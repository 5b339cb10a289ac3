"""Run a function on several ranks: real processes, one Gloo group, results back to the test.

In: a function of a test file, as (rank, world, *arguments) -> picklable. Out: what each rank
returned, or the ``Failure`` that it raised. Assumes: PyTorch with torch.distributed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

# Both are far above what a loaded machine needs: they end what hangs, and no test waits for them.
GROUP_TIMEOUT_S = 100.0
LIMIT_S = 120.0


@dataclass
class Failure:
    """An exception of a rank; ``kind`` is "killed" for one that sent nothing."""

    kind: str
    message: str
    trace: str = ""


def run_ranks(
    worker: Callable[..., Any],
    world: int,
    *arguments: Any,
    group_timeout_s: float = GROUP_TIMEOUT_S,
    limit_s: float = LIMIT_S,
) -> list[Any]:
    """Return what ``worker`` gave on each rank, Failure objects among it.

    A rank that has not ended ``limit_s`` seconds after the start is killed: "hung".
    """
    # A server that has imported torch once forks the ranks: they start in milliseconds. (DDP and
    # optimizers import _dynamo, which takes longer than all the rest; FSDP is slow to import too.)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gradwire.torch", "torch._dynamo", "torch.distributed.fsdp"])
    path, name = worker.__code__.co_filename, worker.__name__
    port = _free_port()
    ranks = []
    for rank in range(world):
        ours, theirs = context.Pipe()
        place = (path, name, rank, world, port, group_timeout_s)
        process = context.Process(target=_run, args=(theirs, place, arguments), daemon=True)
        process.start()
        theirs.close()
        ranks.append((process, ours))
    deadline = time.monotonic() + limit_s
    return [_result(process, connection, deadline) for process, connection in ranks]


def successes(results: list[Any]) -> list[Any]:
    """Return the results, or fail with the first rank's exception."""
    for rank, result in enumerate(results):
        if isinstance(result, Failure):
            raise AssertionError(
                f"rank {rank}: {result.kind}: {result.message}\n{result.trace}"
            ) from None
    return results


def _result(process: Any, connection: Connection, deadline: float) -> Any:
    try:
        if not connection.poll(max(deadline - time.monotonic(), 0.0)):
            return Failure("hung", "no result within the limit")
        return connection.recv()
    except EOFError:
        return Failure("killed", "the process ended without a result")
    finally:
        process.join(5)
        if process.is_alive():
            process.kill()


def _run(connection: Connection, place: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
    path, name, rank, world, port, timeout_s = place
    try:
        result = _run_worker(path, name, rank, world, port, timeout_s, arguments)
    except BaseException as error:
        result = Failure(type(error).__name__, str(error), traceback.format_exc())
    connection.send(result)
    connection.close()
    os._exit(0)  # threads of a group that has failed must not keep the process


def _run_worker(
    path: str,
    name: str,
    rank: int,
    world: int,
    port: int,
    timeout_s: float,
    arguments: tuple[Any, ...],
) -> Any:
    import torch
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    torch.manual_seed(1234)
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=timeout_s),
    )
    try:
        return getattr(_load(path), name)(rank, world, *arguments)
    finally:
        with contextlib.suppress(Exception):
            dist.destroy_process_group()


def _load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("worker_file", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port
