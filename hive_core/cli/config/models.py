"""`hive model`: models that agents may call, their keys, and the calls themselves."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    echo,
    moment,
    one,
    output_option,
    say,
    words,
)
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import (
    Session,
    complete,
    complete_agent,
)
from hive_core.cli.host.install.machine import HostMachine
from hive_core.errors import (
    HiveError,
    Internal,
    InvalidArgument,
    LimitReached,
    NotAllowed,
    NotFound,
    TimedOut,
    Unreachable,
)

if TYPE_CHECKING:
    from typing_extensions import override
else:  # importing typing_extensions would cost a tenth of the start

    def override(method: object) -> object:
        return method


KEYS: Final = "/etc/hive/keys"
SOCKET: Final = "/run/hive-model/operator.sock"
GROUP: Final = "hive-model"
_KEY_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_KEY_MOST: Final = 8 << 10
_MILLION: Final = 1_000_000
_SECONDS: Final = 700.0  # an embedded model on a busy machine takes minutes
_ANSWER_MOST: Final = 1 << 20
# HTTP statuses of failed calls; others are faults of the provider or of hive-model.
_ERRORS: Final[Mapping[int, type[HiveError]]] = {
    400: InvalidArgument, 413: InvalidArgument, 422: InvalidArgument, 401: NotAllowed,
    402: NotAllowed, 403: NotAllowed, 404: NotFound, 429: LimitReached, 502: Unreachable,
    503: Unreachable, 504: TimedOut,
}  # fmt: skip
_LAST: Final = 10
_SHOWN: Final = 100


def _tokens(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "-"


def _price(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else words(value or "listed")


def _with_unknown_prices(row: Row) -> Row:
    is_unknown = row.get("price_known") is False
    return {**row, "price_in": "unknown", "price_out": "unknown"} if is_unknown else row


def _money(value: object) -> str:
    return f"{value / _MILLION:.6f}".rstrip("0").ljust(4, "0") if isinstance(value, int) else "-"


MODELS: Final = Listing(
    "alias",
    (Column("alias"), Column("provider"), Column("name", priority=1), Column("wire"),
     Column("context", words=_tokens, priority=2), Column("price_in", "in", _price, priority=3),
     Column("price_out", "out", _price, priority=3), Column("tiers", priority=1),
     Column("fallback", priority=2)),
    "no models; agents have none",
)  # fmt: skip
CALLS: Final = Listing(
    "seq",
    (Column("time", words=moment, priority=2), Column("agent"), Column("model"), Column("status"),
     Column("tokens_in", "in", _tokens), Column("tokens_out", "out", _tokens),
     Column("cache_read", "cached", _tokens, priority=2), Column("cost", words=_money),
     Column("ttft_ms", "first ms", priority=3), Column("latency_ms", "ms", priority=2),
     Column("source", priority=3), Column("task", priority=3)),
    "no calls of models yet",
)  # fmt: skip
STORED: Final = Listing("key", (Column("key"), Column("set_at", "since", moment)), "no keys")
complete_model: Final = complete("list_models", "models", "alias")
folder_option: Final = click.option("--folder", type=click.Path(path_type=Path), default=KEYS,
                                    hidden=True)  # fmt: skip


@click.group(cls=ListGroup)
def model() -> None:
    """List and test models that agents may call, show their calls, and store keys of providers."""


@model.command("list")
@click.option("--agent", shell_complete=complete_agent,
              help="Only the models that this agent may call, its own first.")  # fmt: skip
@output_option
@click.pass_obj
def list_models(session: Session, agent: str | None, style: str) -> None:
    """List the models of this host: /etc/hive/models.toml, or else the embedded model.

    Prices are US dollars per million tokens; `listed`: hive-model knows the price from the list of
    the provider; `unknown`: it does not, and charges 0.
    """
    rows = session.rows("list_models", "models", agent=agent)
    is_table = style in ("table", "wide")
    MODELS.show([_with_unknown_prices(row) for row in rows] if is_table else rows, style)


@model.command
@click.argument("alias", shell_complete=complete_model)
@click.option("--socket", "path", default=SOCKET, hidden=True)
@output_option
def test(alias: str, path: str, style: str) -> None:
    """Call the model ALIAS once, and print its answer, tokens, cost and times.

    It is a real call of one short question: the provider charges it, and no budget of an agent
    does. A failed call is an error with its reason, and the exit status of that error: 69 when the
    provider cannot be reached, 5 when it refuses the key, 75 when it has too much to do.
    """
    with working(f"calling {alias}"):
        result = _ask_test(path, alias)
    one(result, style, "alias", lambda: _test_lines(result))
    if "error" in result:
        raise _call_error(alias, result.get("status"), str(result["error"]))


def _test_lines(result: Row) -> Iterator[str]:
    head = " ".join(words(result.get(key)) for key in ("provider", "name", "wire"))
    yield f"{words(result.get('alias'))}: {head}"
    if "error" in result:
        return
    yield f"answer: {words(result.get('text'))}"
    estimated = " (estimated)" if result.get("estimated") else ""
    cost = result.get("cost")
    money = f"{cost:.6f}" if isinstance(cost, int | float) else "-"
    price = "" if result.get("price_known") else " (no known price: set price_in and price_out)"
    numbers = {key: words(result.get(key)) for key in result}
    yield f"tokens: {numbers['tokens_in']} in, {numbers['tokens_out']} out{estimated}"
    yield f"cost: {money}{price}"
    yield f"time: {numbers['latency_ms']} ms, first byte {numbers['ttft_ms']} ms"


class UnixHttpConnection(http.client.HTTPConnection):
    """HTTP to a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _call_error(alias: str, status: object, why: str) -> HiveError:
    """The error of a call that failed with this HTTP status."""
    reason = f"cannot call model {alias}: {why}"
    kind = _ERRORS.get(status, Internal) if isinstance(status, int) else Internal
    return kind(reason, service="") if kind is Unreachable else kind(reason)


