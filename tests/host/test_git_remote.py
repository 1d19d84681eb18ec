"""Attack 59: a daemon that was taken over, at the other end of `git-remote-hive`."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from each import for_each
from fixtures.git_host import GitHostProcess, commit, objects, serve_people, tree

from hive_core.host.git.pack_format import object_name
from hive_core.varlink import encode


@pytest.fixture(name="people", scope="module")
def _people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHostProcess]:
    """A person's git; no test here reaches the daemon behind it."""
    with serve_people(tmp_path_factory.mktemp("people")) as host:
        yield host


@contextmanager
def evil_daemon(
    folder: Path, answers: dict[str, dict[str, object]], error: str = ""
) -> Iterator[str]:
    """A daemon that answers each method with a prepared reply."""
    named_error = {"error": f"org.hive.Broker.{error}"} if error else {}
    path = str(folder / f"{uuid4().hex[:8]}.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(8)

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    data = b""
                    while not data.endswith(b"\0"):
                        more = peer.recv(65536)
                        if not more:
                            break
                        data += more
                    if data:
                        method = json.loads(data[:-1])["method"].rpartition(".")[2]
                        peer.sendall(encode({"parameters": answers[method], **named_error}))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield path
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def evil_clone(
    people: GitHostProcess, answers: dict[str, dict[str, object]], error: str = ""
) -> tuple[str, Path]:
    place = people.folder / "evil"
    with evil_daemon(people.folder, answers, error) as path:
        done = subprocess.run(
            ["git", "clone", "hive::meta", str(place)], text=True, capture_output=True, check=False,
            env=people.environment(HIVE_OPERATOR_SOCKET=path), cwd=people.folder,
        )  # fmt: skip
    assert done.returncode
    return done.stderr, place


@for_each(
    "name",
    [
        "refs/heads/../../config", "refs/heads/main\nfetch x", "HEAD", "refs/heads/-x",
        "refs/replace/" + "1" * 40, "refs/remotes/origin/main", "refs/heads/main.lock",
        "refs/heads/\x1b[2J",
    ],
)  # fmt: skip
def test_attack_59_a_daemon_that_was_taken_over_names_no_odd_ref(
    people: GitHostProcess, name: str
) -> None:
    said, place = evil_clone(people, {"ListRefs": {"refs": [{"name": name, "oid": "1" * 40}]}})
    assert "a ref of an unknown form" in said
    assert "\x1b" not in said
    assert not place.exists()


def test_attack_59_a_daemon_that_was_taken_over_puts_nothing_into_dot_git(
    people: GitHostProcess,
) -> None:
    """git in the caller's clone checks every object: no file of a checkout is a hook."""
    hook = ("blob", b"#!/bin/sh\ntouch /tmp/attack-59\n")
    hooks = ("tree", tree((b"100755", b"post-checkout", object_name(*hook))))
    inner = ("tree", tree((b"40000", b"hooks", object_name(*hooks))))
    for dotgit in (b".git", b".GIT", b"git~1"):
        top = ("tree", tree((b"40000", dotgit, object_name(*inner))))
        new, pack = objects(hook, hooks, inner, top, ("commit", commit(object_name(*top))))
        answers: dict[str, dict[str, object]] = {
            "ListRefs": {"refs": [{"name": "refs/heads/main", "oid": new}]},
            "ExportPack": {"data": base64.b64encode(pack).decode(), "next": None},
        }
        said, place = evil_clone(people, answers)
        assert "git refuses the objects that the daemon sent" in said
        assert not place.exists()


def test_attack_59_words_of_the_daemon_do_not_act_on_the_terminal(people: GitHostProcess) -> None:
    """A reason with escapes, and with a line that git would take for its own."""
    reason = "no\x1b[2J\nok refs/heads/main"
    answers: dict[str, dict[str, object]] = {"ListRefs": {"refs": [], "reason": reason}}
    said, _ = evil_clone(people, answers, error="Internal")
    assert "\x1b" not in said
    assert "hive: no⟨U+001B⟩[2J ok refs/heads/main" in said
