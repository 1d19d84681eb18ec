"""The operations with which `git-remote-hive` fetches from and pushes to the daemon's repositories.

Only the daemon and its jobs access the repositories themselves (attack 59): a user that can write
the git configuration of a repository can run programs as every user whose git opens it.
"""

from __future__ import annotations

import base64
import binascii
from itertools import islice
from typing import Annotated, Final

from pydantic import Field

from hive_core.broker.call import Call, Later, Ready, Record, SlowReadSources
from hive_core.broker.login_rule import EACH
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import Internal, InvalidArgument
from hive_core.model.config.push import META, PackChunk, Push, PushProgress
from hive_core.operations.approvals.diff_pages import CURSOR, DiffPosition, LineRow, diff_page
from hive_core.operations.pages import ROWS_MOST, Page, Paged, reply_bytes, take_fitting
from hive_core.policy.rules import OPERATOR
from hive_core.ports import GitServer

PIECE: Final = 512 * 1024  # bytes of a pack in one frame
_BASE64: Final = (PIECE + 2) // 3 * 4
_LINES: Final = 10_000

Repo = Annotated[str, Field(max_length=64, description="`meta`, or an agent by its name or UUID.")]
Oid = Annotated[
    str, Field(pattern=r"^[0-9a-f]{40}$", examples=["ab" * 20], description="Name of an object.")
]
Ref = Annotated[str, Field(max_length=200, description="Full name of a branch or tag.")]


class ListRefsParams(Paged):
    repo: Repo


class RefRow(Result):
    name: str = Field(description="Full name of the branch or tag.")
    oid: str = Field(description="The object that it points to.")


class RefRows(Page):
    refs: list[RefRow] = Field(description="The refs, by name.")


class ExportPackParams(Params):
    repo: Repo
    wants: list[Oid] = Field(
        min_length=1, max_length=5000, description="Objects to send; refs must point to them."
    )
    haves: list[Oid] = Field(
        [], max_length=5000, description="Objects that the caller has, with all their ancestors."
    )
    after: str | None = Field(
        None, max_length=64, description="`next` of the part before; absent: the first part."
    )


class PackPart(Result):
    data: str = Field(description="The next bytes of the pack in base64.")
    next: str | None = Field(description="`after` of the next part; null at the end.")


class PushPackParams(Mutation):
    repo: Repo
    ref: Ref
    old: Oid = Field(description="Object that the ref points to now; 40 zeros for a new ref.")
    new: Oid = Field(description="Object that the ref is to point to.")
    pack: str = Field(
        "", max_length=_BASE64, description="Bytes of a pack in base64, at most 512 KiB of them."
    )
    upload: str | None = Field(
        None, max_length=64, description="The upload that this part belongs to."
    )
    offset: int = Field(0, ge=0, description="Number of bytes of the pack in the parts before.")
    part: bool = Field(
        default=False, description="Whether more of the pack follows in another call."
    )


class Pushed(Result):
    upload: str = Field(
        description="Upload for the next call, with or without a next part; empty: the push was"
        " judged."
    )
    size: int = Field(description="Number of bytes of the pack so far.")
    outcome: str = Field(description="adopted or approved; empty: not judged yet.")


Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{4,40}$")]


class MetaLogParams(Params):
    after: Commit | None = Field(
        None,
        description="`next` of the page before, or a commit to begin at; absent: the current"
        " commit.",
    )
    limit: int = Field(
        50, ge=1, le=200, description="Maximum number of commits in a page, at most 100."
    )


class CommitRow(Result):
    commit: str = Field(description="The commit.")
    parents: list[str] = Field(description="Its parent commits.")
    author: str = Field(description="Author as the commit states it; untrusted.")
    time: int = Field(description="Time as the commit states it, in seconds since 1970.")
    message: str = Field(description="Message of the commit; untrusted text.")


class MetaCommits(Page):
    commits: list[CommitRow] = Field(description="The commits, the newest first.")


class MetaDiffParams(Params):
    old: Commit | None = Field(None, description="A commit; absent: the parent of `new`.")
    new: Commit | None = Field(None, description="A commit; absent: the current commit.")
    after: str | None = Field(None, pattern=CURSOR, description="`next` of the page before.")


class MetaLines(Page):
    old: str = Field(description="The older commit; empty: none.")
    new: str = Field(description="The newer commit; empty: the repository has no commits yet.")
    lines: list[LineRow] = Field(description="The differences, with control characters escaped.")


@operation(action="administer", allow=OPERATOR)
def list_refs(call: Call, params: ListRefsParams) -> Later[RefRows]:
    """List the branches and tags of one of the daemon's repositories, as `git-remote-hive` does."""
    server, repo = _server(call), _repository(call, params.repo)

    async def read(_reads: SlowReadSources) -> RefRows:
        refs = sorted((await server.refs(repo)).items())
        rows = [RefRow(name=name, oid=oid) for name, oid in refs if name > (params.after or "")]
        fitting = take_fitting(rows, lambda row: reply_bytes(row.name, row.oid))
        some = list(islice(fitting, params.most))
        return RefRows(refs=some, next=some[-1].name if len(some) < len(rows) else None)

    return Later(read)


