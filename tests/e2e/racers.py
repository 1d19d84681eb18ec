"""Programs that swap files while the host works on them, in a container and as hived's user."""

from __future__ import annotations

# Runs as root of a container, for ever: in every directory that the agent may write, its own and
# those below, directories and links to canaries change places, and FIFOs, sockets and holes of a
# tebibyte lie about. What may not be changed at all is tried too, and told when it gives way.
AGENT = """#!/usr/bin/python3 -I
import ctypes, os, socket, sys
LIBC = ctypes.CDLL(None)
HOME = os.getcwd()
TARGETS = ("/", "/var/lib/bait", "../" * 30 + "var/lib/bait", "/proc/1/root", "/tree/kids")

def exchange(one, other):
    return LIBC.renameat2(-100, one.encode(), -100, other.encode(), 2) == 0

def litter(top):
    for call in (
        lambda: os.mkfifo(top + "/race-fifo"),
        lambda: socket.socket(socket.AF_UNIX).bind(top + "/race-socket"),
        lambda: os.truncate(os.open(top + "/race-hole", os.O_CREAT | os.O_RDWR), 1 << 40),
    ):
        try:
            call()
        except OSError:
            pass

def race(top):
    done = 0
    for number, target in enumerate(TARGETS):
        one, other = f"{top}/race-{number}", f"{top}/race-{number}-link"
        try:
            os.makedirs(one + "/state/config/kids", exist_ok=True)
        except OSError:
            pass
        try:
            os.symlink(target, other)
        except OSError:
            pass
        for _ in range(20):
            done += exchange(one, other)
    return done

def break_in(node):
    for one, other in (("state", "config"), ("state", "state/race-1-link"), ("kids", "config"),
                       ("kids", "state/race-0-link"), ("state", "config/race-1-link")):
        if exchange(f"{node}/{one}", f"{node}/{other}"):
            print("BROKE", node, one, other)
    try:
        os.symlink("/", f"{node}/kids/00000000")
        print("LINKED", node)
    except OSError:
        pass

def nodes(top):
    yield top
    try:
        kids = os.listdir(top + "/kids")
    except OSError:
        return
    for kid in kids:
        yield from nodes(f"{top}/kids/{kid}")

os.setsid()
sys.stdout = sys.stderr = open(HOME + "/broke", "w", 1)
for number in (0, 1, 2):
    os.dup2(sys.stdout.fileno(), number)
count = 0
while True:
    for node in list(nodes("/tree")):
        for top in (f"{node}/state", f"{node}/config"):
            litter(top)
            count += race(top)
        break_in(node)
    with open(HOME + "/count.new", "w") as file:
        file.write(str(count))
    os.replace(HOME + "/count.new", HOME + "/count")
"""

# Runs with hived's user and swaps whatever lies in a socket directory.
DAEMON = """
import ctypes, os, shutil, sys
LIBC = ctypes.CDLL(None)
while True:
    for leaf in ("run", "view"):
        top = f"{sys.argv[1]}/{leaf}"
        try:
            os.makedirs(top + "/race/deep", exist_ok=True)
        except OSError:
            continue
        for name, target in (("a", "/var/lib/bait"), ("b", "/"), ("c", "/run/hive")):
            try:
                os.symlink(target, f"{top}/{name}")
            except OSError:
                pass
            for _ in range(20):
                LIBC.renameat2(-100, f"{top}/race".encode(), -100, f"{top}/{name}".encode(), 2)
"""
