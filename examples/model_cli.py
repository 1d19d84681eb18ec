#!/usr/bin/python3
"""A wrapper of a command-line model: each message and task is a prompt, its output the answer.

    python3 model_cli.py COMMAND...      such as: claude -p --output-format json

The command reads the prompt on its standard input. When it prints a JSON object with `result` and
`usage`, the tokens are reported to the daemon, which charges them to the agent's budget. The key
of the model is the secret `model-key` of the agent: the command alone gets it, as MODEL_KEY.
"""

import json
import os
import pathlib
import subprocess
import sys

from hive_agent import AgentClient

SECONDS = 600


def environment() -> dict[str, str]:
    """The variables of the command: those of this program, and the key where there is one."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY", "/run/hive/credentials")
    key = pathlib.Path(folder, "model-key")
    return {**os.environ, **({"MODEL_KEY": key.read_text().strip()} if key.exists() else {})}


def ask_model(prompt: str) -> tuple[str, int, int]:
    """The answer of the model, and the tokens that it read and wrote."""
    output = subprocess.run(
        sys.argv[1:], input=prompt, stdout=subprocess.PIPE, text=True, check=True,
        timeout=SECONDS, env=environment(),
    ).stdout  # fmt: skip
    try:
        reply = json.loads(output)
        usage = reply["usage"]
        return reply["result"], usage["input_tokens"], usage["output_tokens"]
    except (ValueError, KeyError, TypeError):
        return output.strip(), 0, 0


def answer(hive: AgentClient, prompt: str, task: str | None = None) -> str:
    """Ask the model and report its usage."""
    text, tokens_in, tokens_out = ask_model(prompt)
    if tokens_in or tokens_out:
        hive.change("report_usage", task=task, tokens_in=tokens_in, tokens_out=tokens_out)
    return text


hive = AgentClient()
while True:
    message = hive.recv(lease=SECONDS + 60)
    try:
        if not message.task:
            # The sender's text is a prompt; who the sender is, the daemon says.
            prompt = f"Message of {message.sender} (your {message.relation}):\n\n{message.body}"
            text = answer(hive, prompt)
            if message.reply_to or message.relation in ("self", "daemon"):
                hive.ack(message)  # an answer to an answer would go on for ever
            else:
                hive.reply(message, text)
        elif task := hive.begin(message):
            hive.report(task, answer(hive, task.text, task.id))
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"cannot ask the model: {error}\n")
        if message.task:
            hive.report(task, f"the model failed: {error}", "failed")
        else:
            hive.nack(message, "the model failed")