@operation(action="administer", allow=OPERATOR)
def export_pack(call: Call, params: ExportPackParams) -> Later[PackPart]:
    """Send the objects that a clone lacks as a git pack; with `more`, part after part.

    `git-remote-hive` calls this for `git clone hive::meta`, `git clone hive::NAME` and `git pull`.
    """
    server, repo = _server(call), _repository(call, params.repo)

    async def read(_reads: SlowReadSources) -> PackPart:
        known = set((await server.refs(repo)).values()) if params.after is None else set()
        if params.after is None and (odd := [oid for oid in params.wants if oid not in known]):
            raise InvalidArgument(f"no ref points to {odd[0]}", field="wants")
        data, following = await server.pack(repo, params.wants, params.haves, params.after)
        return PackPart(data=base64.b64encode(data).decode(), next=following)

    return Later(read)


@operation(action="administer", allow=OPERATOR, login=EACH)
def push_pack(call: Call, params: PushPackParams) -> Record[Pushed] | Later[Pushed]:
    """Push to one of the daemon's repositories: a commit by hand, or a signed tag that approves.

    The branch `refs/heads/main` of `meta` accepts commits by hand, the repository of an agent the
    tag `refs/tags/approve/ID`. A job checks the pack in a quarantine; then it is judged like every
    commit by hand and every signed tag. A pack that does not fit into one call is sent in parts.
    """
    server, repo = _server(call), _repository(call, params.repo)
    push = Push(repo, params.ref, params.old, params.new, call.uid)
    if isinstance(call.read_result, PushProgress):
        fields = {"repo": repo, "ref": push.ref, "old": push.old, "new": push.new,
                  "by": call.person, "outcome": call.read_result.outcome}  # fmt: skip
        return Record(_push_result(call.read_result), fields=fields)
    part = PackChunk(_decode_base64(params.pack), params.upload, params.offset, params.part)

    async def take(_reads: SlowReadSources) -> Pushed | Ready:
        progress = await server.push(push, part)
        return _push_result(progress) if progress.upload else Ready(value=progress)

    return Later(take)


@operation(action="administer", allow=OPERATOR)
def meta_log(call: Call, params: MetaLogParams) -> Later[MetaCommits]:
    """List commits of the meta repository, the newest first: every change of the hive."""
    server, start = _server(call), params.after or call.hive.commit
    most = min(params.limit, ROWS_MOST)

    async def read(_reads: SlowReadSources) -> MetaCommits:
        commits = await server.log(start, most + 1)
        rows = [
            CommitRow(
                commit=commit.oid, parents=list(commit.parents), author=commit.author[:500],
                time=commit.time, message=commit.message[:8000],
            )
            for commit in commits[:most]
        ]  # fmt: skip
        fit = list(
            take_fitting(rows, lambda row: reply_bytes(row.author, row.message, *row.parents))
        )
        more = len(fit) < len(commits)
        return MetaCommits(commits=fit, next=commits[len(fit)].oid if more else None)

    return Later(read)


@operation(action="administer", allow=OPERATOR)
def meta_diff(call: Call, params: MetaDiffParams) -> Later[MetaLines]:
    """Show which lines differ between two commits of the meta repository.

    Called with `more`, it returns the lines in pages.
    """
    server, wanted = _server(call), params.new or call.hive.commit

    async def read(_reads: SlowReadSources) -> MetaLines:
        history = await server.log(wanted, 1)
        if not history:  # the pages of a hive without commits
            return MetaLines(old="", new="", lines=[])
        after = history[0]
        parent = after.parents[0] if after.parents else ""
        old = (await server.log(params.old, 1))[0].oid if params.old else parent
        mark = DiffPosition.of(params.after)
        data, more = await server.changes(old, after.oid, mark.at)
        rows, end = diff_page(data, mark, _LINES)
        left = more or end.at - mark.at < len(data)
        return MetaLines(old=old, new=after.oid, lines=rows, next=end.text if left else None)

    return Later(read)


def _server(call: Call) -> GitServer:
    if call.git is None:
        raise Internal("this daemon has no repositories")
    return call.git


def _repository(call: Call, repo: str) -> str:
    """`meta`, or the UUID of a living agent; NotFound for any other."""
    if repo == META:
        return META
    return call.hive.spec(call.hive.name(repo) or repo).id


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument("must be base64", field="pack") from None


def _push_result(progress: PushProgress) -> Pushed:
    return Pushed(upload=progress.upload, size=progress.size, outcome=progress.outcome)
