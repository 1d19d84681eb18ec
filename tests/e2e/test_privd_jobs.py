"""Jobs and what they may see: attacks by a hived that was taken over, and by what runs in a job."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from e2e.attackers import as_hive
from e2e.privdhost import Agent, PrivdHost, SharedPrivdHost

from hive_core.errors import Conflict, HiveError, NotFound
from hive_core.plan.actions import STORAGE_BASE, JobKind, KillUnit, MakeNode, RunJob, Unmount

pytestmark = pytest.mark.lab
JOBS = "/usr/src/hive/hive_core/jobs/main.py"
WORK = "/var/lib/hive/work"
# Stands for the program of every kind: it does what /in/do says, as the root of the job.
OBEY = """
import json, os, subprocess, sys
done = subprocess.run(["sh", "/in/do"], capture_output=True, text=True)
with open("/out/said.json", "w") as file:
    json.dump({"said": done.stdout, "err": done.stderr, "argv": sys.argv[1:]}, file)
sys.exit(done.returncode)
"""


@pytest.fixture(scope="module")
def host(shared_privd: SharedPrivdHost) -> Iterator[PrivdHost]:
    made = shared_privd.prepare()
    made.lab.run(["sh", "-ec", "mkdir -p /etc/hive /srv/old; mount -t tmpfs tmpfs /srv/old; "
                  "echo kept >/srv/old/note; echo 'old /srv/old' >/etc/hive/imports"])  # fmt: skip
    program = made.lab.path(JOBS)
    before = program.read_text()
    program.write_text(OBEY)
    yield made
    program.write_text(before)


def fill(host: PrivdHost, job: str, script: str) -> None:
    """Make the exchange as hived does, with its rights."""
    folder = f"{WORK}/{job}"
    made = f"umask 077; mkdir -p {folder}/in {folder}/out; cat >{folder}/in/do"
    assert as_hive(host, f"{made} <<'X'\n{script}\nX\n") == ""


def a_job(host: PrivdHost, kind: JobKind, agent: Agent | None = None) -> RunJob:
    job, base = host.a_job()
    if agent is None:
        return RunJob(job, kind, base)
    return RunJob(job, kind, base, uuid=agent.uuid, lineage=agent.lineage)


def run(host: PrivdHost, job: RunJob, script: str) -> str:
    """The output of a job that ran the script."""
    fill(host, job.job, script)
    host.job(job)
    said = json.loads((out(host, job) / "said.json").read_text())
    return str(said["said"] + said["err"])


def out(host: PrivdHost, job: RunJob) -> Path:
    return host.lab.path(f"{WORK}/{job.job}/out")


def a_node(host: PrivdHost) -> Agent:
    """An agent with something in each of its places."""
    agent = host.agent()
    host.do(MakeNode(agent.lineage))
    for leaf in ("state", "config"):
        path = host.lab.path(agent.node / leaf / "note")
        path.write_text(leaf)
        os.chown(path, STORAGE_BASE, STORAGE_BASE)
        path.chmod(0o600)
    return agent


@pytest.mark.parametrize(
    ("kind", "leaf", "writes"),
    [
        (JobKind.FETCH, "config", False),
        (JobKind.FETCH_CLONE, "state", False),
        (JobKind.SEED, "config", True),
    ],
)
def test_a_job_sees_one_directory_of_one_agent(
    host: PrivdHost, kind: JobKind, leaf: str, *, writes: bool
) -> None:
    agent = a_node(host)
    job = replace(a_job(host, kind, agent), words=("one", "t=2"))
    said = run(
        host,
        job,
        "cat /agent/note; echo; ls -A /agent; id -u; ls /in; (echo x >/agent/new) 2>/dev/null"
        " && echo WRITTEN; (echo x >/in/new) 2>/dev/null && echo WRITTEN-IN; ls /sys/class/net"
        "; find / -xdev -name config -path '*tree*'; ls /var/lib/hive /agents /tree 2>/dev/null"
        "; cat /proc/self/uid_map",
    )
    lines = said.splitlines()
    assert lines[:4] == [leaf, "note", "0", "do"]
    assert ("WRITTEN" in lines) == writes
    assert "WRITTEN-IN" not in lines
    assert [line for line in lines if line in ("lo", "eth0")] == ["lo"]
    assert lines[-1].split() == ["0", str(job.base), "65536"]
    argv = json.loads((out(host, job) / "said.json").read_text())["argv"]
    assert argv == [kind.value, "one", "t=2"]
    if writes:
        made = host.lab.path(agent.node / leaf / "new").stat()
        assert (made.st_uid, made.st_gid) == (STORAGE_BASE, STORAGE_BASE)


def test_only_a_job_writes_its_results_and_they_belong_to_hived(host: PrivdHost) -> None:
    """The map has the length 1: no id but that of the job's root exists in the exchange."""
    job = a_job(host, JobKind.REVIEW)
    said = run(
        host,
        job,
        "echo mine >/out/mine; chmod 755 /in /out; chown 5 /out/mine || echo REFUSED"
        "; setpriv --reuid=7 --clear-groups sh -c 'echo x >/out/his' || echo REFUSED"
        "; chmod 4755 /out/mine; mknod /out/null c 1 3 || echo REFUSED; ln -s /etc/shadow /out/link"
        "; grep -E ' /(in|out) ' /proc/self/mounts",
    )
    assert said.count("REFUSED") == 3
    lines = [line.split() for line in said.splitlines() if " /in " in line or " /out " in line]
    options = {line[1]: set(line[3].split(",")) for line in lines}
    assert options["/in"] >= {"ro", "nosuid", "nodev"}
    assert options["/out"] >= {"rw", "nosuid", "nodev"}
    hive = host.lab.run(["id", "-u", "hive"]).stdout.strip()
    owners = host.lab.run(["stat", "-c", "%u", *(f"{WORK}/{job.job}/out/{name}"
                          for name in ("mine", "link"))]).stdout.split()  # fmt: skip
    assert owners == [hive, hive]
    again = as_hive(host, f"rm -r {WORK}/{job.job} && echo GONE")
    assert again == "GONE\n"


