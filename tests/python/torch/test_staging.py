"""Buckets on a GPU. Without one, what is done with copies, by copies on the CPU in their place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import _staging, attach, hook, reference_mean, stats  # noqa: E402
from ranks import run_ranks, successes  # noqa: E402
from torch import distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

pytestmark = pytest.mark.timeout(300)

STEPS = 5


class Copied:
    """A bucket whose values come and go only when they are told to, as with those of a GPU."""

    ended: ClassVar[list[tuple[bool, bool, bool]]] = []  #: what held when each future was complete

    def __init__(self, buffer: Any) -> None:
        self.host = torch.full_like(buffer, torch.nan)
        self._device = buffer
        self._is_on_stream = self._is_back = False

    def wait(self) -> None:
        self.host.copy_(self._device)
        self._device.fill_(torch.nan)

    def send_back(self) -> None:
        self._device.copy_(self.host)
        self._is_back = True

    def new_future(self) -> Any:
        future = torch.futures.Future()
        future.add_done_callback(self._note)
        return future

    @contextlib.contextmanager
    def on_stream(self) -> Iterator[None]:
        self._is_on_stream = True
        yield
        self._is_on_stream = False

    def _note(self, future: Any) -> None:
        is_device = future.value() is self._device
        self.ended.append((self._is_back, self._is_on_stream, is_device))


def make_model() -> Any:
    torch.manual_seed(5)
    layers = [nn.Linear(40, 40) for _ in range(5)]
    return DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.01)


def gradients(model: Any, rank: int) -> list[bytes]:
    found = []
    for step in range(STEPS):
        x = torch.randn(8, 40, generator=torch.Generator().manual_seed(100 * step + rank))
        model.zero_grad()
        model(x).pow(2).mean().backward()
        found += [p.grad.numpy().tobytes() for p in model.parameters()]
    return found


def check_copied(rank: int, world: int) -> None:
    """Rank 0 has its gradients where rank 1 has not: its results are the same."""
    for spec in ("lossless", "none", "bf16"):
        plain = make_model()
        attach(plain, spec)
        expected = gradients(plain, rank)
        with pytest.MonkeyPatch.context() as patch:
            if rank == 0:
                patch.setattr(_staging.Staging, "stage", lambda _, index, buffer: Copied(buffer))
            model = make_model()
            state = attach(model, spec)
            assert gradients(model, rank) == expected
            assert state._goes_straight == (spec == "none" and rank != 0)
        assert stats(model).plain_bytes == stats(plain).plain_bytes
        assert len(Copied.ended) == (stats(model).buckets if rank == 0 else 0)
        assert set(Copied.ended) <= {(True, True, True)}
        Copied.ended.clear()


def test_what_comes_back_is_what_was_added() -> None:
    successes(run_ranks(check_copied, 2))


class Bucket:
    def __init__(self, buffer: Any, index: int = 0, is_last: bool = True) -> None:
        self._buffer, self._index, self._is_last = buffer, index, is_last

    def index(self) -> int:
        return self._index

    def buffer(self) -> Any:
        return self._buffer

    def parameters(self) -> list[Any]:
        return [self._buffer]

    def is_last(self) -> bool:
        return self._is_last


def check_refused(rank: int, world: int) -> None:
    state, ddp_hook = hook("lossless")
    with pytest.raises(gradwire.ArgumentError, match=r"bucket 0 is torch\.strided on meta"):
        ddp_hook(state, Bucket(torch.empty(10, device="meta")))


def test_other_devices_are_refused() -> None:
    assert run_ranks(check_refused, 1) == [None]


# --- on a GPU -------------------------------------------------------------------------------------


def check_gpu(rank: int, world: int, spec: str) -> None:
    """Long kernels lie before the buckets and behind them, so that a missing wait would show."""
    device = torch.device("cuda", rank % torch.cuda.device_count())
    state, ddp_hook = hook(spec)
    busy = torch.randn(4096, 4096, device=device)
    buffers = [torch.empty(n, device=device) for n in (3_000_001, 70_000, 5)]
    for step in range(STEPS):
        inputs = [
            [
                torch.randn(b.numel(), generator=torch.Generator().manual_seed(100 * step + 9 * r))
                for b in buffers
            ]
            for r in range(world)
        ]
        futures = []
        for k, buffer in enumerate(buffers):
            values = inputs[rank][k].to(device)
            for _ in range(10):
                busy = (busy @ busy).clamp(-1, 1)
            buffer.copy_(values)
            futures.append(ddp_hook(state, Bucket(buffer, k, k == len(buffers) - 1)))
        for k, future in enumerate(futures):
            found = future.wait().clone()  # behind the copy on this stream
            expected = reference_mean([own[k] for own in inputs], "gloo")
            assert torch.equal(found.cpu(), expected)
    assert state.stats().steps == STEPS


def check_gpu_model(rank: int, world: int, spec: str) -> None:
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.manual_seed(5)
    module = nn.Sequential(*(nn.Linear(200, 200) for _ in range(5))).to(device)
    model = DistributedDataParallel(module, bucket_cap_mb=0.2)
    attach(model, spec)
    for step in range(STEPS):
        x = torch.randn(8, 200, generator=torch.Generator().manual_seed(9 * step + rank)).to(device)
        model.zero_grad()
        with model.no_sync():
            model(x).pow(2).mean().backward()
        own = torch.cat([p.grad.flatten() for p in model.parameters()]).cpu()
        model.zero_grad()
        model(x).pow(2).mean().backward()
        found = torch.cat([p.grad.flatten() for p in model.parameters()]).cpu()
        all_own = [torch.empty_like(own) for _ in range(world)]
        dist.all_gather(all_own, own)
        assert torch.equal(found, reference_mean(all_own, "gloo"))  # of two ranks: in any order


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("spec", ["lossless", "none"])
def test_gradients_on_a_gpu_have_the_bits_of_the_cpu(spec: str) -> None:
    successes(run_ranks(check_gpu, 2, spec))
    successes(run_ranks(check_gpu_model, 2, spec))
