"""Turns of plain pydantic-ai, in a process of its own: `python bare_turn.py SOCKET TURNS`.

The model is behind the same socket and wire as that of a session and streams. System prompt and
tools are those of a request of the session, from standard input; the history grows as there.
Nothing is logged. Prints the seconds of each turn, one a line.
https://ai.pydantic.dev/agents/#streaming-events-and-final-output
"""

import asyncio
import json
import sys
import time
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, ToolDefinition
from pydantic_ai.messages import ModelMessage
from pydantic_ai.toolsets import ExternalToolset

from hive_core.runtime.wire import ModelChoice, build_model, http_client


async def run_turns(socket: str, turns: int, like: dict[str, Any]) -> list[float]:
    times = []
    history: list[ModelMessage] = []
    async with http_client(socket) as client:
        agent = Agent(
            build_model(ModelChoice("hive-small", "chat"), client),
            system_prompt=like["messages"][0]["content"], output_type=[str, DeferredToolRequests],
            toolsets=[ExternalToolset([_tool(row["function"]) for row in like["tools"]])],
        )  # fmt: skip
        for number in range(turns):
            begun = time.perf_counter()
            async with agent.run_stream(f"Letter {number}", message_history=history) as answer:
                await answer.get_output()
            times.append(time.perf_counter() - begun)
            history = answer.all_messages()
    return times


def _tool(row: dict[str, Any]) -> ToolDefinition:
    return ToolDefinition(
        name=row["name"],
        parameters_json_schema=row["parameters"],
        description=row.get("description"),
    )


if __name__ == "__main__":
    print(*asyncio.run(run_turns(sys.argv[1], int(sys.argv[2]), json.load(sys.stdin))), sep="\n")
