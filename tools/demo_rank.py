"""One rank of the demo's training: each model trained in several ways, step by step in turn.

    tools/demo_rank.py FOLDER RANK RANKS

In: the folder where the ranks meet. Out: FOLDER/RANK.json: model -> way -> what its steps gave.
Assumes: PyTorch, scikit-learn; demo_training.py starts it. Each way has its own copy of the model
and sees the same batches, so that losses can be compared at equal steps.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import demo_models
import gradwire.torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

PLAIN = "plain DDP"
WAYS = (PLAIN, "lossless", "auto")
STEPS = {"digits": 40, "gpt": 30}
TIMEOUT = datetime.timedelta(minutes=5)


@dataclass
class Training:
    """One way to send the gradients of one model, and what its steps gave."""

    ddp: Any
    loss: Any
    optimizer: Any
    generator: Any
    state: Any  #: of gradwire's hook; None for plain DDP
    step_ms: list[float] = field(default_factory=list)
    sent_bytes: list[int] = field(default_factory=list)  #: since the start, by stats()
    losses: list[float] = field(default_factory=list)

    def step(self) -> None:
        dist.barrier()
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = self.loss(self.ddp, self.generator)
        loss.backward()
        self.optimizer.step()
        self.step_ms.append(1e3 * (time.perf_counter() - start))
        self.losses.append(loss.item())
        self.sent_bytes.append(self._sent())

    def _sent(self) -> int:
        gradient_bytes = sum(p.numel() * p.element_size() for p in self.ddp.parameters())
        if self.state is None:  # with 2 ranks an all-reduce sends every byte once
            return gradient_bytes * len(self.step_ms)
        stats = self.state.stats()
        return stats.sent_bytes + stats.plain_bytes

    def report(self) -> dict[str, Any]:
        totals = [0, *self.sent_bytes]
        weights = b"".join(p.detach().numpy().tobytes() for p in self.ddp.parameters())
        return {
            "step_ms": self.step_ms,
            "step_bytes": [after - before for before, after in itertools.pairwise(totals)],
            "losses": self.losses,
            "weights": hashlib.sha256(weights).hexdigest(),
        }


def begin(name: str, way: str, rank: int) -> Training:
    """Make a copy of a model that sends its gradients this way."""
    model, loss = demo_models.make(name)
    ddp = DistributedDataParallel(model)
    state = None if way == PLAIN else gradwire.torch.attach(ddp, way)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    return Training(ddp, loss, optimizer, torch.Generator().manual_seed(1000 + rank), state)


def train(name: str, rank: int) -> dict[str, Any]:
    trainings = {way: begin(name, way, rank) for way in WAYS}
    turns = list(trainings.values())
    for step in range(STEPS[name]):
        for k in range(len(turns)):  # each is first, last and between as often
            turns[(k + step) % len(turns)].step()
    return {way: training.report() for way, training in trainings.items()}


def main(folder: Path, rank: int, ranks: int) -> None:
    torch.set_num_threads(1)
    meeting = f"file://{folder.resolve()}/group"
    dist.init_process_group(
        "gloo", init_method=meeting, rank=rank, world_size=ranks, timeout=TIMEOUT
    )
    reports = {name: train(name, rank) for name in STEPS}
    (folder / f"{rank}.json").write_text(json.dumps(reports))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
