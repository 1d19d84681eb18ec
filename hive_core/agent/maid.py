"""The built-in maid checks agents and host, reaps zombies, and reports to its parent.

A finding is a figure beyond a bound. The maid compares memory and disk of the host with their usual
values, which survive restarts. Children of the maid run the checks of the operator (checks.py). The
maid has no special rights: `survey` and `reap_zombies` apply to the descendants of its parent.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, Never

from hive_core.agent.checks import Checks
from hive_core.agent.reconnect import Link
from hive_core.agent.serve import run_until_stop
from hive_core.errors import HiveError

REPORT: Final = "maid/health-report"
KIND: Final = "health"
POLL: Final = 50
KEPT: Final = 240  # samples
FEW: Final = 5  # fewer samples are not a baseline
ABOVE: Final = 0.2  # of all there is: more than usual
FULL: Final = 0.9  # of all there is: too much, whatever is usual
KEEP_EVERY: Final = 10  # looks
_BODY_MOST: Final = 60_000
_SNAPSHOT_MOST: Final = 64 << 10  # bytes that the daemon keeps
_TOLD_MOST: Final = 200
_FAULT: Final = 5.0
_UNWELL: Final = frozenset({"failed", "parked", "degraded"})


class HostUsage(NamedTuple):
    """Used shares of the resources of the host."""

    memory: float
    disk: float


class MaidFinding(NamedTuple):
    """A finding about one subject; `text` is for people."""

    kind: str
    subject: str
    text: str


def host_usage(meminfo: Path = Path("/proc/meminfo"), disk: str = "/") -> HostUsage:
    """Memory of the host, and the disk of this container."""
    lines = (line.split() for line in meminfo.read_text().splitlines())
    meminfo_values = {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) > 1}
    total, free = meminfo_values.get("MemTotal", 0), meminfo_values.get("MemAvailable", 0)
    room = os.statvfs(disk)
    return HostUsage(
        round(1 - free / total, 4) if total else 0.0,
        round(1 - room.f_bavail / room.f_blocks, 4) if room.f_blocks else 0.0,
    )


def agent_findings(
    rows: list[dict[str, Any]], left_overs: list[str], quiet: float
) -> Iterator[MaidFinding]:
    """Findings about agents and about orphaned files on the host."""
    for row in rows:
        name = str(row["name"])
        if row["ended_at"] is not None:
            yield MaidFinding("zombie", name, f"{name} ended, and its parent has not asked how")
        elif row["state"] in _UNWELL:
            yield MaidFinding("unwell", name, f"{name} is {row['state']}")
        if row["orphan"]:
            yield MaidFinding(
                "orphan", name, f"{name} runs, and its parent {row['parent']} does not"
            )
        if (row["quiet"] or 0) >= quiet:
            yield MaidFinding(
                "stuck", name, f"{name} has not reported on its task for {row['quiet']:.0f} s"
            )
        if (row["unanswered"] or 0) >= quiet:
            waited = f"a question has waited on {name} for {row['unanswered']:.0f} s"
            yield MaidFinding("unanswered", name, waited)
    for left_over in left_overs:
        yield MaidFinding(
            "left-over", left_over, f"orphaned, or in an unexpected state: {left_over}"
        )


def usage_findings(now: HostUsage, before: list[HostUsage]) -> Iterator[MaidFinding]:
    """Findings about memory and disk: nearly full, or far more used than usual."""
    for name in HostUsage._fields:
        share, known = getattr(now, name), [getattr(sample, name) for sample in before]
        usual = median(known) if len(known) >= FEW else None
        if share >= FULL:
            yield MaidFinding(name, "full", f"{name}: {share:.0%} in use")
        elif usual is not None and share >= usual + ABOVE:
            yield MaidFinding(name, "unusual", f"{name}: {share:.0%} in use, usually {usual:.0%}")


@dataclass
class MaidAgent:
    """The maid. `clock` does not jump when the host's time is set; `now` is that time."""

    link: Link
    measure: Callable[[], HostUsage] = host_usage
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    samples: list[HostUsage] = field(default_factory=list)
    reported: set[tuple[str, str]] = field(default_factory=set)
    looks: int = 0
    every: float = 60.0
    saved: bool = True

    def __post_init__(self) -> None:
        self.checks = Checks(self.link, self.save, self.clock, self.now, say)

    def forever(self) -> Never:
        """Look early after the start, to notice an overloaded host soon, then at intervals."""
        self.restore()
        pause = self._until_it_works(self._first_pause)
        while True:
            self._until_it_works(lambda pause=pause: self.wait(pause))  # type: ignore[misc]
            pause = self.try_look()

    def try_look(self) -> float:
        """Look, and return the seconds until the next look; it is soon after a refusal."""
        try:
            self.look()
        except HiveError as error:
            say(f"cannot check the agents: {error.reason}")
            return _FAULT
        return self.every

    def _first_pause(self) -> float:
        return float(self.link.ask("survey", limit=1)["first"])  # type: ignore[arg-type]

    def _until_it_works(self, act: Callable[[], Any]) -> Any:  # noqa: ANN401 - what it gives
        """Repeat an action until it succeeds: the daemon may be away, or refuse for a while."""
        while True:
            try:
                return act()
            except HiveError as error:
                say(f"cannot continue: {error.reason}")
                time.sleep(_FAULT)

    def wait(self, seconds: float) -> None:
        """Wait for this number of seconds, or until a check changes its state.

        An ancestor or the operator gets a report in answer to any message.
        """
        until = self.clock() + seconds
        while not self.checks.step() and (left := until - self.clock()) > 0:
            wait = min(left, POLL, self.checks.pause())
            reply = self.link.ask("recv", wait=wait, max=10)
            for letter in list_of(reply, "messages"):
                self.link.change("ack", ids=[letter["id"]])
                if letter["relation"] in ("parent", "ancestor", "operator"):
                    body = report_text(self.findings(), (), list(self.checks.report_lines()))
                    self.link.change("send", to=letter["from"], body=body, reply_to=letter["id"])

    def restore(self) -> None:
        """Read the saved state: usual values, and reported findings."""
        with suppress(HiveError, ValueError, TypeError, KeyError):
            state = json.loads(str(self.link.ask("get_snapshot").get("data") or "{}"))
            self.samples = [HostUsage(*sample) for sample in state["samples"]]
            self.reported = {(kind, subject) for kind, subject in state["told"]}
            self.checks.restore(state.get("checks", {}), state.get("runs", {}))

    def save(self) -> None:
        """Save the state for the next start."""
        self.link.change("keep_snapshot", data=self._snapshot())

    def _snapshot(self) -> str:
        """The saved state as text, cut to what fits.

        The output of checks is dropped first, then the reported findings, which are then reported
        again.
        """
        text = ""
        for said, most in ((True, _TOLD_MOST), (False, _TOLD_MOST), (False, 0)):
            data = {
                "samples": self.samples[-KEPT:], "told": sorted(self.reported)[:most],
                "checks": self.checks.saved_states(said=said), "runs": self.checks.saved_runs(),
            }  # fmt: skip
            # The daemon counts UTF-8, in which most characters are shorter than escaped.
            text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
            if len(text.encode(errors="replace")) <= _SNAPSHOT_MOST:
                break
        return text

    def _try_save(self) -> None:
        """Save the state; after a refusal the next round tries again."""
        self.saved = False
        try:
            self.save()
        except HiveError as error:
            say(f"cannot save the state: {error.reason}")
        else:
            self.saved = True

    def findings(self) -> list[MaidFinding]:
        """Look once at all agents and at the host."""
        rows, left_overs, after, quiet = list[dict[str, Any]](), list[str](), None, 0.0
        while True:
            page = self.link.ask("survey", after=after)
            if after is None:
                self.checks.set_checks(list_of(page, "checks"))
            rows += self.checks.without_checkers(list_of(page, "agents"))
            left_overs = [str(item) for item in list_of(page, "left_overs")]
            quiet, self.every = float(page["quiet"]), float(page["every"])  # type: ignore[arg-type]
            after = page.get("next")
            if after is None:
                break
        self.checks.earlier_runs.clear()  # known agents are adopted
        now = self.measure()
        findings = [*agent_findings(rows, left_overs, quiet), *usage_findings(now, self.samples)]
        findings += (MaidFinding(*item) for item in self.checks.problems())
        self.samples = [*self.samples, now][-KEPT:]
        return findings

    def look(self) -> None:
        """Look once, reap zombies, and report new and ended findings."""
        findings = self.findings()
        cleared: list[str] = []
        if any(finding.kind == "zombie" for finding in findings):
            reply = self.link.change("reap_zombies", older=self.every)
            cleared = [str(finding) for finding in list_of(reply, "agents")]
        now = {(finding.kind, finding.subject) for finding in findings}
        good = [f"- good again: {name}" for name in self.checks.recovered]
        news = now != self.reported or bool(cleared or good)
        turned, self.checks.news, self.reported = self.checks.news, False, now
        if news or turned or not self.looks:
            text = report_text(findings, cleared, [*good, *self.checks.report_lines()])
            self.report(text, quietly=not news)
        self.checks.recovered.clear()
        if news or turned or not self.saved or self.looks % KEEP_EVERY == 0:
            self._try_save()
        self.looks += 1

    def report(self, text: str, *, quietly: bool) -> None:
        """Send a report to the parent, by mail and as an artifact."""
        say(text)
        try:
            self.link.change("store_artifact", **report_artifact(text))
        except HiveError as error:  # the parent gets the mail in any case
            say(f"cannot store the report: {error.reason}")
        parent = self.link.ask("whoami").get("parent")
        if parent is not None and not quietly:
            self.link.change("send", to=parent, body=text, kind=KIND)


