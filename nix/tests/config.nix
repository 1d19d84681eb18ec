# Configuration by approved commit, with the host's own programs as image, so without builds.
{ self, ... }:
{
  name = "hive-config";
  nodes.host = { imports = [ (import ./machine.nix { inherit self; }) ]; };

  testScript = ''
    host.wait_for_unit("hived.service")
    host.succeed("hive agent create lead --role lead -- sleep infinity")
    host.succeed("hive agent create worker --parent lead --role worker -- sleep infinity")

    def edit(script):
        """The parent edits its own clone of the child's configuration and asks for the commit."""
        host.succeed(
            "hive shell lead -- sh -ec 'test -d /tree/state/configs/worker || hive-agent config clone worker;"
            f" cd /tree/state/configs/worker; {script}; git add -A;"
            " git -c user.name=lead -c user.email=lead@hive commit -qm change'"
        )
        commit = host.succeed("hive shell lead -- git -C /tree/state/configs/worker rev-parse HEAD").strip()
        said = host.succeed(
            "hive call request_apply_commit '"
            f'{{"agent": "worker", "commit": "{commit}", "message": "please", "source": "lead"}}'
            "' --as lead | jq -r .approval"
        ).strip()
        host.wait_until_succeeds(f"hive approval list -o json | jq -e '.[] | select(.id == \"{said}\" and .state == \"pending\")'")
        return said, commit

    def approve(approval, commit, more=""):
        host.succeed(f"hive approval approve {approval} --commit {commit[:8]} --yes {more}")

    with subtest("what is approved is in place, and nothing before"):
        approval, commit = edit("sed -i \"s/^# reload = .*/reload = \\\"live\\\"/\" agent.toml; echo hello >>prompts/system.md")
        host.succeed(f"hive approval show {approval} | grep hello")
        host.fail("hive shell worker -- grep hello /run/hive/config/prompts/system.md")
        approve(approval, commit)
        host.succeed("hive shell worker -- grep hello /run/hive/config/prompts/system.md")

    with subtest("an agent that says so is only told, and not started again"):
        before = host.succeed("systemctl show -P MainPID hive-agent@worker.service")
        approval, commit = edit("echo again >>prompts/system.md")
        approve(approval, commit)
        host.succeed("hive shell worker -- grep again /run/hive/config/prompts/system.md")
        assert before == host.succeed("systemctl show -P MainPID hive-agent@worker.service")

    with subtest("the history is in git, where operators read it"):
        uuid = host.succeed("hive tree -o json | jq -r '.. | objects | select(.name==\"worker\") | .uuid'").strip()
        host.wait_until_succeeds(f"su - alice -c 'git -C /var/lib/hive/applied/{uuid}.git tag' | grep -x deployed/{approval}")

    with subtest("what does not stay healthy goes back"):
        approval, commit = edit("sed -i \"/^.request.$/a command = [\\\"false\\\"]\" agent.toml")
        approve(approval, commit, "--no-wait")
        host.wait_until_succeeds(f"su - alice -c 'git -C /var/lib/hive/applied/{uuid}.git tag' | grep -x failed/{approval}")
        host.succeed("hive wait worker --for running --timeout 30")
        host.succeed("hive shell worker -- grep hello /run/hive/config/prompts/system.md")
  '';
}
