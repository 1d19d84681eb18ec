"""A hive host with a Nix daemon of its own, and inputs that stand in for nixpkgs and hive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from e2e.hivehost import HiveHost, Reply

from nix import inputs

INPUTS: Final = "/usr/share/hive-inputs"  # jobs see what is below /usr
# Debian has `sandbox = false`, and here is nobody to substitute from.
CONF: Final = "sandbox = true\nsandbox-fallback = false\nsubstituters =\n"
SETTINGS: Final = f"""
[images]
nix = ""
[nix.inputs]
hive = "path:{INPUTS}/hive"
nixpkgs = "path:{INPUTS}/nixpkgs"
[deploy]
window = 0.5
[retention]
archive = 1
[approvals]
a_day = 1000
pending = 100
"""


class NixHost(HiveHost):
    def prepare(self, settings: str = SETTINGS) -> None:
        """All but locked inputs."""
        self.forget_nix()
        inputs.make(Path(self.lab.path(INPUTS)), python=True)
        self.conf(CONF)
        self.run("systemctl", "start", "nix-daemon.socket")
        self.settings(settings)
        self.setup()

    def forget_nix(self) -> None:
        """Leave of Nix what its packages bring: a machine where it has never been used."""
        script = (
            "mount -t tmpfs -o mode=0755 nix /nix;"
            " systemd-tmpfiles --create /usr/lib/tmpfiles.d/nix-daemon.conf;"
            " test ! -e /nix/store"
        )
        self.run("sh", "-ec", script)

    def conf(self, text: str) -> None:
        """Another nix.conf; its daemon reads it when it starts."""
        self.run("sh", "-c", "mkdir -p /etc/nix; cat >/etc/nix/nix.conf", text=text)
        self.run("systemctl", "stop", "nix-daemon.service", check=False)

    def wait_for_approval(self, approval: str, seconds: float = 60) -> dict[str, object]:
        """An approval once there is nothing more to come of it."""
        open_ = {"received", "approved", "building", "deploying", "watching"}
        result: list[dict[str, object]] = []

        def over() -> bool:
            reply = self.call("GetApproval", id=approval)
            result[:] = [{**reply["approval"], "review": reply["review"]}]
            return result[0]["state"] not in open_

        self.until(over, f"approval {approval} does not end", seconds)
        return result[0]

    def approve(self, asked: Reply, *, state: str = "deployed") -> dict[str, object]:
        """Let happen what was asked for, and see it through."""
        approval = str(asked["approval"])
        pending = self.wait_for_approval(approval)
        assert pending["state"] == "pending", pending
        commit = str(pending["commit"])
        reply = self.call("Approve", id=approval, commit=commit[:8])
        assert not reply.error, reply
        done = self.wait_for_approval(approval)
        assert done["state"] == state, done
        return done

    def lock(self, *inputs: str) -> dict[str, object]:
        """Newer inputs, approved."""
        return self.approve(self.call("RequestUpdateMetaInputs", inputs=list(inputs), message="x"))

    def propose(self, agent: str, module: str, toml: str = "", **more: object) -> Reply:
        """Root commits a configuration for a child in a clone of its own, and asks for it."""
        place = f"/agents/root/state/configs/{agent}"
        script = (
            f"set -e; mkdir -p {place}; cd {place}; [ -d .git ] || git init -q -b main;"
            ' printf %s "$1" >agent.nix; printf %s "$2" >agent.toml; git add -A;'
            " git -c user.name=r -c user.email=r@x commit -q --allow-empty -m change;"
            " git rev-parse HEAD"
        )
        words = ["sh", "-c", script, "sh", module, toml]
        commit = self.inside("root", *words).strip().splitlines()[-1]
        result = {"agent": agent, "commit": commit, "message": "please", "source": "root"}
        return self.ask("root", "RequestApplyCommit", **result, **more)

    def change(self, agent: str, module: str, toml: str = "", *, state: str = "deployed") -> (
        dict[str, object]
    ):  # fmt: skip
        """The same, approved."""
        return self.approve(self.propose(agent, module, toml), state=state)

    def system(self, agent: str) -> str:
        """What the meta repo says that it runs."""
        spec = self.lab.path(f"/var/lib/hive/meta/agents/{agent}.json").read_text()
        return str(json.loads(spec)["system"])

    def links(self, agent: str) -> dict[str, str]:
        """The roots of the collector for it, by name."""
        script = 'cd "$1" && for each in *; do echo "$each $(readlink "$each")"; done'
        place = f"/nix/var/nix/profiles/hive/{self.uuid(agent)}"
        lines = self.run("sh", "-c", script, "sh", place).stdout.splitlines()
        return dict(line.split() for line in lines)

    def guest(self, agent: str, *command: str) -> str:
        """What a program of the system in a container says: there is nothing else in there."""
        enter = 'exec nsenter -a -t "$(pgrep -oP "$0")" /usr/bin/busybox "$@"'
        words = ["sh", "-c", enter, str(self.main_pid(agent)), *command]
        return self.run(*words).stdout.strip()

    def builds(self) -> int:
        """How many jobs have asked Nix so far."""
        log = self.run("journalctl", "-b", "-o", "cat", "-u", "hive-job@*").stdout
        kinds = ("evaluate.", "build.", "lock.")
        return sum(line.startswith("Started") and line.endswith(kinds) for line in log.splitlines())
