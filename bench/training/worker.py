"""One rank of the training benchmark: several ways to send gradients, step by step in turn.

In: a job as JSON on the command line, RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. Out: rank 0
prints one line of JSON. Assumes: started by run.py. Each contender has its own copy of the model
and sees the same batches, so that its losses can be compared at equal steps.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import json
import os
import pathlib
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import gradwire.torch
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import models
import replay

_TIMEOUT = datetime.timedelta(minutes=10)
_CAPTURE_STEPS = 20  #: of training before gradients are captured
_AUTO_STEPS = 30  #: in which "auto" has chosen


@dataclass
class Contender:
    """One way to send gradients, and what its steps took."""

    name: str
    ddp: Any
    loss: Any
    optimizer: Any
    state: Any = None
    generator: Any = None
    step_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    wire_bytes: list[int] = field(default_factory=list)  #: that left this rank's interface
    losses: list[float] = field(default_factory=list)
    chosen: dict[str, Any] | None = None  #: by "auto"

    def step(self) -> None:
        self.optimizer.zero_grad()
        loss = self.loss(self.ddp, self.generator)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())


def main() -> None:
    job = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=_TIMEOUT)
    rank = dist.get_rank()
    captured = _capture(job, rank) if job["compute_ms"] is not None else None
    contenders = [_make_chosen(name, job, rank, captured) for name in job["contenders"]]
    _forget_peak()
    for step in range(job["warmup"] + job["steps"]):
        for turn in range(len(contenders)):  # each is first, last and between as often
            _measure(contenders[(turn + step) % len(contenders)])
    if rank == 0:
        print(json.dumps([_report(contender, job["warmup"]) for contender in contenders]))
    dist.barrier()
    dist.destroy_process_group()


def _make(name: str, job: dict[str, Any], rank: int, captured: list[Any] | None) -> Contender:
    if captured is None:
        model, loss = models.make(job["model"], job["numbers"], job["batch"])
    else:
        model = replay.Replay(captured, job["groups"], job["compute_ms"] / 1e3)
        loss = _loss_of_replay
    ddp = DistributedDataParallel(model)
    contender = Contender(name, ddp, loss, torch.optim.SGD(ddp.parameters(), lr=job["lr"]))
    contender.generator = torch.Generator().manual_seed(1000 + rank)
    contender.state = _attach(ddp, name)
    return contender


def _make_chosen(
    name: str, job: dict[str, Any], rank: int, captured: list[Any] | None
) -> Contender:
    """A contender; for "auto" with the choice that a copy of it has made.

    That one trains alone: between steps of others it would take their time for its own.
    """
    contender = _make(name, job, rank, captured)
    if name != "auto":
        return contender
    copy = _make(name, job, rank, captured)
    for _ in range(_AUTO_STEPS):
        copy.step()
    contender.chosen = asdict(copy.state.stats().choice)
    state = {**contender.state.state_dict(), "choice": contender.chosen["spec"]}
    contender.state.load_state_dict(state)
    return contender


def _loss_of_replay(model: Any, _generator: Any) -> Any:
    return model()


def _capture(job: dict[str, Any], rank: int) -> list[Any]:
    """Gradients of one rank after some steps of training on its own, in the job's numbers."""
    generator = torch.Generator().manual_seed(2000 + rank)
    model, loss = models.make(job["model"], "f32", job["batch"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(_CAPTURE_STEPS):
        optimizer.zero_grad()
        loss(model, generator).backward()
        optimizer.step()
    other, loss = models.make(job["model"], job["numbers"], job["batch"])
    other.load_state_dict(model.state_dict())
    loss(other, generator).backward()
    return [parameter.grad for parameter in other.parameters()]


def _attach(ddp: Any, name: str) -> Any:
    if name == "no hook":
        return None
    if name in ("fp16_compress_hook", "allreduce_hook"):
        ddp.register_comm_hook(None, getattr(default_hooks, name))
        return None
    if name == "powerSGD rank 2":
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=2, use_error_feedback=True
        )
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        return None
    spec, _, exchange = name.partition(" ")
    options = {"exchange": exchange} if exchange else {}
    return gradwire.torch.attach(ddp, spec, **options)


def _measure(contender: Contender) -> None:
    dist.barrier()
    sent, cpu, start = _sent_bytes(), time.process_time(), time.perf_counter()
    contender.step()
    contender.step_ms.append(1e3 * (time.perf_counter() - start))
    contender.cpu_ms.append(1e3 * (time.process_time() - cpu))
    contender.wire_bytes.append(_sent_bytes() - sent)


def _sent_bytes() -> int:
    path = f"/sys/class/net/{os.environ['GLOO_SOCKET_IFNAME']}/statistics/tx_bytes"
    return int(pathlib.Path(path).read_text())


def _report(contender: Contender, warmup: int) -> dict[str, Any]:
    step_ms = contender.step_ms[warmup:]
    report: dict[str, Any] = {
        "name": contender.name,
        "gradient_bytes": sum(p.numel() * p.element_size() for p in contender.ddp.parameters()),
        "step_ms": _quantiles(step_ms),
        "cpu_ms": statistics.median(contender.cpu_ms[warmup:]),
        "wire_bytes": statistics.median(contender.wire_bytes[warmup:]),
        "losses": contender.losses,
        "largest_bucket_bytes": _largest_bucket_bytes(contender.ddp),
        "peak_bytes": _peak_bytes(),
    }
    if contender.chosen is not None:
        report["chosen"] = contender.chosen
    if contender.state is not None:
        stats = contender.state.stats()
        report["stats"] = asdict(stats)
    return report


def _forget_peak() -> None:
    """From here on the peak of resident memory counts; what has been freed goes back first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def _peak_bytes() -> int:
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _largest_bucket_bytes(ddp: Any) -> int:
    """Of the buckets as DDP has made them anew after the first step."""
    logged = ddp._get_ddp_logging_data()
    sizes = logged.get("rebuilt_bucket_sizes") or logged["bucket_sizes"]
    return max(map(int, str(sizes).split(",")))


def _quantiles(values: list[float]) -> dict[str, float]:
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    return {"p10": tenths[0], "median": statistics.median(values), "p90": tenths[-1]}


if __name__ == "__main__":
    main()
