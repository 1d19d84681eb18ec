"""The text of running turns, as it comes: in memory only, bounded for each turn and for all.

An agent that writes more than its bound loses the beginning of its own text. When all agents
together write more than the common bound, the agent with the most loses its oldest text.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

TURN_MOST: Final = 64 << 10  # bytes of one turn
TURNS_MOST: Final = 8  # turns of one agent, that of a ninth ends the text of the oldest
TOTAL_MOST: Final = 32 << 20  # bytes of all agents
# What a part takes beside its text, so that many short ones are bounded too.
_AROUND: Final = 64

TurnKey = tuple[str, int]


class LivePart(NamedTuple):
    """A part of the text of a turn. `at`: characters of the turn before it; `seq` orders parts."""

    seq: int
    conversation: str
    turn: int
    at: int
    text: str
    ended: bool = False

    @property
    def size(self) -> int:
        return len(self.text.encode()) + _AROUND

    @property
    def key(self) -> TurnKey:
        return self.conversation, self.turn


class _LiveTurn:
    """What is known of one turn: the characters that it has written, the bytes that are kept."""

    __slots__ = ("bytes", "ended", "written")

    def __init__(self) -> None:
        self.bytes = self.written = 0
        self.ended = False


class _AgentText:
    """The parts of one agent, the oldest first, and its turns in the order of their beginning."""

    __slots__ = ("bytes", "parts", "seq", "turns")

    def __init__(self) -> None:
        self.parts = deque[LivePart]()
        self.turns: dict[TurnKey, _LiveTurn] = {}
        self.bytes = self.seq = 0


class LiveTurns:
    """The parts of all agents. `now` makes numbers ascend over restarts of the daemon too."""

    def __init__(self) -> None:
        self._agents: dict[str, _AgentText] = {}
        self.bytes = 0

    def append(self, agent: str, key: TurnKey, text: str, now: float) -> int:
        """Add text to a turn, which begins with its first part; return its characters so far."""
        mine = self._agents.setdefault(agent, _AgentText())
        turn = self._turn(mine, key)
        turn.ended = False
        self._add(mine, key, turn, text, now)
        while turn.bytes > TURN_MOST:
            self._drop(mine, next(part for part in mine.parts if part.key == key))
        while self.bytes > TOTAL_MOST:
            longest = max(self._agents.values(), key=lambda other: other.bytes)
            self._drop(longest, longest.parts[0])
        return turn.written

    def end(self, agent: str, key: TurnKey, now: float) -> bool:
        """End a turn: readers are told. False: nothing of it is known."""
        mine = self._agents.get(agent)
        turn = mine.turns.get(key) if mine else None
        if mine is None or turn is None or turn.ended:
            return False
        self._add(mine, key, turn, "", now, ended=True)
        turn.ended = True
        return True

    def forget(self, agent: str) -> None:
        """Drop the text of an agent whose machine has ended."""
        if (mine := self._agents.pop(agent, None)) is not None:
            self.bytes -= mine.bytes

    def parts_after(self, agent: str, seq: int) -> list[LivePart]:
        """The parts after this number, the oldest first."""
        mine = self._agents.get(agent)
        return [part for part in mine.parts if part.seq > seq] if mine else []

    def running_parts(self, agent: str) -> list[LivePart]:
        """The parts of the turns that have not ended."""
        mine = self._agents.get(agent)
        return [part for part in mine.parts if not mine.turns[part.key].ended] if mine else []

    def newest(self, agent: str) -> int:
        """The number of the newest part; 0 without one."""
        mine = self._agents.get(agent)
        return mine.seq if mine else 0

    def _turn(self, mine: _AgentText, key: TurnKey) -> _LiveTurn:
        turn = mine.turns.get(key)
        if turn is None:
            if len(mine.turns) >= TURNS_MOST:
                self._drop_turn(mine, next(iter(mine.turns)))
            turn = mine.turns[key] = _LiveTurn()
        return turn

    def _add(  # noqa: PLR0913 - the columns of one part
        self, mine: _AgentText, key: TurnKey, turn: _LiveTurn, text: str, now: float,
        *, ended: bool = False,
    ) -> None:  # fmt: skip
        mine.seq = max(mine.seq + 1, int(now * 1000))
        part = LivePart(mine.seq, *key, turn.written, text, ended)
        turn.written += len(text)
        mine.parts.append(part)
        turn.bytes += part.size
        mine.bytes += part.size
        self.bytes += part.size

    def _drop(self, mine: _AgentText, part: LivePart) -> None:
        mine.parts.remove(part)
        mine.turns[part.key].bytes -= part.size
        mine.bytes -= part.size
        self.bytes -= part.size

    def _drop_turn(self, mine: _AgentText, key: TurnKey) -> None:
        for part in [part for part in mine.parts if part.key == key]:
            self._drop(mine, part)
        del mine.turns[key]
