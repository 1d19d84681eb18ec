"""The daemon's git for people, served on a real socket by a process of its own, without a host.

Broker, ledger, repositories and the program of the job are real; only the container around the job
is not there.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from broker.house import Asleep, SlowReads
from host.meta import family
from host.proposals import Author, Proposal

from hive_core.broker.batch import Services
from hive_core.broker.core import Broker
from hive_core.host.git import MetaRepo
from hive_core.host.git.applied_repositories import AppliedRepositories
from hive_core.host.git.applied_repository import AppliedRepo
from hive_core.host.git.initial_pack import build_pack, object_name
from hive_core.host.git.lending import PackExports
from hive_core.host.git.manual_commits import ManualCommits
from hive_core.host.git.pushes import Pushes
from hive_core.host.git.server import MetaGitServer
from hive_core.host.git.signatures import Signatures
from hive_core.host.git.signed_approvals import SignedApprovals
from hive_core.host.sockets.server import SocketServer
from hive_core.host.storage.uploads import PushUploads
from hive_core.host.systemd.clock import SystemClock
from hive_core.ledger.approvals.storage import ApprovalRequest
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.config.approval import ApprovalKind, Effect
from hive_core.model.config.limits import IntakeSettings
from hive_core.model.config.settings import Paths, Settings
from hive_core.operations import load
from hive_core.plan.actions import RunJob
from hive_core.plan.results import Done, Result
from hive_core.reconcile.observed import ObservedState
from hive_core.surfaces.service import introspection_methods
from hive_core.varlink import Client

ROOT = Path(__file__).resolve().parents[2]
HIVE = "org.hive.Broker."
CAPS = IntakeSettings(objects=200, blob=1 << 20, tree=4 << 20, pack=2 << 20)


class PlainJobs:
    """Runs the program of a job on the folder that it and hived exchange files in."""

    def __init__(self, work: Path) -> None:
        self._work = work

    async def run(self, action: RunJob) -> Result:
        code = (
            "import sys; from pathlib import Path; sys.path.insert(0, sys.argv.pop(1));"
            "from hive_core.jobs.main import main; sys.exit(main(sys.argv[2:], Path(sys.argv[1])))"
        )
        job = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-c", code, str(ROOT), str(self._work / action.job),
            action.work, *action.words,
        )  # fmt: skip
        await job.wait()
        return Done(changed=True)


@dataclass
class GitHostProcess:
    """What a test may reach: the socket, and (as nobody else should) the folder behind it."""

    folder: Path

    @property
    def socket(self) -> str:
        return str(self.folder / "operator.sock")

    def call(self, method: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON is anything
        with Client(self.socket) as client:
            return client.call(f"{HIVE}{method}", params)

    @property
    def approval(self) -> str:
        (approval,) = self.call("ListApprovals", all=True)["approvals"]
        return str(approval["id"])

    def environment(self, **more: str) -> dict[str, str]:
        """Of a person's git."""
        names = {f"GIT_{who}_{field}": "op@host" for who in ("AUTHOR", "COMMITTER") for field in
                 ("NAME", "EMAIL")}  # fmt: skip
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        return {
            "PATH": path, "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0", "HIVE_OPERATOR_SOCKET": self.socket, **names, **more,
        }  # fmt: skip

    def git(self, *words: str, cwd: Path | None = None, check: bool = True, **more: str) -> str:
        """What a person's git prints, errors last; it has to end with 0 if `check`."""
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.folder, env=self.environment(**more), text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        assert bool(done.returncode) is not check, done.stdout + done.stderr
        return (done.stdout + done.stderr).strip()


@contextmanager
def serve_people(folder: Path) -> Iterator[GitHostProcess]:
    (folder / "bin").mkdir()
    launcher = folder / "bin/git-remote-hive"
    launcher.write_text(
        f"#!/usr/bin/python3 -I\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from hive_core.cli.config.remote import main\nmain()\n"
    )
    launcher.chmod(0o755)
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (folder / "signers").write_text(f"ann@example.org {key.with_suffix('.pub').read_text()}")
    context = get_context("fork")  # a new interpreter would import the whole package again
    ready, started = context.Pipe(duplex=False)
    process = context.Process(target=_run_server, args=(folder, started))
    process.start()
    started.close()
    try:
        ready.recv()  # EOFError: the server did not start
        yield GitHostProcess(folder)
        assert process.is_alive(), "the service has ended"
    finally:
        process.kill()
        process.join()
        process.close()
        ready.close()


