"""Earlier results that the present code gives as well, so that their runs need not be made again.

In: results files of study.py. Out: rates tried and records of the groups that are kept. Assumes:
what a run gives depends on its job, the code and the versions alone.

A record's key is of all sources of the library: almost every commit changes it, and few change what
a method computes. So the first counted run of an earlier group, seed 0 and fold 0 at the group's
rate, is made again; when it ends the same in all but time, the group is kept. A change that shows
in other seeds, folds or rates alone is not seen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from methods.cache import Cache, Record, versions
from methods.train import Job

#: Fields of a record that are no outcome of its run.
_NO_OUTCOME = ("job", "key", "revision", "reduce_ms", "seconds")
_ABSENT = "absent"


@dataclass(frozen=True)
class Group:
    """A group of an earlier file whose first run can be repeated."""

    content: dict[str, Any]  #: as in the file, and the machines that its runs may be from
    first: Job
    records: dict[Job, Record]


@dataclass(frozen=True)
class Kept:
    """What is kept of a method on a model."""

    tried: dict[float, float]  #: losses of tuning by rate, infinite for a run that diverged
    records: dict[Job, Record]
    machines: list[dict[str, Any]]  #: that they may be from
    repeated_at: str | None  #: the revision at which the first run was made again


_NOTHING = Kept({}, {}, [], None)


class Former:
    """Groups of earlier files, which wait until their first runs have been repeated."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._waiting: dict[Job, list[Group]] = {}
        self._kept: dict[Job, Kept] = {}
        for path in paths:
            for group in _read(path):
                self._waiting.setdefault(_shared(group.first), []).append(group)

    def first_jobs(self, base: Job) -> list[Job]:
        """The runs that must be repeated before decide, one a rate."""
        groups = self._waiting.get(_shared(base), [])
        return list(dict.fromkeys(group.first for group in groups))

    def decide(self, base: Job, label: str, runs: Cache) -> None:
        """Keep the groups whose first runs ended the same, and say what became of each."""
        same, waiting, revision = [], [], ""
        for group in self._waiting.pop(_shared(base), []):
            if (repeated := runs.get(group.first)) is None:
                waiting.append(group)
                continue
            before, where = group.records[group.first], f"{label} on {base.model}"
            if difference := first_difference(before, repeated):
                print(f"{where}: made anew: at {before['revision']} {difference}")
            else:
                same.append(group)
                revision = repeated["revision"]
                print(f"{where}: kept, runs: {len(group.records)}")
        if waiting:
            self._waiting[_shared(base)] = waiting
        if same:
            self._kept[_shared(base)] = _join(same, revision)

    def kept(self, job: Job) -> Kept:
        """What is kept of the method and model of a job."""
        return self._kept.get(_shared(job), _NOTHING)

    def waiting(self) -> list[dict[str, Any]]:
        """Groups that are not decided yet, as for a results file."""
        return [group.content for groups in self._waiting.values() for group in groups]


def first_difference(before: Record, now: Record) -> str | None:
    """Say which field of the outcome is the first to differ, and how; None when all are alike."""
    old, new = dict(_outcome(before)), dict(_outcome(now))
    for name in old | new:
        values = old.get(name, _ABSENT), new.get(name, _ABSENT)
        if values[0] != values[1]:
            return f"{name} was {values[0]}, it is {values[1]}"
    return None


def _outcome(record: Record) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if name not in _NO_OUTCOME:
            yield from _leaves(name, value)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Name a value, or all that is inside it."""
    if not isinstance(value, dict | list):
        yield name, value
        return
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in inside:
        yield from _leaves(f"{name}.{key}", part)


def _join(groups: list[Group], revision: str) -> Kept:
    """The group of most runs, and runs that it lacks of others at its rate."""
    groups = sorted(groups, key=lambda group: len(group.records), reverse=True)
    alike = [group for group in groups if group.first == groups[0].first]
    records: dict[Job, Record] = {}
    for group in alike:
        records = group.records | records
    tried = {
        float(rate): math.inf if loss is None else loss
        for rate, loss in groups[0].content["tried"].items()
    }
    machines = _distinct(machine for group in alike for machine in group.content["machines"])
    return Kept(tried, records, machines, revision)


def _read(path: Path) -> Iterator[Group]:
    results = json.loads(path.read_text())
    made_with = results.get("versions")
    if made_with not in (None, versions()):
        print(f"{path.name}: nothing is kept: made with {made_with}, here are {versions()}")
        return
    made = (
        {**content, "machines": _distinct([*content.get("machines", []), results["machine"]])}
        for content in results["groups"]
    )
    for content in [*made, *results.get("waiting", [])]:
        if group := _group_of(content):
            yield group
        elif content["runs"]:
            where = f"{content['label']} on {content['model']}"
            print(f"{path.name}, {where}: not kept: there is no first run that can be repeated")


def _group_of(content: dict[str, Any]) -> Group | None:
    """None where no run of seed 0 and fold 0 has the group's rate."""
    records = {job: record for record in content["runs"] if (job := _job_of(record))}
    found = (job for job in records if (job.seed, job.fold) == (0, 0))
    first = next((job for job in found if job.rate == content["rate"]), None)
    if first is None:
        return None
    alike = {
        job: record
        for job, record in records.items()
        if replace(job, seed=first.seed, fold=first.fold) == first
    }
    return Group(content, first, alike)


def _job_of(record: Record) -> Job | None:
    """None when jobs had other fields."""
    try:
        return Job(**{**record["job"], "warmup": tuple(record["job"]["warmup"])})
    except TypeError:
        return None


def _shared(job: Job) -> Job:
    """What all jobs of a method on a model share."""
    return replace(job, rate=1.0, seed=0, fold=0)


def _distinct(values: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found
