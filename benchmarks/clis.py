"""A turn of each installed coding CLI inside hive, beside a headless turn of it outside.

Both answer one prompt on the same model, which answers at once, in the same run. Outside, each turn
is one start of the program without tools of hive, hooks and broker, as people use it in scripts.
Inside, a letter goes to the session and the reply comes back. HIVE_TEST_CLIS names the folder with
the CLIs; those that are missing are said, and have no rows.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fixtures.cli_host import WIRES, CliHost, cli_host, free_port
from fixtures.fake_model import ModelAnswer, fake_model

from benchmarks.report.rows import Row, with_aim
from hive_core.agent.forward import ForwardPair
from hive_core.agent.session.runtimes.cli_dialect import CliPlace, CliTurn
from hive_core.agent.session.runtimes.forwarder import ModelForwarder
from hive_core.agent.session.runtimes.opencode import OpencodeDialect

TURNS: Final = 5
AIM: Final = 1.15
_SECONDS: Final = 120.0
_PROMPT: Final = "Say something."
_AGENT: Final = [
    sys.executable, "-c", "from hive_core.agent.main import main; main()",
]  # fmt: skip


def run() -> list[Row]:
    clis = Path(os.environ.get("HIVE_TEST_CLIS", "/usr/local/lib/hive-clis"))
    rows: list[Row] = []
    for name in ("claude", "codex", "opencode"):
        if (clis / name / "bin" / name).exists():
            rows += _rows(name, clis / name)
        else:
            print(f"bench: skipping {name}, which is not in {clis}", file=sys.stderr)
    return rows


def _rows(name: str, folder: Path) -> list[Row]:
    outside = statistics.median(_turns_outside(name, folder))
    first, *later = _turns_inside(name, folder)
    peer: Row = {"peer": f"{name}, a headless turn outside", "peer_value": outside}
    row: Row = {"name": f"{name}: a later turn, half of them", "value": statistics.median(later),
                "unit": "s", **peer}  # fmt: skip
    return [
        {"name": f"{name}: first turn, with the start of the session", "value": first,
         "unit": "s", **peer},
        with_aim(row, "at most 15 % more than outside", ratio_at_most=AIM),
    ]  # fmt: skip


def _turns_inside(name: str, folder: Path) -> list[float]:
    with TemporaryDirectory() as place, cli_host(Path(place), name, folder) as host:
        host.model.answer = lambda _number, _body: ModelAnswer("something")
        host.begin()
        times = [_letter_seconds(host, number) for number in range(1, TURNS + 2)]
        host.kill()  # with all that it started, which writes into its home
        return times


def _letter_seconds(host: CliHost, number: int) -> float:
    began = time.perf_counter()
    host.send(_PROMPT)
    host.until(lambda: len(host.replies()) >= number, _SECONDS)
    return time.perf_counter() - began


def _turns_outside(name: str, folder: Path) -> list[float]:
    """The first start makes the files of its home, and does not count."""
    with TemporaryDirectory() as text, fake_model(Path(text) / "m", WIRES[name]) as model:
        place, port = Path(text), free_port()
        model.alias = "fake"
        model.answer = lambda _number, _body: ModelAnswer("something")
        (place / "home").mkdir()
        (place / "work").mkdir()
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
        forwarder = ModelForwarder(ForwardPair(port, str(model.path)), _AGENT, None, environment)
        forwarder.start()
        try:
            words, own = _COMMANDS[name](str(folder / "bin" / name), forwarder.url, place)
            own = {"PATH": os.environ["PATH"], "HOME": str(place / "home"), **own}
            return [_start_seconds(words, own, place / "work") for _ in range(TURNS + 1)][1:]
        finally:
            forwarder.close()


def _start_seconds(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        words, env=dict(environment), cwd=folder, input="", capture_output=True, text=True,
        check=False, timeout=_SECONDS,
    )  # fmt: skip
    if done.returncode or "something" not in done.stdout:
        raise RuntimeError(f"{Path(words[0]).name} ended with {done.returncode}: {done.stderr}")
    return time.perf_counter() - began


_Command = tuple[Sequence[str], Mapping[str, str]]


def _claude(program: str, url: str, _place: Path) -> _Command:
    words = [program, "-p", _PROMPT, "--model", "fake", "--output-format", "stream-json",
             "--verbose", "--tools", "Bash"]  # fmt: skip
    return words, {
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "hive", "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }  # fmt: skip


def _codex(program: str, url: str, _place: Path) -> _Command:
    provider = f'{{name="x",base_url="{url}/v1",wire_api="responses",env_key="HIVE_KEY"}}'
    words = [program, "exec", "--json", "--skip-git-repo-check", "--ignore-user-config",
             "-m", "fake", "-c", 'model_provider="x"', "-c", f"model_providers.x={provider}",
             _PROMPT]  # fmt: skip
    return words, {"HIVE_KEY": "hive"}


def _opencode(program: str, url: str, place: Path) -> _Command:
    turn = CliTurn("", _PROMPT, "", "fake", url=url, tools={"bash": "execution"})
    files = CliPlace(_AGENT, "", place / "home", place / "work", None)
    words = [program, "run", "--pure", "--format", "json", _PROMPT]
    return words, OpencodeDialect().environment(turn, files)


_COMMANDS: Final[Mapping[str, Callable[[str, str, Path], _Command]]] = {
    "claude": _claude, "codex": _codex, "opencode": _opencode,
}  # fmt: skip