def _run_server(folder: Path, started: Connection) -> None:
    asyncio.run(serve(folder, started))


def _create_proposal(ledger: Ledger, hive: Hive, repo: AppliedRepo, author: Path) -> Proposal:
    uuid = hive.spec("ann").id
    proposal = Author(author, {"agent.toml": "# new\n"}).propose(base=hive.spec("ann").config or "")
    with ledger.transaction():
        request = ApprovalRequest(ApprovalKind.CONFIG, uuid, uuid, uuid, "please", proposal.binding)
        approval = ledger.approvals.create(request, SystemClock().now(), 1e12)
        ledger.approvals.record_review(approval.id, proposal.binding, Effect.LIVE, {}, {})
        ledger.approvals.move(approval.id, "check", SystemClock().now())
    repo.promote(approval.id, proposal.binding, proposal.parts)
    return proposal


def _family(ledger: Ledger, repo: MetaRepo) -> Hive:
    hive = family("ann", "bob")
    oid = repo.write(hive, Hive(), "family", {})
    with repo.hold("") as move, ledger.transaction():
        ledger.head = oid
        move(oid)
    return hive.at_commit(oid)


def _pushes(
    folder: Path, settings: Settings, broker: Broker, applied: AppliedRepositories
) -> Pushes:
    world, paths = broker.services, settings.paths
    assert isinstance(world.repo, MetaRepo)
    look = ObservedState.build(world.ledger, settings, broker.hive, world.clock)
    hand = ManualCommits(world.repo, broker, look)
    signatures = Signatures(folder / "signers", os.geteuid())
    signed = SignedApprovals(broker, applied.repo, signatures)
    uploads = PushUploads(paths.served, settings.intake.pack)
    jobs = PlainJobs(paths.work)
    return Pushes(settings, jobs, lambda: hand, lambda: signed, applied.repo, uploads)


async def serve(folder: Path, started: Connection) -> None:
    state = folder / "state"
    state.mkdir()
    settings = Settings(paths=Paths(state=state), intake=CAPS)
    registry, clock = load(), SystemClock()
    with closing(Ledger.open(settings.paths.database, primed=0)) as ledger:
        repo = MetaRepo.open(settings.paths.meta)
        hive, applied = _family(ledger, repo), AppliedRepositories(settings.paths.applied)
        applied.open()
        await applied.follow(hive, (), lambda _: False)
        _create_proposal(ledger, hive, applied.repo(hive.spec("ann").id), folder / "author")
        pushes: list[Pushes] = []
        git = MetaGitServer(
            repo, applied.repo, PackExports(settings.paths.served), lambda: pushes[0]
        )
        world = Services(ledger, repo, settings, Asleep(), clock, git=git)
        broker = Broker(world, hive, registry, introspection_methods(registry, "1"))
        pushes.append(_pushes(folder, settings, broker, applied))
        sockets = SocketServer(broker, SlowReads(), lambda _: os._exit(1))
        await sockets.listen_operator(folder / "operator.sock")
        started.send(None)
        await asyncio.Event().wait()


WHO = b"a <a@b> 1700000000 +0000"


def commit(tree: str, *before: str) -> bytes:
    lines = [f"tree {tree}".encode(), *(f"parent {parent}".encode() for parent in before)]
    return b"\n".join([*lines, b"author " + WHO, b"committer " + WHO, b"", b"x\n"])


def tree(*entries: tuple[bytes, bytes, str]) -> bytes:
    return b"".join(b"%s %s\0%s" % (mode, name, bytes.fromhex(oid)) for mode, name, oid in entries)


def objects(*parts: tuple[str, bytes]) -> tuple[str, bytes]:
    """Name of the last one, and a pack with all of them."""
    return object_name(*parts[-1]), build_pack(parts)[0]
