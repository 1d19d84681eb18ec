"""Rows of logins. All open ones are in memory too, since each call of one looks there."""

from __future__ import annotations

from typing import Any, Final

from hive_core.ledger.core.connection import Connection
from hive_core.model.operator.account import Login, Scope, Via

CLOCK_SHIFT: Final[tuple[str, ...]] = (
    "UPDATE logins SET opened = opened + ?1, used = used + ?1, expires = expires + ?1,"
    " confirmed = confirmed + ?1",
    "UPDATE login_links SET expires = expires + ?1",
    "UPDATE accounts SET created = created + ?1",
    "UPDATE passkeys SET created = created + ?1",
    "UPDATE confirmations SET expires = expires + ?1",
)
# Seconds between two records of the last use of a login.
_RECORDED_EVERY: Final = 600.0
_COLUMNS: Final = "id, digest, account, name, via, scopes, opened, used, expires, idle, confirmed"


def join_scopes(scopes: tuple[Scope, ...]) -> str:
    return " ".join(scopes)


def split_scopes(text: str) -> tuple[Scope, ...]:
    return tuple(Scope(word) for word in text.split())


def _login(row: tuple[Any, ...]) -> Login:
    id_, digest, account, name, via, scopes, *times = row
    return Login(id_, digest, account, name, Via(via), split_scopes(scopes), *times)


class LoginStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._open: dict[str, Login] = {}
        # When each was last used; those in `_unrecorded` are to be written.
        self._used: dict[str, float] = {}
        self._unrecorded: set[str] = set()

    def load(self) -> None:
        """Read all rows once."""
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM logins")  # noqa: S608 - our own words
        self._open = {row[0]: _login(row) for row in rows}
        self._used = {id_: login.used for id_, login in self._open.items()}

    def follow_clock(self, seconds: float) -> None:
        """The clock was set and the rows were shifted: the same for what is in memory."""
        used = {id_: at + seconds for id_, at in self._used.items()}
        self.load()
        self._used.update(used)
        self._db.undo.note(self.follow_clock, -seconds)

    def get(self, id_: str) -> Login | None:
        """The login, if it has not ended."""
        return self._open.get(id_)

    def by_digest(self, digest: str) -> Login | None:
        """The login with this secret."""
        id_ = self._db.value("SELECT id FROM logins WHERE digest = ?", (digest,))
        return None if id_ is None else self.get(id_)

    def all(self) -> list[Login]:
        """All open logins, the oldest first."""
        return sorted(self._open.values(), key=lambda login: login.opened)

    def get_last_use(self, id_: str) -> float:
        return self._used.get(id_, 0.0)

    def add(self, login: Login) -> None:
        values = (*login[:5], join_scopes(login.scopes), *login[6:])
        places = ", ".join("?" * len(values))
        self._db.run(f"INSERT INTO logins ({_COLUMNS}) VALUES ({places})", values)  # noqa: S608
        self._open[login.id], self._used[login.id] = login, login.used
        self._db.undo.note(self._open.pop, login.id)

    def end(self, id_: str) -> None:
        """Delete a login: its secret no longer opens anything."""
        login = self._open.pop(id_, None)
        if login is None:
            return
        self._db.run("DELETE FROM logins WHERE id = ?", (id_,))
        self._db.run("DELETE FROM confirmations WHERE login = ?", (id_,))
        self._db.undo.note(self._open.__setitem__, id_, login)
        self._unrecorded.discard(id_)

    def record_confirmation(self, id_: str, until: float) -> None:
        """Let the confirmation of a login count until then for all that asks for a fresh one."""
        before = self._open[id_]
        self._db.run("UPDATE logins SET confirmed = ? WHERE id = ?", (until, id_))
        self._open[id_] = before._replace(confirmed=until)
        self._db.undo.note(self._open.__setitem__, id_, before)

    def use(self, id_: str, now: float) -> None:
        """Note that a login is used. Its row follows with a later transaction."""
        self._used[id_] = now
        if now - self._open[id_].used > _RECORDED_EVERY:
            self._unrecorded.add(id_)

    def note_call(self, id_: str, now: float) -> None:
        """Note that a call came: of a token that is its use.

        On the login of a person hive-web reads by itself what open pages show.
        """
        if self._open[id_].via is Via.TOKEN:
            self.use(id_, now)

    def record_use(self) -> None:
        """Write when logins were last used, inside the transaction that is open."""
        for id_ in self._unrecorded & self._open.keys():
            self._db.run("UPDATE logins SET used = ? WHERE id = ?", (self._used[id_], id_))
            self._open[id_] = self._open[id_]._replace(used=self._used[id_])
        self._unrecorded.clear()

    def next_end(self) -> float | None:
        """When the next login ends by itself."""
        ends = (login.end(self._used[id_]) for id_, login in self._open.items())
        return min(ends, default=None)

    def late_logins(self, now: float) -> list[Login]:
        """Logins whose time is over."""
        return [login for id_, login in self._open.items() if login.end(self._used[id_]) <= now]
