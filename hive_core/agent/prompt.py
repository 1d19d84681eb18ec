"""`hive-agent prompt`: the system prompt of this agent, byte for byte.

Of a conversation it is in the log of the session, since it does not change. With `--new` it is
rendered as for a new conversation, by the runtime, without the rights of this process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hive_core.agent import output
from hive_core.agent.prompt_context import prompt_context, state_folder
from hive_core.agent.reconnect import Link
from hive_core.agent.session.log import MAIN, NAME
from hive_core.agent.session.records import read_records
from hive_core.errors import HiveError, InvalidArgument, NotFound, TimedOut

ABOUT: Final = "Print the system prompt of this agent's session, and its SHA-256."
RUNTIME: Final = "/opt/hive/runtime"
SECONDS: Final = 30.0
_UID: Final = 1000


def run_prompt(path: str, arguments: Sequence[str]) -> int:
    """Write the bytes to standard output, and the digest to standard error."""
    options = _parser().parse_args(arguments)
    state = options.state or state_folder()
    if options.new:
        workspace = Path(os.environ.get("HIVE_WORKSPACE") or state / "work")
        with Link(path) as link:
            context = prompt_context(link, state, workspace)
        data = _render(context)
    else:
        data = logged_prompt(state / "session", options.conversation)
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    output.complaint(f"sha256 {hashlib.sha256(data).hexdigest()}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("hive-agent prompt", description=ABOUT)
    parser.add_argument(
        "--new", action="store_true",
        help="as for a new conversation (default: that of the conversation, which is frozen)",
    )  # fmt: skip
    parser.add_argument(
        "--conversation", default=MAIN, help=f"name of the conversation (default {MAIN})"
    )
    parser.add_argument(
        "--state", type=Path, help="folder of the agent's state (default: /agents/NAME/state)"
    )
    return parser


def logged_prompt(folder: Path, conversation: str) -> bytes:
    """The system prompt with which a conversation goes on."""
    if "/" in conversation or conversation.startswith("."):
        raise InvalidArgument(f"{conversation[:64]!r} is not a conversation", field="conversation")
    try:
        data = (folder / conversation / NAME).read_bytes()
    except FileNotFoundError:
        raise NotFound(
            f"no conversation {conversation} in {folder}; --new prints the prompt of a new one"
        ) from None
    systems = (record for record in read_records(data).records if record["t"] == "system")
    texts = [record["text"] for record in systems if record.get("text")]
    if not texts:
        raise NotFound(f"the conversation {conversation} has no system prompt yet; use --new")
    return str(texts[-1]).encode(errors="replace")


def _render(context: dict[str, object]) -> bytes:
    """The prompt as the runtime renders it, as an unprivileged user where this one is root."""
    folder = os.environ.get("HIVE_RUNTIME", RUNTIME)
    python, path = ("/usr/bin/python3", folder) if folder else (sys.executable, _source())
    user = {"user": _UID, "group": _UID, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        ended = subprocess.run(
            (python, "-m", "hive_core.runtime.prompts"), input=json.dumps(context).encode(),
            capture_output=True, timeout=SECONDS, check=False, cwd="/",
            env={"PYTHONPATH": path, "PATH": os.defpath, "LANG": "C.UTF-8",
                 "PYTHONDONTWRITEBYTECODE": "1"},
            **user,  # type: ignore[call-overload]  # mypy does not unpack a dict of several types
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TimedOut(f"cannot render the prompt: it was not ready in {SECONDS:g} s") from None
    if ended.returncode != 0:
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        raise HiveError(lines[-1] if lines else "cannot render the prompt: the runtime ended")
    return bytes(ended.stdout)


def _source() -> str:
    return str(Path(__file__).parents[2])
