# The life of a host: a tree, the isolation of agents, crashes, a switch with running agents, a reboot.
{ self, ... }:
{
  name = "hive-host";
  nodes.host = { lib, ... }: {
    imports = [ (import ./machine.nix { inherit self; }) ];
    services.hive.agents = {
      lead = { role = "lead"; command = [ "sleep" "infinity" ]; };
      worker = { parent = "lead"; role = "worker"; command = [ "sleep" "infinity" ]; };
    };
    specialisation.changed.configuration.services.hive = {
      deploy.healthWindow = lib.mkForce 3;
      agents.late = { command = [ "sleep" "infinity" ]; };
    };
  };

  testScript = ''
    import json

    host.wait_for_unit("hived.service")
    host.wait_for_unit("hive-declare.service")

    def ask(words):
        return json.loads(host.succeed(f"hive {words} -o json"))

    def pid(name):
        return host.succeed(f"systemctl show -P MainPID hive-agent@{name}.service").strip()

    with subtest("the declared tree is there, each agent with uids of its own"):
        host.succeed("hive wait root lead worker --for running --timeout 60")
        tree = ask("tree")
        assert [each["name"] for each in tree] == ["root"], tree
        assert tree[0]["children"][0]["children"][0]["name"] == "worker", tree
        for name in ("root", "lead", "worker"):
            first = host.succeed(f"pgrep -P {pid(name)} | head -n 1").strip()
            inside, outside, count = host.succeed(f"cat /proc/{first}/uid_map").split()
            assert inside == "0" and int(outside) >= 524288 and count == "65536"

    with subtest("the units are as hard as they are meant to be"):
        host.succeed("systemd-analyze security --threshold=20 hived.service")
        host.succeed("systemd-analyze security --threshold=50 hive-privd.service")
        host.succeed("systemd-analyze security --threshold=20 hive-model.service")
        host.succeed("systemd-analyze security --threshold=20 hive-egress.service")

    with subtest("a sibling's files cannot be seen, a descendant's can"):
        host.succeed("hive agent create rival -- sleep infinity")
        host.succeed("hive shell lead -- touch /agents/worker/state/seen")
        host.fail("hive shell rival -- ls /agents/worker")
        host.fail("hive shell rival -- hive-agent stop worker")

    with subtest("an operator who is not root sees the tree and its history"):
        host.succeed("su - alice -c 'hive tree'")
        host.wait_until_succeeds("su - alice -c 'git clone hive::worker && git -C worker log --oneline'")
        host.succeed("hive meta log")
        host.succeed("git clone hive::meta /root/meta && git -C /root/meta log --oneline")

    with subtest("a move stops no agent"):
        before = [pid(name) for name in ("root", "lead", "worker", "rival")]
        host.succeed("hive move worker --parent rival")
        host.succeed("hive shell rival -- ls /agents/worker/state/seen")
        assert before == [pid(name) for name in ("root", "lead", "worker", "rival")]

    with subtest("killed daemons come back and adopt everyone"):
        host.succeed("systemctl kill --signal=KILL hived.service hive-privd.service")
        host.wait_until_succeeds("hive wait worker --for running --timeout 5")
        assert before == [pid(name) for name in ("root", "lead", "worker", "rival")]

    with subtest("an agent whose container was killed comes back"):
        host.succeed("systemctl kill --kill-whom=main --signal=KILL hive-agent@rival.service")
        host.wait_until_succeeds(f"test $(systemctl show -P MainPID hive-agent@rival.service) -gt 0 -a $(systemctl show -P MainPID hive-agent@rival.service) != {before[3]}")
        host.succeed("hive wait rival --for running --timeout 30")

    with subtest("a switch brings a new hived and stops no agent"):
        before = [pid(name) for name in ("root", "lead", "worker", "rival")]
        daemon = host.succeed("systemctl show -P MainPID hived.service")
        host.succeed("/run/current-system/specialisation/changed/bin/switch-to-configuration test")
        host.wait_until_succeeds("hive tree -o name | grep -x late")
        assert daemon != host.succeed("systemctl show -P MainPID hived.service")
        assert before == [pid(name) for name in ("root", "lead", "worker", "rival")]

    with subtest("after a reboot the tree is what it was"):
        host.shutdown()
        host.start()
        host.wait_for_unit("hived.service")
        host.succeed("hive wait root lead worker rival --for running --timeout 120")
        host.succeed("hive shell rival -- ls /agents/worker/state/seen")
  '';
}
