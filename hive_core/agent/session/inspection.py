"""`hive-agent session log|show|rewind`: what a conversation did, and back to an earlier turn."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from hive_core.agent import output
from hive_core.agent.reconnect import Link
from hive_core.agent.session.log import MAIN, ConversationLog, conversations, segments
from hive_core.agent.session.records import Record, read_records
from hive_core.agent.session.state import texts
from hive_core.errors import Busy, Conflict, HiveError, InvalidArgument, NotFound

COMMANDS: Final = ("log", "show", "rewind")
_LINE_MOST: Final = 160
_PATIENCE: Final = 5.0  # seconds that the daemon may be away


def run_inspection(folder: Path, arguments: Sequence[str], socket: str = "") -> int:
    """Run one of the commands on the conversations in this folder; `socket`: of the broker."""
    options = _parser().parse_args(arguments)
    if options.command == "rewind":
        _rewind(folder, options.conversation, options.turn, socket)
    elif options.command == "show":
        _show(folder, options)
    else:
        _print_log(folder, options)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "hive-agent session", description="Look into the conversations of this agent's session."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="log|show|rewind")
    log = commands.add_parser("log", help="print the records, one a line, or as JSON lines")
    log.add_argument("-o", "--output", choices=("text", "jsonl"), default="text",
                     help="text (default) or jsonl: the whole records")  # fmt: skip
    show = commands.add_parser("show", help="print what was said, called and answered")
    rewind = commands.add_parser(
        "rewind", help="go on from the end of an earlier turn; refused while a turn runs"
    )
    for command in (log, show, rewind):
        command.add_argument(
            "--conversation", default=MAIN, help="name of the conversation (default main)"
        )
        command.add_argument(
            "--turn", type=int, required=command is rewind,
            help="turn; rewind: 0 for the beginning" if command is rewind else "only this turn",
        )  # fmt: skip
    return parser


def _records(folder: Path, conversation: str) -> list[Record]:
    """All records of a conversation, also those of its earlier segments."""
    names = conversations(folder)
    if not names:
        raise NotFound(
            f"cannot read conversation {conversation}: the session of this agent has had no turn,"
            " and so it has no conversation yet"
        )
    if conversation not in names:
        raise NotFound(f"no conversation {conversation}; conversations: {', '.join(names)}")
    return [
        record
        for file in segments(folder / conversation)
        for record in read_records(file.read_bytes()).records
    ]


def _of_turn(options: argparse.Namespace, folder: Path) -> list[Record]:
    """The records of a conversation, or of one of its turns. NotFound: no turn has this number."""
    records, turn = _records(folder, options.conversation), options.turn
    if turn is None:
        return records
    rows = [row for row in records if row.get("turn") == turn]
    if not rows:
        turns = [number for row in records if isinstance(number := row.get("turn"), int)]
        there = f"it has turns {min(turns)} to {max(turns)}" if turns else "it has no turn yet"
        raise NotFound(f"no turn {turn} in conversation {options.conversation}: {there}")
    return rows


def _print_log(folder: Path, options: argparse.Namespace) -> None:
    for record in _of_turn(options, folder):
        if options.output == "jsonl":
            output.line(json.dumps(record, ensure_ascii=False))
        else:
            output.line(output.plain(_log_line(record)))


def _log_line(record: Record) -> str:
    at = record.get("at")
    moment = time.strftime("%H:%M:%S", time.gmtime(at if isinstance(at, int | float) else 0))
    turn = record.get("turn", record.get("to", ""))
    text = " ".join(_subject(record).split())
    return f"{moment} {turn!s:>3} {record['t']:<8} {text[:_LINE_MOST]}".rstrip()


def _subject(record: Record) -> str:
    """What a line says of a record."""
    sign = "error: " if record.get("is_error") else ""
    names = [f"[{row.get('name')}]" for row in _rows(record.get("calls"))]
    subjects = {
        "response": " ".join([*names, str(record.get("text") or "")]),
        "call": f"{record.get('name')} ({record.get('call')})",
        "result": f"({record.get('call')}) {sign}{record.get('content')}",
        "end": f"{record.get('status')} {record.get('error') or ''}",
        "park": f"{record.get('why')} ({record.get('question')})",
    }
    text = record.get("text") or record.get("conversation") or ""
    return subjects.get(str(record["t"]), str(text))


def _show(folder: Path, options: argparse.Namespace) -> None:
    for record in _of_turn(options, folder):
        text = _shown_text(record)
        if text:
            output.line(output.plain(text) + "\n")


def _shown_text(record: Record) -> str:
    """What `show` prints of a record; empty: nothing."""
    text = str(record.get("text") or "")
    sign = "error: " if record.get("is_error") else ""
    source = f"turn {record.get('turn')}: {record.get('kind') or 'summary'}"
    return {
        "system": f"== system\n{text}",
        "inherit": f"== {len(texts(record.get('history')))} messages of another conversation",
        "input": f"== {source}\n{text}",
        "compact": f"== {source}\n{text}",
        "response": "\n".join(["== model", *([text] if text else []), *_call_lines(record)]),
        "result": f"<- {sign}{record.get('content')}",
        "end": f"== end: {record.get('status')} {record.get('error') or ''}".rstrip(),
    }.get(str(record["t"]), "")


def _call_lines(record: Record) -> list[str]:
    return [
        f"-> {row.get('name')} {json.dumps(row.get('arguments'), ensure_ascii=False)}"
        for row in _rows(record.get("calls"))
    ]


def _rewind(folder: Path, conversation: str, turn: int, socket: str) -> None:
    """Add the record that takes the history back; nothing of the log is deleted."""
    _records(folder, conversation)
    try:
        log = ConversationLog(folder, conversation)
    except Busy:
        reason = f"cannot rewind {conversation}: its turn runs; wait until the turn ends or waits"
        raise Busy(reason) from None
    with log:
        task = log.state.turn.task if log.state.turn else ""
        if task:
            reason = f"its turn works on task {task}; cancel the task first"
            raise Conflict(f"cannot rewind {conversation}: {reason}")
        if not log.state.can_rewind(turn):
            raise InvalidArgument(
                f"cannot rewind {conversation} to turn {turn}: it is not in the present segment",
                field="turn",
            )
        log.append({"t": "rewind", "to": turn})
        parked = log.state.parked
    if parked and socket:
        _end_wait(folder, conversation, parked, socket)
    sys.stderr.write(f"hive-agent: {conversation} goes on from the end of turn {turn}\n")


def _end_wait(folder: Path, conversation: str, parked: Record, socket: str) -> None:
    """Cancel the escalation of the turn that was given up; the agent no longer waits.

    The session may use the log meanwhile: it would stand still until the daemon answers. Where the
    daemon is away, the next answer of the model cancels it.
    """
    why = "the conversation was taken back to an earlier turn"
    try:
        with Link(socket, _PATIENCE) as link:
            link.ask("report_activity", blocked=False, reason="")
            with suppress(Conflict, NotFound):  # it has ended
                link.ask("cancel_question", question=str(parked["question"]), why=why)
    except HiveError as error:
        output.complaint(f"cannot cancel the escalation: {error.reason}")
    else:
        _log_end_of_wait(folder, conversation, parked)


def _log_end_of_wait(folder: Path, conversation: str, parked: Record) -> None:
    """Log that the escalation has ended, unless the conversation has gone on meanwhile."""
    with suppress(Busy), ConversationLog(folder, conversation) as log:
        if log.state.parked == parked:
            log.append({"t": "resume"})


def _rows(value: object) -> list[dict[str, object]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