def _ask_test(path: str, alias: str) -> Row:
    connection = UnixHttpConnection(path)
    try:
        connection.request("POST", "/test", json.dumps({"alias": alias}))
        response = connection.getresponse()
        result = json.loads(response.read(_ANSWER_MOST))
    except TimeoutError:
        raise TimedOut(f"hive-model did not answer in {_SECONDS:.0f} s") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        text = f"cannot reach hive-model at {path}: {reason}"
        raise Unreachable(text, service="hive-model") from error
    finally:
        connection.close()
    failure = result.get("error")
    if isinstance(failure, dict):
        raise _call_error(alias, response.status, str(failure.get("message")))
    return dict(result)


@model.command
@click.option("-f", "--follow", is_flag=True,
              help="Show the last 10 calls, then new ones as they end.")  # fmt: skip
@click.option("-n", "--lines", type=click.IntRange(1),
              help="Number of most recent calls to show; default: 100.")  # fmt: skip
@click.option("--agent", shell_complete=complete_agent, help="Only calls of this agent.")
@output_option
@click.pass_obj
def calls(
    session: Session, agent: str | None, lines: int | None, style: str, *, follow: bool
) -> None:
    """Show calls of models, the oldest first: tokens, cost and times of each.

    A call is shown once it has ended, and one of a sub-agent as that of AGENT/ID. Costs are in the
    currency of the host; `estimated`: the provider reported no usage. The texts of calls are not
    recorded.
    """
    filters: dict[str, object] = {"kinds": ["model"], **({"agents": [agent]} if agent else {})}
    count = lines or (_LAST if follow else _SHOWN)
    past = deque(session.rows("list_events", "events", **filters), count)
    rows = [_call_row(row) for row in past]
    if not follow:
        CALLS.show(rows, style)
        return
    for row in rows:
        _show_call(row, style)
    after = str(past[-1]["seq"]) if past else "0"
    for row in session.follow("list_events", "events", after=after, **filters):
        _show_call(_call_row(row), style)


def _call_row(event: Row) -> Row:
    fields = event.get("fields")
    numbers = {"tokens_in": 0, "tokens_out": 0, "cache_read": 0, "cost": 0}
    own = fields if isinstance(fields, dict) else {}
    agent = f"{event['caller']}/{own['sub']}" if own.get("sub") else event["caller"]
    return {"seq": event["seq"], "time": event["time"], "agent": agent, **numbers, **own}