def report_artifact(text: str) -> dict[str, object]:
    """Store the report as an artifact: a new version of the same name each time."""
    return {"name": REPORT, "text": text, "visibility": "subtree", "type": "text/plain"}


def report_text(
    findings: list[MaidFinding], cleared: Sequence[str], more: Sequence[str] = ()
) -> str:
    """The text of the report; it does not depend on the order of the findings."""
    lines = [f"- {finding.kind}: {finding.text}" for finding in sorted(findings)]
    if cleared:
        lines.append(f"- reaped: {', '.join(cleared)}")
    head = f"{len(findings)} findings" if findings else "all is well"
    text = "\n".join([head, *lines, *more])
    return text.encode(errors="replace")[:_BODY_MOST].decode(errors="ignore")


def list_of(reply: Any, key: str) -> list[Any]:  # noqa: ANN401 - JSON is anything
    """A list of a reply; an absent one is empty."""
    values = reply.get(key)
    return values if isinstance(values, list) else []


def say(text: str) -> None:
    sys.stderr.write(f"maid: {text}\n")
    sys.stderr.flush()


def run_maid(path: str) -> int:
    """Run `hive-agent maid`; it saves its state when it is stopped."""
    with Link(path, answer=POLL) as link:
        made = MaidAgent(link)
        status = run_until_stop(made.forever)
        with suppress(HiveError):
            made.save()
        return status
