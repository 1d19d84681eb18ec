"""Agents that hold files of another one, for the tests of revocation (attack 58).

Each attacker is a program that runs in the container of an agent, as the agent's own: asked to, it
writes down what it can read at that moment. The moved agent writes through a descriptor that it has
had open since before the move.
"""

from __future__ import annotations

from e2e.hivehost import HiveHost

# Runs each program that is put beside it, once, and goes on whatever becomes of them. A shell would
# start a process for each look.
OBEYS = """
import os, subprocess, sys, time
started = []
while True:
    for name in os.listdir():
        if name.startswith("attack-"):
            os.rename(name, "running-" + name)
            started.append(subprocess.Popen([sys.executable, "-I", "running-" + name]))
    started = [program for program in started if program.poll() is None]
    time.sleep(0.05)
"""
AGENT: dict[str, object] = {"command": ["python3", "-I", "-c", OBEYS]}
NOTES = "/agents/kid/state/notes"
START = """
import array, ctypes, os, socket, sys, threading, time
NOTES, KIDS, NAME = "/agents/kid/state/notes", "/agents/kid/state", sys.argv[0].split("attack-")[1]
ctypes.CDLL(None).prctl(15, ("at-" + NAME).encode())  # PR_SET_NAME
def ready():
    open("ready-" + NAME, "w").close()
def answer(read):
    ready()
    while not os.path.exists("ask-" + NAME):
        time.sleep(0.02)
    os.remove("ask-" + NAME)
    with open("answer.new", "w") as file:
        file.write(read())
    os.rename("answer.new", "answer-" + NAME)
def hold(handle):
    answer(lambda: os.pread(handle, 99, 0).decode())
def send(link, *handles):
    link.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handles))])
def receive(link):
    _, rights, _, _ = link.recvmsg(1, socket.CMSG_SPACE(4))
    return array.array("i", rights[0][2])[0]
"""
WRITER = """
handle = os.open("notes", os.O_RDWR)
ready()
while True:
    if os.path.exists("write"):
        os.pwrite(handle, b"after", 0)
        os.rename("write", "written")
    time.sleep(0.02)
"""
HOLDS = {
    "descriptor": "hold(os.open(NOTES, os.O_RDONLY))",
    "in-flight": """
one, two = socket.socketpair()
handle = os.open(NOTES, os.O_RDONLY)
send(one, handle)
os.close(handle)
answer(lambda: os.pread(receive(two), 99, 0).decode())
""",
    "mapping": """
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
def other():
    handle = os.open(NOTES, os.O_RDWR)
    shared = libc.mmap(None, 4096, 3, 1, handle, 0)  # Python's own keeps a descriptor
    os.close(handle)
    answer(lambda: ctypes.string_at(shared, 5).decode())
threading.Thread(target=other).start()
libc.syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)  # this thread only
""",
    "directory": """
os.chdir(KIDS)
kids, own = os.open(KIDS, os.O_RDONLY), os.open("/tree/state", os.O_RDONLY)
os.fchdir(own)
def read():
    handle = os.open("notes", os.O_RDONLY, dir_fd=kids)
    return os.read(handle, 99).decode()
answer(read)
""",
}
LISTENS = """
with socket.socket(socket.AF_UNIX) as listening:
    listening.bind("socket"); listening.listen(); ready()
    link, _ = listening.accept()
    handle = receive(link)
link.close()
open("got-" + NAME, "w").close()
hold(handle)
"""
HANDS = """
with socket.socket(socket.AF_UNIX) as link:
    link.connect("/agents/{to}/state/socket")
    send(link, os.open(NOTES, os.O_RDONLY))
ready()
"""


TREE: dict[str, str | None] = {
    "root": None, "one": "root", "two": "root", "kid": "one", "stay": "one", "pup": "kid",
}  # fmt: skip


class Tree:
    """`kid`, with `pup` below it, hangs below `one`, beside `stay`; `two` is where it moves."""

    def __init__(self, host: HiveHost) -> None:
        self.host = host

    def reset(self) -> None:
        """The agents in their places, without programs and files, but `kid` with its notes open."""
        host, parents = self.host, self.host.tree()
        for name in parents.keys() - TREE.keys():
            host.call("Destroy", agent=name, wait=20)
        for name, parent in TREE.items():
            if name not in parents:
                reply = host.call("Spawn", name=name, parent=parent, **AGENT)
                assert not reply.error, reply
            elif parents[name] != parent:
                host.call("Move", agent=name, parent=parent, wait=40)
        host.prune(TREE)
        host.run("pkill", "-KILL", "^at-", check=False)
        host.inside("root", "sh", "-c", "rm -rf /agents/*/state/*")
        host.inside("kid", "sh", "-c", "printf before >/tree/state/notes")
        host.inside("kid", "truncate", "-s", "4096", "/tree/state/notes")
        self.run("kid", "writer", WRITER)

    def run(self, agent: str, name: str, program: str) -> None:
        """Have an agent run a program, until it is ready."""
        self.begin(agent, name, program)
        self.host.until(lambda: self.has(agent, f"ready-{name}"), f"{name} is not ready", 30)

    def begin(self, agent: str, name: str, program: str) -> None:
        put = f"cd /tree/state; cat >new; mv new attack-{name}"
        words = ("nsenter", f"--target={self.host.call('Locate', agent=agent)['leader']}", "--all")
        self.host.run(*words, "sh", "-c", put, text=START + program)

    def has(self, agent: str, file: str) -> bool:
        """Whether an agent that runs has a file; no process is started to look."""
        leader = self.host.call("Locate", agent=agent)["leader"]
        return self.host.lab.path(f"/proc/{leader}/root/tree/state/{file}").exists()

    def write(self) -> None:
        """`kid` writes into its notes, through what it has had open since the beginning."""
        self.host.inside("kid", "touch", "/tree/state/write")
        self.host.until(lambda: self.has("kid", "written"), "kid does not write")

    def leak(self, agent: str, name: str) -> str:
        """What an attacker can read now; nothing after it has ended."""
        self.host.wait("running", agent)
        self.host.inside(agent, "touch", f"/tree/state/ask-{name}")
        self.host.until(
            lambda: self.has(agent, f"answer-{name}") or not self.runs(name),
            f"{name} neither answers nor ends",
        )
        return self.host.inside(agent, "cat", f"/tree/state/answer-{name}", check=False)

    def runs(self, name: str) -> bool:
        """By its name, which stays when its first thread is dead."""
        return self.host.run("pgrep", "-x", f"at-{name}", check=False).returncode == 0

    def ends(self, job: str, why: str, seconds: float = 90) -> None:
        done = lambda: self.host.call("GetJob", id=job)["state"] != "running"  # noqa: E731
        self.host.until(done, f"the move does not end after {why}", seconds)

    def read(self, agent: str, file: str) -> str:
        self.host.wait("running", agent)
        return self.host.inside(agent, "cat", file).rstrip("\0\n")
