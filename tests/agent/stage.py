"""A world with a queen whose built-in agents play, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.troupe import BuiltInAgents
from operations.world import World

from hive_core.agent.agent_loop import StateFile

QUEEN = {
    "role": "daemon", "tier": "strategic", "command": ["hive-agent", "queen"], "parent": "root",
}  # fmt: skip


@dataclass
class AgentStage:
    world: World
    troupe: BuiltInAgents

    def assign(self, text: str, agent: str = "queen", **more: object) -> str:
        wish = {"requeue": 5, "deadline": 0.0, **more}
        return str(
            self.world.call("operator", "assign_task", agent=agent, description=text, **wish)[
                "task"
            ]
        )

    def result_of(self, text: str, agent: str = "queen", **more: object) -> Any:  # noqa: ANN401
        """Play until a task has ended; its row."""
        task = self.assign(text, agent, **more)
        self.troupe.play(lambda: self.troupe.task(task)["result"] is not None)
        return self.troupe.task(task)

    def memory(self, name: str) -> dict[str, Any]:
        return StateFile(self.troupe.folder / f"{self.world.uuid(name)}.json").read()

    def agents(self, role: str) -> list[str]:
        return [name for name, spec in self.world.hive.specs.items() if spec.role == role]
