"""Earlier results that the present code would give as well, so that their runs are not made again.

In: results files of study.py. Out: rates tried and records of the groups that are kept. Assumes:
versions of what trains are the file's, else nothing is kept.

A record's key is of all sources of the library: almost every commit changes it, and few change what
a method computes. So a group is kept as long as its method has the same imprint (imprint.py), on
whatever machine its runs were made. Bytes are of the revision at which a run was made: a change
that shows in them alone is not seen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from methods.cache import Record, versions
from methods.train import Job


@dataclass(frozen=True)
class Group:
    """A group of an earlier file."""

    content: dict[str, Any]  #: as in the file, and the machines that its runs may be from
    first: Job
    records: dict[Job, Record]


@dataclass(frozen=True)
class Kept:
    """What is kept of a method on a model."""

    tried: dict[float, float]  #: losses of tuning by rate, infinite for a run that diverged
    records: dict[Job, Record]
    machines: list[dict[str, Any]]  #: that they may be from


_NOTHING = Kept({}, {}, [])


class Former:
    """Groups of earlier files, which wait until their imprints have been compared."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._waiting: dict[Job, list[Group]] = {}
        self._kept: dict[Job, Kept] = {}
        for path in paths:
            for group in _read(path):
                self._waiting.setdefault(_shared(group.first), []).append(group)

    def decide(self, base: Job, label: str, imprint: str | None) -> None:
        """Keep the groups with this imprint, and say what became of each."""
        same = []
        for group in self._waiting.pop(_shared(base), []):
            where, before = f"{label} on {base.model}", group.content.get("imprint")
            if before is None or before != imprint:
                print(f"{where}: made anew: its imprint was {before}, it is {imprint}")
            else:
                same.append(group)
                print(f"{where}: kept, runs: {len(group.records)}")
        if same:
            self._kept[_shared(base)] = _join(same)

    def kept(self, job: Job) -> Kept:
        """What is kept of the method and model of a job."""
        return self._kept.get(_shared(job), _NOTHING)

    def waiting(self) -> list[dict[str, Any]]:
        """Groups that nothing was decided of, as for a results file."""
        return [group.content for groups in self._waiting.values() for group in groups]


def _join(groups: list[Group]) -> Kept:
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
    return Kept(tried, records, machines)


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
            print(f"{path.name}, {where}: not kept: it has no run of seed 0 and fold 0 at its rate")


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
