"""Attack 59: a hived that was taken over, and people who follow the docs with their own git.

It sets every key of git-config(1) that names a program, hooks, attributes, alternates and whole
repositories wherever it may write. Then root, and a member of hive-operator, type what the docs
say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from long import seed, times

pytestmark = pytest.mark.lab("slow")
ROOT = Path(__file__).resolve().parents[2]
AS_HIVE = ("setpriv", "--reuid=hive", "--regid=hive", "--init-groups")
EVIL = "/tmp/evil"
OPERATOR = "olga"

# What in git-config(1) is run, or leads to what is run.
_RUNS = re.compile(
    r"(program|command|cmd|editor|pager|helper|driver|textconv|external|clean|smudge|process|hook"
    r"|sshcommand|askpass|gitproxy|fsmonitor|uploadpack|receivepack|vcs|difffilter|hookspath|"
    r"packobjectshook|alternaterefscommand|path|insteadof|tool|browser|proxy|update|worktree)$|"
    r"^(alias|pager)\.",
    re.IGNORECASE,
)
# With such a value git does not even read the file: these take a truth, a number or a list.
_NO_PROGRAM = re.compile(
    r"^(core\.worktree|.*\.worktree|core\.precomposeunicode|advice\..*|color\..*|core\.quotepath"
    r"|.*\.cachetextconv|.*fsck\..*|.*\.skipdefaultupdate|include\.path)$",
    re.IGNORECASE,
)
_LEAST = {
    "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass",
    "core.hooksPath", "core.gitProxy", "core.alternateRefsCommand", "diff.external",
    "diff.x.textconv", "diff.x.command", "filter.x.clean", "filter.x.smudge", "merge.x.driver",
    "gpg.program", "gpg.x.program", "sequence.editor", "credential.helper",
    "uploadpack.packObjectsHook", "interactive.diffFilter", "pager.x", "alias.x",
}  # fmt: skip
_SUBCOMMANDS = ("log", "show", "diff", "status", "branch", "tag", "config", "fetch", "clone")
_MORE = {
    **{f"pager.{subcommand}": f"{EVIL}/run" for subcommand in _SUBCOMMANDS},
    "filter.x.process": f"{EVIL}/run", "filter.x.required": "true",
    "remote.origin.vcs": "evil", "protocol.allow": "always", "include.path": f"{EVIL}/more",
    "core.alternateRefsCommand": f"{EVIL}/run",
}  # fmt: skip

TRAPS = r"""
umask 0
for place in /var/lib/hive/meta /var/lib/hive/meta/.git /var/lib/hive/applied/*.git \
        /var/lib/hive/applied /var/lib/hive /run/hive /var/lib/hive/served /var/lib/hive/work; do
    [ -d "$place" ] || continue
    [ -f "$place/HEAD" ] || { git init -q "$place"; place=$place/.git; }
    [ -d "$place" ] && [ -f "$place/HEAD" ] || continue
    cat /tmp/evil/config >>"$place/config"
    mkdir -p "$place/hooks" "$place/info" "$place/objects/info"
    for hook in post-checkout post-merge pre-push pre-commit commit-msg post-commit update \
            reference-transaction pre-receive post-receive post-update fsmonitor-watchman \
            prepare-commit-msg pre-merge-commit post-rewrite applypatch-msg push-to-checkout; do
        cp /tmp/evil/run "$place/hooks/$hook"
    done
    echo '* filter=x diff=x merge=x' >"$place/info/attributes"
    echo /tmp/evil/objects >"$place/objects/info/alternates"
done
for place in /var/lib/hive/meta /var/lib/hive; do
    echo '* filter=x diff=x merge=x' >$place/.gitattributes
    cp /tmp/evil/config $place/.gitconfig
done
true
"""
PROGRAM = """#!/bin/sh
echo "$(id -un) $0 $*" >>/tmp/evil/ran
exit 1
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("commands", "[deploy]\nwindow = 0.5\n")
    made.grow(lead={"role": "lead"})
    made.grow(alice={"parent": "lead", "command": ["sleep", "100000"]})
    made.run("useradd", "-m", "-s", "/bin/sh", "-G", "hive-operator", OPERATOR)
    made.run("mkdir", "-m", "1777", EVIL)
    for who, home in (("root", "/root"), (OPERATOR, f"/home/{OPERATOR}")):
        as_(made, who, f"""
            git config --global user.name {who}; git config --global user.email {who}@x
            git config --global gpg.format ssh
            git config --global user.signingkey {home}/key.pub
            ssh-keygen -q -t ed25519 -N '' -f {home}/key
        """)  # fmt: skip
        made.run("sh", "-c", f"echo {who}@x $(cat {home}/key.pub) >>/etc/hive/allowed_signers")
    return made


def as_(host: HiveHost, who: str, script: str) -> str:
    """What a script says on a terminal of this user's; pagers run there."""
    host.lab.path("/tmp/script.sh").write_text(f"export PAGER=cat GIT_TERMINAL_PROMPT=0\n{script}")
    terminal = "import pty, sys; sys.exit(pty.spawn(['sh', '/tmp/script.sh']) >> 8)"
    command = ["/usr/bin/python3", "-Ic", terminal]
    if who != "root":
        home = f"/home/{who}"
        command = ["runuser", "-u", who, "--", "env", "-C", home, f"HOME={home}", *command]
    else:
        command = ["env", "-C", "/root", "HOME=/root", *command]
    done = host.lab.run(command, check=False, input="", timeout=240)
    return (done.stdout + done.stderr).replace("\r", "")


def keys(host: HiveHost) -> set[str]:
    """Every key that names a program, of those that the machine's git lists."""
    listed = host.run("git", "help", "--config").stdout.split()
    plain = {re.sub(r"<[^>]*>|\*", "x", key) for key in listed}
    return {key for key in plain if _RUNS.search(key) and not _NO_PROGRAM.match(key)}


def take_over(host: HiveHost) -> None:
    """Everything that the user hive may write says: run this."""
    host.lab.path(f"{EVIL}/run").write_text(PROGRAM)
    host.lab.path(f"{EVIL}/run").chmod(0o755)
    host.run("sh", "-c", f"touch {EVIL}/ran; chmod 666 {EVIL}/ran")
    result = keys(host)
    assert result >= _LEAST, _LEAST - result
    settings = {**dict.fromkeys(sorted(result), f"{EVIL}/run"), **_MORE}
    host.lab.path(f"{EVIL}/config").write_text("".join(map(git_setting, settings.items())))
    listed = host.run("git", "config", "--file", f"{EVIL}/config", "--list", "--name-only").stdout
    assert len(listed.split()) == len(settings)
    said = host.run(*AS_HIVE, "sh", "-c", TRAPS)
    assert "ermission denied" not in said.stderr.replace("served", "")


def git_setting(setting: tuple[str, str]) -> str:
    """A key and its value as they stand in a file of git."""
    key, value = setting
    section, _, name = key.rpartition(".")
    top, _, subsection = section.partition(".")
    return (
        f'[{top} "{subsection}"]\n{name} = {value}\n'
        if subsection
        else f"[{top}]\n{name} = {value}\n"
    )


def ran(host: HiveHost) -> list[str]:
    """By whom the program of hived's was run, but by hived itself."""
    lines = host.run("cat", f"{EVIL}/ran").stdout.splitlines()
    return [line for line in lines if not line.startswith("hive ")]


_COMMAND = re.compile(r"(?:\$ |do_ )?((?:git|hive meta|cd|repo=|editor|mkdir) ?.*)")


def blocks(page: Path) -> Iterator[list[str]]:
    """The commands of each block of a page that has git in it."""
    block: list[str] = []
    fenced = False
    for line in [*page.read_text().splitlines(), ""]:
        if line.startswith("```"):
            fenced = not fenced
        inside = fenced or line.startswith("    ") or page.name == "demo"
        match_ = _COMMAND.fullmatch(line.strip()) if inside else None
        if match_:
            block.append(match_[1])
        elif not inside and not line.startswith("```") and line.strip() and block:
            yield block
            block = []
    if block:
        yield block


def git_script(page: Path, words: dict[str, str]) -> str:
    """A page's git commands as a script, one's own names in the place of those of the docs."""
    lines: list[str] = []
    for block in blocks(page):
        if any(line.startswith(("git", "hive meta")) for line in block):
            lines += ["cd $place", *block]
    text = "\n".join(lines)
    for word, own in words.items():
        text = text.replace(word, own)
    return text


def pages() -> list[Path]:
    result = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "scripts/demo"]
    return [
        page for page in sorted(result) if "reference" not in page.parts and git_script(page, {})
    ]


def propose(host: HiveHost, text: str) -> tuple[str, str]:
    """An approval that waits for the operator, and its commit."""
    script = """
[ -d /agents/lead/state/configs/alice ] || hive-agent config clone alice >&2
cd /agents/lead/state/configs/alice; echo "$1" >note.md; git add -A
git -c user.name=lead -c user.email=l@x commit -qm change; git rev-parse HEAD
"""
    commit = host.inside("lead", "sh", "-ec", script, "sh", text).strip().rpartition("\n")[2]
    asked = host.ask("lead", "RequestApplyCommit", agent="alice", commit=commit, message="please",
                     source="lead")  # fmt: skip
    id_ = str(asked["approval"])
    host.until(lambda: state(host, id_) == "pending", "it is not pending")
    return id_, commit


def state(host: HiveHost, id_: str) -> str:
    return str(host.call("GetApproval", id=id_)["approval"]["state"])


EDITOR = """
editor() {
    python3 -c "import json, sys; p = sys.argv[1]; t = json.load(open(p)); t['title'] = 'by hand'
json.dump(t, open(p, 'w'))" "$1"
}
place=$(mktemp -d); git init -q $place
"""


def test_the_docs_have_git_commands_to_follow() -> None:
    """Else the test below would follow nothing."""
    names = {page.name for page in pages()}
    assert {"approve.md", "deploy-and-roll-back.md", "recover.md", "tutorial.md", "demo"} <= names
    text = "\n".join(git_script(page, {}) for page in pages())
    for command in ("git clone hive::meta", "git clone hive::alice", "git push hive::alice",
                    "git push origin main", "hive meta log", "git -C meta log"):  # fmt: skip
        assert command in text
    for old in ("/var/lib/hive/applied", "/var/lib/hive/meta", "safe.directory", "hive meta git"):
        assert old not in text


@pytest.mark.parametrize("who", ["root", OPERATOR])
def test_attack_59_following_the_docs_runs_no_program_of_a_compromised_hived(
    host: HiveHost, who: str
) -> None:
    id_, commit = propose(host, who)
    take_over(host)
    words = {
        "6f0c2a1be94d": id_, "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d": commit,
        "/etc/hive/restore": "$place/restore", "NAME": "alice", "hive::writer": "hive::alice",
        "BACKUP": "$place/backup", "$clones": "$place/clones", "/writer": "/alice",
        "origin/refused/COMMIT": "origin/main",
    }  # fmt: skip
    said = dict[str, str]()
    for page in pages():
        if page.name == "deploy-and-roll-back.md":  # shows what another page has approved
            host.until(lambda: state(host, id_) == "deployed", "it is not deployed", 60)
        said[page.name] = as_(host, who, EDITOR + "set -x\n" + git_script(page, words))
    assert ran(host) == [], said
    assert state(host, id_) in ("approved", "building", "deploying", "watching", "deployed"), said
    assert "change" in said["deploy-and-roll-back.md"], said
    assert host.call("MetaLog", limit=1)["commits"], said


@pytest.mark.parametrize("who", ["root", OPERATOR])
def test_attack_59_only_hived_enters_a_repository(host: HiveHost, who: str) -> None:
    """Root may enter everything, but git's own guard still holds: nothing lifts it."""
    for place in ("/var/lib/hive/meta", f"/var/lib/hive/applied/{host.uuid('alice')}.git"):
        said = as_(host, who, f"cd /; git -C {place} log; echo ended $?")
        assert "ended 128" in said
    listed = host.run("git", "config", "--system", "--list", check=False).stdout
    assert "safe.directory" not in listed
    assert "include.path" not in listed
    assert host.run("find", "/var/lib/hive/meta", "/var/lib/hive/applied", "-maxdepth", "0",
                    "-perm", "/077").stdout == ""  # fmt: skip


def test_attack_59_clone_pull_push_and_sign_by_plain_git(host: HiveHost) -> None:
    """As an operator; root does the same but for the signature where a push is interrupted."""
    who = OPERATOR
    id_, commit = propose(host, f"{who} again")
    said = as_(host, who, f"""
        set -ex; cd; rm -rf mine other alice; git clone hive::meta mine; git clone hive::meta other
        cd mine; git commit --allow-empty -m 'a note of {who}'; git push hive::meta main
        cd ../other; git pull --ff-only; git log -1 --format='seen: %s'
        cd ..; git clone hive::alice; cd alice
        git show -s --format='%H is there' origin/proposals/{id_}
        git tag -s -m yes approve/{id_} {commit}; git push hive::alice approve/{id_}
        git fsck --strict; echo all of it went well
    """)  # fmt: skip
    assert f"seen: a note of {who}" in said
    assert f"{commit} is there" in said
    assert "all of it went well" in said
    host.until(lambda: state(host, id_) == "deployed", "it is not deployed")
    assert host.call("GetApproval", id=id_)["approval"]["decided_by"] == f"signed:{who}@x"
    said = as_(host, who, "set -e; cd ~/alice; git pull -q; git fetch -q --tags; git tag -l")
    assert {f"approve/{id_}", f"approved/{id_}", f"deployed/{id_}"} <= set(said.split())


def test_attack_59_a_user_who_is_no_operator_is_refused(host: HiveHost) -> None:
    host.run("useradd", "-m", "-s", "/bin/sh", "nina")
    said = as_(host, "nina", "git clone hive::meta; ls")
    assert "members of group hive-operator" in said
    assert "meta\n" not in said.replace("\r", "")


OLDER = r"""
set -e
systemctl stop hived
chgrp -R hive-operator /var/lib/hive/meta /var/lib/hive/applied
find /var/lib/hive/meta /var/lib/hive/applied -type d -exec chmod 2770 {} +
find /var/lib/hive/meta /var/lib/hive/applied -type f -exec chmod g+rw {} +
for each in /var/lib/hive/meta/.git /var/lib/hive/applied/*.git; do
    [ -L $each ] || git config --file $each/config core.sharedRepository group
done
# What a member of the group pushed once belongs to that member.
find /var/lib/hive/applied/*.git/refs -type f -exec chown olga {} +
echo 'storage 2' >/var/lib/hive/layout
printf '[safe]\n\tdirectory = /var/lib/hive/meta\n' >/etc/hive/gitconfig
git config --system --add include.path /etc/hive/gitconfig
cd /etc/systemd/system
printf '[Path]\nPathExists=/run/hive/applied.changed\n[Install]\nWantedBy=multi-user.target\n' \
    >hive-git.path
printf '[Service]\nType=oneshot\nExecStart=/bin/true\n' >hive-git.service
systemctl daemon-reload
systemctl enable -q --now hive-git.path
"""


def test_attack_59_an_older_install_is_closed_by_setup_and_the_first_start(host: HiveHost) -> None:
    before = host.call("ListRefs", repo="alice")["refs"]
    host.run("sh", "-c", OLDER)
    said = host.setup()
    assert "removed /etc/hive/gitconfig" in said
    for unit in ("hive-git.path", "hive-git.service"):
        assert f"removed /etc/systemd/system/{unit}" in said
        assert host.run("systemctl", "is-active", unit, check=False).stdout.strip() == "inactive"
    listed = host.run("git", "config", "--system", "--list", check=False).stdout
    assert "/hive" not in listed
    shared = ["find", "/var/lib/hive/meta", "/var/lib/hive/applied", "!", "-type", "l", "("]
    shared += ["!", "-user", "hive", "-o", "!", "-group", "hive", "-o", "-perm", "/7022", ")"]
    assert host.run(*shared).stdout == ""
    closed = host.run("stat", "-c", "%a", "/var/lib/hive/meta", "/var/lib/hive/applied").stdout
    assert closed == "700\n700\n"
    asked = "cd /var/lib/hive; grep -l shared meta/.git/config applied/*.git/config"
    assert host.run("sh", "-c", asked, check=False).stdout == ""
    assert host.call("ListRefs", repo="alice")["refs"] == before
    assert "nothing to do" in host.setup()
    assert "all of it is there" in as_(host, OPERATOR, """
        set -e; cd; rm -rf alice mine; git clone -q hive::alice; git clone -q hive::meta mine
        git -C alice fsck --strict; git -C mine fsck --strict; echo all of it is there
    """)  # fmt: skip


@pytest.mark.sized
def test_a_push_interrupted_by_a_daemon_crash_is_complete_or_can_be_repeated(
    host: HiveHost,
) -> None:
    drawn = Random(start := seed())  # noqa: S311 - a schedule, no secret
    for moment in drawn.sample((0.05, 0.3, 0.6, 1.0), times(1, 4)):
        note = f"pushed for {moment} s (--seed {start})"
        as_(host, "root", f"""
            cd; rm -rf killed; git clone -q hive::meta killed; cd killed
            git commit -q --allow-empty -m '{note}'; git push -q origin main & push=$!
            sleep {moment}; systemctl kill --signal=KILL hived.service; wait $push
        """)  # fmt: skip
        host.close_connections()  # their connections are gone
        host.answers()
        again = "cd ~/killed; git pull -q --rebase; git push -q origin main; echo ended $?"
        assert "ended 0" in as_(host, "root", again), note
        assert note in host.hive("meta", "log", "-n", "3")
        assert host.call("Status")["refused"] == [], note
        assert not [alarm for alarm in host.call("Status")["alarms"] if "damaged" in alarm], note