def _show_call(row: Row, style: str) -> None:
    if style not in ("table", "wide"):
        CALLS.show([row], "name" if style == "name" else "jsonl")
        return
    tokens = f"{_tokens(row.get('tokens_in'))} in, {_tokens(row.get('tokens_out'))} out"
    echo(
        f"{moment(row.get('time'))} {words(row.get('agent'))} {words(row.get('model'))}"
        f" {words(row.get('status'))}: {tokens}, {_money(row.get('cost'))},"
        f" {words(row.get('latency_ms'))} ms"
    )


@model.group(cls=ListGroup)
def key() -> None:
    """Store, list and remove keys of providers. Keys are never printed."""


@key.command("set")
@click.argument("name")
@folder_option
@click.option("--group", default=GROUP, hidden=True)
def set_key(name: str, folder: Path, group: str) -> None:
    """Store the key NAME of a provider; the key is read from standard input. Needs root.

    `key = "NAME"` of a provider in /etc/hive/models.toml refers to it. On a terminal the command
    asks for the key without an echo. Only root and hive-model can read it.
    """
    _check_name(name)
    _write_key(folder / name, _read_key(name), group)
    _reload_keys(folder)


def _reload_keys(folder: Path) -> None:
    """Have hive-model read the keys of this host again; one that starts later reads them then."""
    machine = HostMachine(say)
    if folder == Path(KEYS) and machine.active("hive-model.service"):
        machine.run("systemctl", "reload", "hive-model.service")
        say("hive-model has read its keys again")


def _check_name(name: str) -> None:
    if not _KEY_NAME.fullmatch(name):
        raise InvalidArgument("must be 1 to 64 of a-z, 0-9, '.', '_' and '-'", field="name")


def _read_key(name: str) -> bytes:
    if sys.stdin.isatty():
        data = str(click.prompt(f"Key of {name}", hide_input=True, err=True)).encode()
    else:
        data = sys.stdin.buffer.read(_KEY_MOST + 2)
    key = data.strip()
    if not 0 < len(key) <= _KEY_MOST:
        raise InvalidArgument(f"is empty or longer than {_KEY_MOST} bytes", field="key")
    if not all(ord("!") <= byte <= ord("~") for byte in key):
        raise InvalidArgument("is not one line of visible ASCII characters", field="key")
    return key + b"\n"


def _write_key(path: Path, data: bytes, group: str) -> None:
    """Write the whole file, or nothing; it has its mode before it has its name."""
    spare = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        descriptor = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - of a descriptor
                file.write(data)
                shutil.chown(spare, group=group)
                os.fchmod(descriptor, 0o640)
                file.flush()
                os.fsync(descriptor)
            spare.replace(path)
        finally:
            spare.unlink(missing_ok=True)
    except PermissionError:
        raise NotAllowed(f"cannot write {path}: only root may") from None
    except FileNotFoundError:
        raise NotFound(f"no folder {path.parent}: `hive setup` creates it") from None
    except LookupError:
        raise NotFound(f"no group {group}: `hive setup` creates it") from None


@key.command("list")
@folder_option
@output_option
def list_keys(folder: Path, style: str) -> None:
    """List the names of stored keys. Needs root."""
    STORED.show(_key_rows(folder), style)


def _key_rows(folder: Path) -> list[Row]:
    try:
        files = sorted(path for path in folder.iterdir() if _KEY_NAME.fullmatch(path.name))
        return [{"key": path.name, "set_at": path.stat().st_mtime} for path in files]
    except FileNotFoundError:
        return []
    except PermissionError:
        raise NotAllowed(f"cannot read {folder}: only root may") from None


@key.command("rm")
@click.argument("name")
@folder_option
def remove_key(name: str, folder: Path) -> None:
    """Remove the key NAME. Needs root."""
    _check_name(name)
    try:
        (folder / name).unlink()
    except FileNotFoundError:
        raise NotFound(f"no key {name}") from None
    except PermissionError:
        raise NotAllowed(f"cannot remove {folder / name}: only root may") from None
    _reload_keys(folder)
