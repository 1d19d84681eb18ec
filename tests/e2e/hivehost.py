"""A lab that `hive setup` has made a hive host."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from e2e.labhost import Lab


@dataclass
class HiveHost:
    """The operator's hands on it."""

    lab: Lab

    def run(
        self, *words: str, check: bool = True, text: str | None = None, timeout: float = 90
    ) -> subprocess.CompletedProcess[str]:
        return self.lab.run(list(words), check=check, input=text, timeout=timeout)

    def hive(self, *words: str, text: str | None = None) -> str:
        """What `hive WORDS` prints; it has to end with 0."""
        return self.run("hive", *words, text=text).stdout

    def fails(self, status: int, *words: str) -> str:
        """What `hive WORDS` complains about; it has to end with `status`."""
        done = self.run("hive", *words, check=False)
        assert done.returncode == status, done
        return done.stderr

    def json(self, *words: str) -> Any:  # noqa: ANN401 - JSON is anything
        return json.loads(self.hive(*words, "-o", "json"))

    def inside(self, agent: str, *command: str, check: bool = True) -> str:
        """What a command says in the container of an agent."""
        return self.run("hive", "shell", agent, "--", *command, check=check).stdout

    def main_pid(self, agent: str) -> int:
        unit = f"hive-agent@{agent}.service"
        shown = self.run("systemctl", "show", "--value", "--property=MainPID", unit)
        return int(shown.stdout)

    def setup(self) -> str:
        return self.hive("setup")
