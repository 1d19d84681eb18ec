"""A world with a queen whose built-in agents play, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.troupe import Troupe
from operations.world import World

from hive_core.agent.agent_loop import Memory

QUEEN = {
    "role": "daemon", "tier": "strategic", "command": ["hive-agent", "queen"], "parent": "root",
}  # fmt: skip


@dataclass
class Stage:
    world: World
    troupe: Troupe

    def give(self, text: str, agent: str = "queen", **more: object) -> str:
        wish = {"requeue": 5, "deadline": 0.0, **more}
        return str(
            self.world.call("operator", "assign_task", agent=agent, description=text, **wish)[
                "task"
            ]
        )

    def done(self, text: str, agent: str = "queen", **more: object) -> Any:  # noqa: ANN401
        """Play until a task has ended; its row."""
        task = self.give(text, agent, **more)
        self.troupe.play(lambda: self.troupe.task(task)["result"] is not None)
        return self.troupe.task(task)

    def memory(self, name: str) -> dict[str, Any]:
        return Memory(self.troupe.folder / f"{self.world.uuid(name)}.json").read()

    def agents(self, role: str) -> list[str]:
        return [name for name, spec in self.world.hive.specs.items() if spec.role == role]