def test_a_job_cannot_read_other_files_in_the_exchange(host: PrivdHost) -> None:
    """Root's, an agent's and a user's own files do not open, were they put there ever so often."""
    job = a_job(host, JobKind.REVIEW)
    fill(host, job.job, "for each in /in/of-*; do cat $each && echo READ; rm -f $each && echo RM"
         "; chmod 777 $each && echo CHMOD; done; stat -c %u /in/of-root /in/of-agent")  # fmt: skip
    for name, uid in (("root", 0), ("agent", STORAGE_BASE), ("user", 1000)):
        path = host.lab.path(f"{WORK}/{job.job}/in/of-{name}")
        path.write_text("secret of another")
        os.chown(path, uid, uid)
        path.chmod(0o600)
    host.job(job)
    said = json.loads((out(host, job) / "said.json").read_text())
    assert {"READ", "RM", "CHMOD"}.isdisjoint(said["said"].split())
    assert "secret" not in said["said"] + said["err"]
    assert said["said"].split() == ["65534", "65534"]


@pytest.mark.parametrize("where", ["work", "job", "in", "out"])
def test_11_a_swapped_exchange_leads_nowhere(host: PrivdHost, where: str) -> None:
    """hived owns the folder and may put links anywhere in it: privd follows none."""
    job = a_job(host, JobKind.REVIEW)
    fill(host, job.job, "ls /in /out")
    place = {"work": WORK, "job": f"{WORK}/{job.job}"}.get(where, f"{WORK}/{job.job}/{where}")
    as_hive(host, f"mv {place} {place}.old; ln -s /etc {place}")
    try:
        with pytest.raises(HiveError):
            host.do(job)
    finally:
        host.do(Unmount(job.job))
        as_hive(host, f"rm {place}; mv {place}.old {place}")
    assert "etc" not in host.lab.run(["findmnt", "-rno", "FSROOT,TARGET"]).stdout.split()


