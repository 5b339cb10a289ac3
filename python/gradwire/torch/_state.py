"""The state of one hook: its group, its thread, its buckets, its first failure.

In: buckets, as DDP hands them over. Out: futures of their means. Assumes: one DDP model a state.
After a failure its cause goes to every rank, and later steps are refused: until ``reset`` where all
ranks have ended the step in order, for good where one of them could not.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import torch
import torch.distributed as dist

from gradwire import _core
from gradwire.dtypes import parse_dtype
from gradwire.errors import ArgumentError, GradwireError, TransportError
from gradwire.torch._agreement import DisagreementError
from gradwire.torch._buckets import Buckets, can_be_coded
from gradwire.torch._jobs import Fifo, Job, Watch
from gradwire.torch._keeping import Keeping
from gradwire.torch._kinds import KINDS, TRANSPORT, kind_of, verdict_of, verdict_text
from gradwire.torch._layout import Layout
from gradwire.torch._lossy import LossyMeans
from gradwire.torch._names import Names
from gradwire.torch._options import Options
from gradwire.torch._peers import Peers, lost_peers
from gradwire.torch._staging import Staging
from gradwire.torch._stats import Counters
from gradwire.torch._straight import Arrival, Straight, divide
from gradwire.torch._transport import CollectiveError, Transport
from gradwire.torch._tuner import Tuner

_CASTABLE = {torch.float32, torch.float64}


class HookState(Keeping):
    """What a hook keeps between steps; ``error``: why steps are refused, or None.

    Made by ``hook`` and ``attach``, not by hand.
    """

    def __init__(self, options: Options, peers: Peers, names: Names) -> None:
        spec = options.spec
        self.options = options
        self.error: GradwireError | None = None
        self._peers = peers
        self._transport = Transport(peers, self._note_progress)
        self._counters = Counters()
        self._fifo = Fifo()
        self._watch = Watch(self)
        self._lock = threading.Lock()
        self._open: list[Job] = []
        self._progress = time.monotonic()
        self._is_dead = False  # no more collectives can be made; error is set before
        self._has_failed = False  # in a step that has ended, in order unless this rank is dead
        self._step = 0
        self._next_index = 0
        lossy = LossyMeans(spec.text, self._transport) if spec.is_lossy else None
        self._lossy = lossy
        self._buckets = Buckets(options, peers, names, lossy)
        self._staging = Staging()
        self._tuner = Tuner(options, peers.rank, peers.world)
        self._straight = Straight(self._transport, self._take_arrival)
        self._goes_straight = False  # the step, up to now

    # --- for users ------------------------------------------------------------------------------

    def reset(self) -> None:
        """Go on after a step that has failed, from the next backward pass on.

        All ranks call it, after ``backward()`` has raised on all of them; it does not communicate.
        No gradient of the failed step is valid: zero them and repeat the step. Without a failure it
        changes nothing. Raises TransportError where a rank could not end the step in order (it has
        died, or has lost track of a peer): then only a new process group helps.
        """
        if self.error is None:
            return
        if not self._has_failed or self._is_dead:
            raise TransportError(f"the exchanges of this hook have ended for good: {self.error}")
        self._buckets.reset()
        self._peers.forget_failures()
        self._has_failed = False
        self.error = None

    def close(self) -> None:
        """End the communication thread, not the process group. Later buckets are refused."""
        if self.error is None:
            self.error = TransportError("the hook's state has been closed")
        self._is_dead = True
        self._fifo.close()

    # --- for DDP, on the thread of the backward pass ----------------------------------------------

    def reduce(self, bucket: Any) -> Any:
        """Take a bucket over; returns the future of its mean, which lies in the bucket's memory."""
        try:
            job = self._accept(bucket)
            is_straight = self._may_go_straight(job)
        except Exception as error:
            self._die(error)
            raise
        if self._has_failed or self._is_dead:  # not raised: DDP could not end its backward pass
            job.finish(self._final_error())
            return job.future
        with self._lock:
            self._open.append(job)
            if len(self._open) == 1:
                self._progress = time.monotonic()
        self._watch.wake()
        if is_straight:
            self._post(job)
        else:
            self._fifo.submit(lambda: self._run(job))
        return job.future

    def _accept(self, bucket: Any) -> Job:
        if isinstance(bucket, tuple):
            raise ArgumentError(
                "the hook got one gradient instead of a bucket: torch._dynamo.config.optimize_ddp="
                "'python_reducer' does not run DDP hooks; choose 'ddp_optimizer'"
            )
        job = Job(bucket, self._staging)
        is_early = job.index == 0 and bool(self._open)
        if (job.index != self._next_index or is_early) and self.error is None:
            due = "the end of a step" if is_early else f"bucket {self._next_index}"
            raise TransportError(
                f"bucket {job.index} came where {due} was due: an earlier backward pass "
                "was cut short, and the ranks are not at the same place any more"
            )
        self._next_index = 0 if job.is_last else job.index + 1
        return job

    def _may_go_straight(self, job: Job) -> bool:
        """Tell whether this thread begins the bucket's collective, the same on all ranks.

        Two threads must not begin collectives by turns: their order would differ on the ranks. So
        the other thread takes over when a bucket is new, and keeps the rest of the step. A step
        begins when the one before has completed its futures, and so made its collectives.
        """
        if job.index == 0:
            self._goes_straight = self._tuner.spec.is_plain
        self._goes_straight &= not job.is_staged  # its values are to come yet
        if self._goes_straight:
            self._goes_straight = self._buckets.is_known(self._buckets.layout(job, job.buffer))
        return self._goes_straight

    def _post(self, job: Job) -> None:
        try:
            self._offer(job, job.buffer)
            self._straight.post(job)
        except Exception as error:  # the future tells it, with those that are under way
            self._die(error, self._place(job))

    # --- on Gloo's threads ------------------------------------------------------------------------

    def _take_arrival(self, arrival: Arrival) -> None:
        """Note a bucket that went straight; the last one that comes ends the step."""
        job, error = arrival.job, arrival.error
        if error is not None:  # what follows may take time, and ends this thread's group
            place = self._place(job)
            self._fifo.submit(lambda: self._die(error, place))
            return
        self._note_progress()
        self._counters.add_plain(arrival.size, arrival.seconds)
        with self._lock:
            self._tuner.note_bucket(job.came, arrival.seconds)
        if not arrival.is_end:
            self._finish(job)
        elif self._tuner.is_measuring:  # ranks join numbers, which takes a collective
            self._fifo.submit(lambda: self._end(job, is_end=True))
        else:
            self._end(job, is_end=True)

    # --- on the communication thread --------------------------------------------------------------

    def _run(self, job: Job) -> None:
        try:
            if not self._is_dead:
                job.fetch()
                self._note_progress()
                began = time.monotonic()
                self._reduce_bucket(job)
                self._tuner.note_bucket(job.came, time.monotonic() - began)
                job.give_back()
        except BaseException as error:  # nothing may end the thread with futures open
            self._die(error, self._place(job))
        self._end(job, job.is_last)

    def _end(self, job: Job, is_end: bool) -> None:
        """Complete the future of a bucket that has been added; is_end: and the step before it."""
        try:
            if is_end and not self._is_dead:
                self._end_step()
        except BaseException as error:
            self._die(error, self._place(job))
        if self.error is None:
            self._finish(job)
        elif self._is_dead or is_end:  # until then more may become known of the cause
            self._has_failed = True
            self._fail_open_futures()

    def _reduce_bucket(self, job: Job) -> None:
        if self._lossy is not None and job.index == 0:
            error = self._lossy.begin_step()
            if error is not None:
                self._fail(error)
        spec = self._tuner.spec
        cast = getattr(torch, spec.cast) if spec.cast else None
        is_dense = job.buffer.layout == torch.strided
        if is_dense and cast is not None and job.buffer.dtype in _CASTABLE:
            narrow = job.buffer.to(cast)
            self._reduce_buffer(job, narrow)
            job.buffer.copy_(narrow)
        else:
            self._reduce_buffer(job, job.buffer)

    def _reduce_buffer(self, job: Job, buffer: Any) -> None:
        layout = self._settle_layout(job, buffer)
        self._offer(job, buffer)
        if can_be_coded(buffer) and self._tuner.spec.method:
            self._exchange(layout, buffer)
        else:
            self._reduce_plainly(buffer)

    def _offer(self, job: Job, buffer: Any) -> None:
        if self._tuner.is_gate and can_be_coded(buffer):
            self._tuner.offer(self._buckets.layout(job, buffer), buffer)

    def _reduce_plainly(self, buffer: Any) -> None:
        size = divide(buffer, self._peers.world)
        if size:
            self._transport.all_reduce(buffer)
        self._counters.add_plain(size, self._transport.take_wait_s())

    def _settle_layout(self, job: Job, buffer: Any) -> Layout:
        """Compare how a bucket lies, over all ranks, when it is new or DDP has rebuilt it.

        Collectives of unequal lengths would end in an abort of Gloo's, or hang.
        """
        layout = self._buckets.layout(job, buffer)
        if self._buckets.is_known(layout):
            return layout
        difference = self._transport.compare([*layout.lines(), *self._tuner.lines()])
        if difference is not None:
            raise DisagreementError(
                f"{self._place(job)}: the ranks' models differ, or how DDP cuts "
                f"them into buckets: {difference}"
            )
        self._buckets.learn(layout)
        return layout

    def _exchange(self, layout: Layout, buffer: Any) -> None:
        data = buffer.view(torch.uint8).numpy()
        dtype = parse_dtype(buffer.dtype)
        exchange = self._buckets.exchange(self._tuner.spec, layout, dtype, data, self._step)
        if self.error is not None:
            exchange.cancel(kind_of(self.error), str(self.error))
        self._transport.run(exchange)
        waited_s = self._transport.take_wait_s()
        self._counters.add_exchange(exchange.stats(), waited_s, self.options.labels())
        self._judge(exchange)

    def _judge(self, exchange: _core.Exchange) -> None:
        error = exchange.error()
        if error is None:
            return
        kind, _, message = error
        is_told = kind == TRANSPORT and not exchange.lost()  # the peer publishes the cause
        self._fail(KINDS[kind](message), publish=not is_told)
        if exchange.lost():
            self._die(self.error)

    def _end_step(self) -> None:
        """End a step, after an exchange only where all ranks could decode everything."""
        numbers = self._tuner.numbers()
        ended = time.monotonic()
        verdict = 0
        if self._tuner.spec.method or numbers:
            verdict, *numbers = self._join_verdicts(numbers)
        if self._lossy is not None:
            self._lossy.end_step(applied=verdict == 0)
        self._tuner.end_step(numbers, ended, verdict != 0)
        self._step += 1
        self._counters.add_step()

    def _join_verdicts(self, numbers: list[int]) -> list[int]:
        """Return the largest numbers of all ranks, behind the verdict: 0 if all is well."""
        own = verdict_of(self.error, self._peers.rank)
        facts = self._lossy.numbers() if self._lossy is not None else []
        tensor = torch.tensor([own, *facts, *numbers], dtype=torch.int64)
        self._transport.all_reduce(tensor, dist.ReduceOp.MAX)
        self._transport.take_wait_s()
        verdict, *joined = (int(number) for number in tensor)
        self._take_verdict(verdict)
        if self._lossy is not None and self.error is None:
            self.error = self._lossy.difference(joined)
            verdict = verdict or int(self.error is not None)
        return [verdict, *joined[len(facts) :]]

    def _take_verdict(self, verdict: int) -> None:
        if not verdict or type(self.error) not in (type(None), TransportError):
            return
        said = [self._peers.causes() or verdict_text(verdict)]
        if self.error is not None:
            said.append(str(self.error))
        self.error = TransportError(f"step {self._step}: {'; '.join(said)}")

    # --- failures ---------------------------------------------------------------------------------

    def _place(self, job: Job) -> str:
        return f"step {self._step}, bucket {job.index}"

    def _note_progress(self) -> None:
        self._progress = time.monotonic()

    def _fail(self, error: GradwireError, *, publish: bool = True) -> None:
        """Note the first failure and tell the others its cause; collectives go on."""
        with self._lock:
            if self.error is not None:
                return
            self.error = error
        if publish:
            self._peers.publish(f"{type(error).__name__}: {error}")

    def _die(self, error: BaseException | None, where: str = "") -> None:
        """Give up the group: this rank cannot make the collectives that the others wait for."""
        self._note_end(error, where)
        with self._lock:  # after the error: whoever sees a dead state must find its error
            is_first, self._is_dead = not self._is_dead, True
        if not is_first:
            return
        self._fail_open_futures()
        if not isinstance(error, DisagreementError):  # which all ranks know: nobody waits
            self._peers.leave()

    def _note_end(self, error: BaseException | None, where: str) -> None:
        if isinstance(error, GradwireError):
            self._fail(error, publish=not isinstance(error, DisagreementError))
        elif isinstance(error, CollectiveError):
            causes = self._peers.causes()
            self._fail(lost_peers(where, str(error), causes), publish=not causes)
        else:
            self._fail(TransportError(f"{where}: {type(error).__name__}: {error}"))

    def _final_error(self) -> GradwireError:
        error = self.error
        if error is None:  # another thread is about to say why
            error = TransportError(f"step {self._step}: the exchange has failed")
        return type(error)(f"rank {self._peers.rank}: {error}; no gradient of this step is valid")

    def _finish(self, job: Job) -> None:
        with self._lock:
            if job in self._open:
                self._open.remove(job)
        job.finish(None)

    def _fail_open_futures(self) -> None:
        with self._lock:
            jobs, self._open = self._open, []
            error = self._final_error()  # now: whoever gets it may call reset() at once
        for job in jobs:
            job.finish(error)

    def check_open_futures(self) -> bool:
        """Fail futures that are overdue or whose peers have left; called by the watch."""
        with self._lock:
            if not self._open:
                return False
        if self._is_dead:
            if self.error is None:
                return True  # another thread is about to say why
            self._fail_open_futures()
            return False
        limit = self._peers.timeout.total_seconds()
        waited = time.monotonic() - self._progress
        if waited > 1.0 and self._peers.has_a_rank_left():
            causes = self._peers.causes()
            self._fail(lost_peers(f"step {self._step}", "no progress", causes), publish=False)
            self._die(self.error)
        elif waited > limit + min(5.0, limit / 4):  # the collectives' own time-out comes first
            self._die(TransportError(f"step {self._step}: no progress for {waited:.1f} s"))
        return True
