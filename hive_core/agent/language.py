"""The small language of jobs for the built-in agents, whose results a test can check.

A line is a command, or a directive about the job. Groups run in parallel; the same worker runs the
lines of one group one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

WORKERS, WORKERS_MOST = 3, 5
KEPT: Final = 500  # characters kept of each earlier result
_DIRECTIVES: Final = frozenset(
    {"group", "combine", "workers", "context", "domain", "keep", "architect", "budget"}
)
_CRON: Final = (5, 6)  # fields


class UnknownCommand(ValueError):
    """No worker knows this command."""


class CommandFailed(RuntimeError):
    """The command ran and failed."""


@dataclass(frozen=True)
class JobText:
    """A parsed job. `workers` 0: the best number so far, or three.

    `budget`: tokens for each line; 0: lines draw on the budgets above.
    """

    groups: tuple[tuple[str, ...], ...]
    combine: str = "lines"
    workers: int = 0
    domain: str = ""
    keeps_context: bool = False
    keeps_workers: bool = False
    budget: int = 0

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(line for group in self.groups for line in group)

    @property
    def line_budget(self) -> dict[str, int] | None:
        """The budget of each line, as a parameter of a task."""
        return {"tokens": self.budget} if self.budget else None

    @property
    def signature(self) -> str:
        """The kind of a job: the number of its groups, and their commands."""
        verbs = sorted({line.split()[0] for line in self.lines})
        return f"{len(self.groups)} {' '.join(verbs)}"

    @property
    def text(self) -> str:
        """The job as a text that parses to the same job."""
        lines = [f"combine {self.combine}"]
        lines += [f"workers {self.workers}"] if self.workers else []
        lines += [f"domain {self.domain}"] if self.domain else []
        lines += ["context keep"] if self.keeps_context else []
        lines += ["keep workers"] if self.keeps_workers else []
        lines += [f"budget fresh {self.budget}"] if self.budget else []
        for group in self.groups:
            lines += ["group", *group]
        return "\n".join(lines)


@dataclass
class _JobReader:
    groups: list[list[str]] = field(default_factory=list)
    grouped: bool = False
    said: dict[str, str] = field(default_factory=dict)

    def read_line(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "group":
            self.groups.append([])
            self.grouped = True
        elif word in _DIRECTIVES:
            self.said[word] = rest.strip()
        elif self.grouped:
            self.groups[-1].append(line)
        else:
            self.groups.append([line])  # a line outside of a group is its own group


def parse(text: str) -> JobText:
    """Read a job; a word that is not a directive begins a command."""
    reading = _JobReader()
    for line in filter(None, map(str.strip, text.splitlines())):
        reading.read_line(line)
    said = reading.said
    count = said.get("workers", "")
    return JobText(
        tuple(tuple(group) for group in reading.groups if group),
        said.get("combine", "lines"),
        min(WORKERS_MOST, int(count)) if count.isdecimal() else 0,
        said.get("domain", ""),
        said.get("context", "") == "keep",
        said.get("keep", "") == "workers",
        _fresh_budget(said.get("budget", "")),
    )


def _fresh_budget(said: str) -> int:
    word, _, amount = said.partition(" ")
    return int(amount) if word == "fresh" and amount.isdecimal() else 0


def schedule_of(text: str) -> tuple[dict[str, object], str]:
    """The schedule of a recurring job, as `set_trigger` takes it, and the job.

    An empty schedule: run the job once, now.
    """
    when: dict[str, object] = {}
    rest = []
    for line in text.splitlines():
        word, _, said = line.strip().partition(" ")
        if word == "every" and said.isdecimal():
            when["every"] = int(said)
        elif word == "cron" and len(said.split()) in _CRON:
            when["cron"] = said
        elif word == "zone" and said:
            when["zone"] = said
        else:
            rest.append(line)
    return (when, "\n".join(rest)) if {"every", "cron"} & when.keys() else ({}, text)


def asks_for_plan(text: str) -> bool:
    """Whether a line requests a plan first."""
    return any(line.split()[:1] == ["architect"] for line in text.splitlines())


def combine(how: str, values: Sequence[str]) -> str:
    """The result of a job from the results of its lines, in their order."""
    if how == "sum":
        return str(sum(int(value) for value in values))
    return "\n".join(values)


def compute(line: str, data: Mapping[str, object], memory: Sequence[str]) -> str:
    """Run one command. `memory`: results of earlier commands, if they were kept."""
    word, _, rest = line.strip().partition(" ")
    if word == "recall":
        return combine(rest.strip() or "lines", memory)
    if word == "fail":
        return _fail(rest, data)
    if word not in _COMMANDS:
        raise UnknownCommand(f"no command {word!r}")
    try:
        return _COMMANDS[word](rest)
    except ValueError as error:
        raise CommandFailed(f"{word}: {error}") from error


def is_command(line: str) -> bool:
    """Whether a worker knows the command of the line."""
    word = line.split(maxsplit=1)[0] if line.split() else ""
    return word in _COMMANDS or word in ("recall", "fail", "sleep", "crash")


def without_unknown_words(line: str) -> str:
    """The line without unknown words at its start: this revises a plan."""
    words = line.split()
    while words and not is_command(" ".join(words)):
        del words[0]
    return " ".join(words) or line


def _fail(rest: str, data: Mapping[str, object]) -> str:
    """Fail on the first N tries, then return the rest of the line."""
    times, _, value = rest.strip().partition(" ")
    if int(str(data.get("try", 1))) <= int(times):
        raise CommandFailed(f"as asked, on try {data.get('try', 1)}")
    return value


def _numbers(rest: str) -> list[int]:
    return [int(word) for word in rest.split()]


def _wc(rest: str) -> str:
    return f"{len(rest.splitlines())} {len(rest.split())} {len(rest.encode())}"


_COMMANDS: Final[Mapping[str, Callable[[str], str]]] = {
    "sum": lambda rest: str(sum(_numbers(rest))),
    "max": lambda rest: str(max(_numbers(rest))),
    "sort": lambda rest: " ".join(map(str, sorted(_numbers(rest)))),
    "wc": _wc,
    "upper": str.upper,
    "echo": str,
}
