"""`hive setup` and `hive teardown` on a real host: H16, H30, H31."""

from __future__ import annotations

import json

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab

from hive_core.cli.host.install import documents

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def fresh(lab: Lab) -> HiveHost:
    """Runs while the host is not set up yet."""
    return HiveHost(lab)


def test_setup_needs_root(fresh: HiveHost) -> None:
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "hive")
    for words in (("setup",), ("teardown",)):
        done = fresh.run(*nobody, *words, check=False)
        assert (done.returncode, done.stdout) == (5, "")
        assert "only root may" in done.stderr
    assert fresh.run("getent", "passwd", "hive", check=False).returncode == 2


def test_setup_makes_a_host_and_teardown_removes_all_of_it(fresh: HiveHost) -> None:
    said = fresh.setup()
    for line in (
        "created user hive",
        "created user hive-model",
        "wrote /etc/systemd/system/hived.service",
        "started hived.service",
        "started hive-web.socket",
    ):
        assert line in said
    assert fresh.hive("tree", "-o", "name") == "root\n"
    home = fresh.run("stat", "-c", "%U:%G %a", "/var/lib/hive").stdout
    assert home == "root:hive 1775\n"
    assert "systemd-journal" in fresh.run("id", "-nG", "hive").stdout
    socket = fresh.run("stat", "-c", "%G %a", "/run/hive/operator.sock").stdout
    assert socket == "hive-operator 660\n"
    assert_logins_are_for_their_services(fresh)
    assert_git_enters_clones_only(fresh)
    assert_daemons_start_by_systemd_only(fresh)
    assert (fresh.run("hive", "doctor").returncode, has_documents(fresh)) == (0, True)

    assert "nothing to do" in fresh.setup()
    assert_the_dashboard_is_as_the_settings_say(fresh)
    assert_teardown_asks(fresh)

    fresh.hive("agent", "create", "stubborn", "--", "sh", "-c", "trap '' TERM; sleep 1000")
    fresh.hive("teardown", "--yes")
    assert (units(fresh), has_documents(fresh)) == ("", False)
    assert "hive/" not in fresh.run("cat", "/proc/self/mounts").stdout.replace("lib/hive ", "")
    assert fresh.run("hive", "tree", check=False).returncode == 69

    fresh.setup()
    assert fresh.hive("tree", "-o", "name") == "root\nstubborn\n"

    fresh.run("sh", "-c", "echo secret >/etc/hive/keys/mine")
    fresh.hive("teardown", "--purge", "--yes")
    assert units(fresh) == ""
    assert_nothing_is_left(fresh)


def assert_the_dashboard_is_as_the_settings_say(fresh: HiveHost) -> None:
    """What setup stops and starts, it says."""
    before = fresh.run("cat", "/etc/hive/hive.toml").stdout
    fresh.run("sh", "-c", "printf '[web]\nenable = false\n' >/etc/hive/hive.toml")
    assert fresh.setup() == "stopped hive-web.socket\nthis machine is a hive host\n"
    fresh.run("tee", "/etc/hive/hive.toml", text=before)
    assert "started hive-web.socket\n" in fresh.setup()


def assert_nothing_is_left(fresh: HiveHost) -> None:
    """No file, no key, no user and no group of hive."""
    for path in (
        "/var/lib/hive/meta", "/etc/hive", "/run/hive", "/run/hive-small",
        "/etc/systemd/system/hive-small.socket",
    ):  # fmt: skip
        assert fresh.run("test", "-e", path, check=False).returncode == 1, path
    for name in ("hive", "hive-web", "hive-model", "hive-small"):
        assert fresh.run("getent", "passwd", name, check=False).returncode == 2, name
    for name in ("hive", "hive-operator", "hive-login", "hive-model", "hive-small"):
        assert fresh.run("getent", "group", name, check=False).returncode == 2, name


def assert_daemons_start_by_systemd_only(fresh: HiveHost) -> None:
    """Root types the names of the daemons while they run, and while hived is stopped."""
    before = fresh.run("stat", "-c", "%i", "/run/hive/privd.sock").stdout
    for program in ("hived", "hive-privd"):
        assert fresh.run(program, "--help").stdout.startswith(f"usage: {program}")
    for service in ("hive-model", "hive-egress", "hive-web", "hive-notify", "hive-otel"):
        assert fresh.run(service, "--version").stdout.startswith(f"{service} ")
    assert fresh.run("hive-privd", check=False).returncode == 2
    assert fresh.run("stat", "-c", "%i", "/run/hive/privd.sock").stdout == before
    fresh.run("systemctl", "stop", "hived")
    refused = fresh.run("hived", check=False)
    assert refused.returncode == 5, refused
    assert "hived runs as user hive" in refused.stderr
    owned = fresh.run("find", "/var/lib/hive/meta", "/run/hive", "-maxdepth", "1", "-user", "root",
                      "-name", "*.sock").stdout.split()  # fmt: skip
    assert owned == ["/run/hive/privd.sock"]
    fresh.run("systemctl", "start", "hived")
    assert fresh.hive("tree", "-o", "name") == "root\n"


def assert_teardown_asks(fresh: HiveHost) -> None:
    """It says what it would do, and an answer of no changes nothing."""
    said = fresh.fails(2, "teardown", "--purge")
    assert "standard input is not a terminal: teardown needs --yes" in said
    typed = "import pty,sys; sys.exit(pty.spawn(['hive', 'teardown']) >> 8)"
    refused = fresh.run("python3", "-c", typed, text="n\n", check=False)
    assert refused.returncode == 130, refused
    for text in (
        "This stops",
        "root",
        "hive-privd, hived, hive-model, hive-egress, ",
        "hive-web, hive-notify and hive-otel, and removes their units",
        "Files, settings and accounts stay",
    ):
        assert text in refused.stdout, refused
    assert fresh.hive("tree", "-o", "name") == "root\n"


def has_documents(host: HiveHost) -> bool:
    """Whether completion and manual pages are there; some of them are a failure."""
    paths = map(str, documents.PATHS)
    statuses = {host.run("test", "-s", path, check=False).returncode for path in paths}
    assert len(statuses) == 1
    return statuses == {0}


def assert_logins_are_for_their_services(host: HiveHost) -> None:
    """Only hive-web and its like reach login.sock, and nothing is theirs without a credential."""
    path = "/run/hive/login.sock"
    assert host.run("stat", "-c", "%U:%G %a", path).stdout == "hive:hive-login 660\n"
    secret = host.hive("web", "login").strip().partition("#")[2]
    web = ("setpriv", "--reuid=hive-web", "--regid=hive-web", "--init-groups")
    call = ("hive", "--socket", path, "call")
    bare = host.run(*web, *call, "list_agents", check=False)
    assert (bare.returncode, "the connection has no login" in bare.stderr) == (5, True)
    opened = host.run(*web, *call, "open_login", json.dumps({"credential": secret})).stdout
    assert json.loads(opened)["account"] == "operator"
    assert host.run(*call, "list_agents", check=False).returncode == 69  # root is no such service
    assert "operator" in host.hive("web", "logins")


def assert_git_enters_clones_only(fresh: HiveHost) -> None:
    """Attack 59: nothing of ours stands in the settings of everybody's git."""
    asked = ("git", "config", "--system", "--includes", "--list")
    assert "/hive" not in fresh.run(*asked, check=False).stdout
    clone = "git clone -q hive::meta /root/m; ls /root/m/agents"
    assert fresh.run("sh", "-ec", clone).stdout == "root.json\n"


def units(host: HiveHost) -> str:
    listed = host.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "hive*")
    return listed.stdout