def test_11_a_swapped_agent_directory_leads_nowhere(host: PrivdHost) -> None:
    agent = a_node(host)
    place = host.lab.path(agent.node / "config")
    place.rename(place.with_name("old"))
    place.symlink_to("/etc")
    job = a_job(host, JobKind.SEED, agent)
    fill(host, job.job, "ls /agent")
    with pytest.raises((Conflict, HiveError)):
        host.do(job)
    host.do(Unmount(job.job))
    with pytest.raises(HiveError):  # nor is there a job without an exchange
        host.do(a_job(host, JobKind.REVIEW))


def test_a_job_cannot_mount_and_has_no_network_at_all(host: PrivdHost) -> None:
    connect = "import socket; socket.create_connection(('1.1.1.1', 80), 1)"
    script = f"""
mount -t tmpfs x /mnt && echo MOUNTED
unshare -m true && mount --bind / /mnt && echo MOUNTED
python3 -c "{connect}" 2>&1 | tail -1
"""
    said = run(host, a_job(host, JobKind.REVIEW), script)
    assert "MOUNTED" not in said
    assert "Network is unreachable" in said


def test_a_leftover_job_blocks_its_name_until_it_is_ended(host: PrivdHost) -> None:
    """A repeat of the same work finds the first one, ends it, and then begins."""
    job = a_job(host, JobKind.REVIEW)
    fill(host, job.job, "touch /out/begun; sleep 300")
    host.do(job)
    host.until((out(host, job) / "begun").exists, "it does not begin")
    with pytest.raises(Conflict):
        host.do(replace(job, base=host.a_job()[1]))
    unit = f"hive-job@{job.job}.service"
    assert host.show(unit, "ActiveState") == "active"
    host.do(KillUnit(job.job, None))
    host.until(lambda: host.show(unit, "ActiveState") == "inactive", "it does not end")
    host.do(KillUnit(job.job, None))  # nothing is left to kill
    host.do(Unmount(job.job))
    fill(host, job.job, "echo again")
    assert host.job(job)["result"] == "success"


def test_no_job_name_kills_an_agent(host: PrivdHost) -> None:
    agent = host.running()
    host.do(KillUnit(agent.uuid, None))
    assert host.runs(agent)


def test_the_end_of_a_job_is_reported(host: PrivdHost) -> None:
    job = a_job(host, JobKind.REVIEW)
    fill(host, job.job, "exit 3")
    assert host.job(job)["status"] == "3"


def test_an_import_reads_only_sources_that_root_listed(host: PrivdHost) -> None:
    agent = a_node(host)
    job = replace(a_job(host, JobKind.IMPORT_STATE, agent), image="old")
    said = run(host, job, "cat /in2/note; touch /in2/x || echo REFUSED; cp /in2/note /agent/kept")
    assert said.startswith("kept\n")
    assert "REFUSED" in said
    assert host.lab.path(agent.node / "state/kept").read_text() == "kept\n"
    unknown = replace(job, job=host.a_job()[0], image="etc")
    with pytest.raises(NotFound, match="unknown import: etc"):
        host.do(unknown)


def test_jobs_of_older_kinds_see_no_exchange(host: PrivdHost) -> None:
    agent = a_node(host)
    job, base = host.a_job()
    host.do(RunJob(job, JobKind.MEASURE, base, uuid=agent.uuid))
    binds = host.lab.run(["findmnt", "-rno", "TARGET"]).stdout.split()
    assert {line.rpartition("/")[2] for line in binds if job in line} == {"in", "root"}
    host.do(KillUnit(job, None))
    host.until(
        lambda: host.show(f"hive-job@{job}.service", "ActiveState") == "inactive", "does not end"
    )
    host.do(Unmount(job))
