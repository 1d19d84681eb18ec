"""Evaluation, building and locking as jobs do them, with hostile modules (attacks 25 to 32)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from each import for_each
from nix.conftest import PLAIN, NixJobRunner

from hive_core.jobs import nix_build, nix_evaluate
from hive_core.jobs.nix import SAID_MOST, JobFolders, NixRefused


def test_a_system_is_evaluated_and_built(runner: NixJobRunner) -> None:
    made = runner.build_agent('{ ... }: { environment.etc.motd.text = "hello"; }')
    assert made["ok"], made
    assert runner.real(f"{made['out']}/etc/motd").read_text() == "hello"
    assert made["closure"]["bytes"] > 0
    assert any("nixos-system-bob" in name for name, _ in made["closure"]["come"])


def test_h4_another_parent_is_the_same_derivation(runner: NixJobRunner) -> None:
    """Moving an agent rebuilds nothing, for itself or anybody else."""
    derivations = {
        json.dumps(runner.evaluate(PLAIN, parent=parent)) for parent in ("alice", "carl", None)
    }
    assert len(derivations) == 1
    assert json.loads(derivations.pop())["ok"]


def test_the_difference_of_two_systems_is_reported(runner: NixJobRunner) -> None:
    before = runner.build_agent(PLAIN)
    after = runner.build_agent('{ ... }: { environment.etc.motd.text = "new"; }', before["out"])
    come = [name for name, _ in after["closure"]["come"]]
    gone = [name for name, _ in after["closure"]["gone"]]
    assert (come, gone) == (["nixos-system-bob"], ["nixos-system-bob"])
    assert after["closure"]["before"] == before["closure"]["bytes"]
    same = runner.build(runner.evaluate(PLAIN), before["out"])
    assert (same["closure"]["come"], same["built"]) == ([], 0)


def test_a_failed_evaluation_is_reported_with_its_reason(runner: NixJobRunner) -> None:
    said = runner.evaluate('{ ... }: throw "not today"')
    assert not said["ok"]
    assert "not today" in said["text"]
    assert runner.evaluate("{ ... }: {")["text"].startswith("syntax error")
    assert "agent.nix" in runner.evaluate({"other": ""})["text"]


def test_a_failed_build_is_reported_with_its_last_lines(runner: NixJobRunner) -> None:
    made = runner.evaluate('{ ... }: { fixture.build = "echo so it is >&2; exit 3"; }')
    said = runner.build(made)
    assert not said["ok"]
    assert "so it is" in said["log"]


READS = {
    "a file": 'builtins.readFile "/etc/passwd"',
    "a path": "builtins.readFile /etc/passwd",
    "a folder": "toString (builtins.attrNames (builtins.readDir /etc))",
    "out of its files": "builtins.readFile ./../../../etc/passwd",
    "the search path": "toString (import <nixpkgs> { })",
    "the environment": 'assert builtins.getEnv "PATH" == ""; throw "no variables"',
    "the time": "toString builtins.currentTime",
    "the home": "builtins.readFile ~/.ssh/id_rsa",
    "a copied path": '"${/etc/passwd}"',
    "a filtered path": 'builtins.path { path = "/etc"; }',
    "a path of the store": 'builtins.storePath "/nix/store"',
    "a flake": 'toString (builtins.getFlake "path:/etc").x',
    "a program": 'builtins.exec [ "id" ]',
}


@for_each("expression", READS.values())
def test_attack_26_a_module_reads_nothing_of_the_host(
    runner: NixJobRunner, expression: str
) -> None:
    said = runner.evaluate(f"{{ ... }}: {{ environment.etc.x.text = {expression}; }}")
    assert not said["ok"], said
    assert "root:x:0" not in json.dumps(said)


FETCHES = {
    "an address": 'builtins.fetchurl "http://127.0.0.1:1/x"',
    "an archive": 'builtins.fetchTarball "http://127.0.0.1:1/x.tar.gz"',
    "a repository": 'builtins.fetchGit { url = "/etc"; }',
    "a file of the host": 'builtins.fetchurl "file:///etc/passwd"',
    "a tree without a hash": 'builtins.fetchTree { type = "path"; path = "/etc"; }',
    "mercurial": 'builtins.fetchMercurial "/etc"',
}


@pytest.mark.parametrize("expression", FETCHES.values(), ids=FETCHES.keys())
def test_attack_26_a_module_fetches_nothing(runner: NixJobRunner, expression: str) -> None:
    said = runner.evaluate(
        f'{{ ... }}: {{ environment.etc.x.text = "${{toString ({expression})}}"; }}'
    )
    assert not said["ok"], said


def derivation(more: str) -> str:
    return (
        '(derivation { name = "x"; system = pkgs.system; builder = pkgs.shell;'
        ' args = [ "sh" "-c" "echo 1 >$out" ]; '
        f"{more} }})"
    )


def test_attack_27_nothing_is_built_during_an_evaluation(runner: NixJobRunner) -> None:
    for expression in (f"import {derivation('')}", f"builtins.readFile {derivation('')}"):
        said = runner.evaluate(
            f"{{ pkgs, ... }}: {{ environment.etc.x.text = toString ({expression}); }}"
        )
        assert not said["ok"]
        assert "import" in said["log"]
        assert "allow-import-from-derivation" in said["log"] or "disabled" in said["log"]


def test_attack_25_a_flake_of_an_agent_is_only_a_file(runner: NixJobRunner) -> None:
    """Nix does not read its nixConfig: the agent's files are data, not a flake."""
    hostile = '{ nixConfig.post-build-hook = "/bin/sh"; outputs = _: throw "evaluated"; }'
    files = {"agent.nix": PLAIN, "flake.nix": hostile, "nix.conf": "sandbox = false\n"}
    said = runner.evaluate(files)
    assert said["ok"], said
    assert "post-build-hook" not in json.dumps(said)


BOMBS = {
    "endless recursion": "let f = x: f (x + 1); in toString (f 0)",
    "itself": "let a = a; in a",
    "a deep stack": "let f = x: 1 + f (x + 1); in toString (f 0)",
    "a big list": "toString (builtins.genList (x: toString x) 2000000000)",
}


@pytest.mark.parametrize("expression", BOMBS.values(), ids=BOMBS.keys())
def test_attack_28_an_evaluation_bomb_ends_or_is_ended(
    runner: NixJobRunner, expression: str
) -> None:
    said = runner.evaluate(f"{{ ... }}: {{ environment.etc.x.text = {expression}; }}", seconds=2)
    assert not said["ok"], said
    assert said["text"]


def test_attack_28_a_memory_bomb_has_a_bound(runner: NixJobRunner) -> None:
    text = 'builtins.foldl\' (a: _: a + a) "xxxxxxxx" (builtins.genList (x: x) 60)'
    said = runner.evaluate(f"{{ ... }}: {{ environment.etc.x.text = {text}; }}", seconds=20)
    assert not said["ok"], said


def test_attack_28_a_flood_of_traces_is_cut_off(runner: NixJobRunner) -> None:
    line = "x" * 1000
    flood = (
        f'builtins.foldl\' (a: n: builtins.trace "{line}" a) "" (builtins.genList (x: x) 1000000)'
    )
    said = runner.evaluate(f"{{ ... }}: {{ environment.etc.x.text = {flood}; }}", seconds=20)
    assert said["text"] == f"the output of Nix is larger than {SAID_MOST} bytes"
    assert len(json.dumps(said)) < 64 << 10


def test_attack_22_module_text_in_nix_output_moves_no_cursor(runner: NixJobRunner) -> None:
    said = runner.evaluate('{ ... }: throw "\x1b[2Ja\u202eb\rc\x07"')
    assert not said["ok"]
    assert not {"\x1b", "\u202e", "\r", "\x07"} & set(said["text"] + said["log"])


def test_attack_29_a_derivation_with_network_access_is_not_built(runner: NixJobRunner) -> None:
    """A fixed-output derivation keeps the host's network, its abstract sockets too."""
    hashed = 'outputHashAlgo = "sha256"; outputHashMode = "flat"; outputHash = ' + f'"{"0" * 64}";'
    module = f'{{ pkgs, ... }}: {{ fixture.build = ": ${{{derivation(hashed)}}}"; }}'
    made = runner.evaluate(module)
    assert made["ok"], made
    said = runner.build(made)
    assert not said["ok"]
    assert said["text"] == "the build would fetch from the network: x"
    allowed = runner.build(made, fetches="yes")
    assert "hash mismatch" in allowed["log"]


def test_attack_29_a_build_sees_neither_host_nor_network(runner: NixJobRunner) -> None:
    look = "b ls / /etc >$out/etc/seen 2>&1; b cat /etc/passwd >$out/etc/users;" \
           " b cat /proc/net/dev >$out/etc/net"  # fmt: skip
    made = runner.build_agent(f'{{ ... }}: {{ fixture.build = "{look}"; }}')
    assert made["ok"], made
    etc = runner.real(f"{made['out']}/etc")
    assert "var" not in (etc / "seen").read_text().split()
    assert "hive" not in (etc / "users").read_text()
    devices = [line.split(":")[0].strip() for line in (etc / "net").read_text().splitlines()[2:]]
    assert devices == ["lo"]


def test_attack_29_a_derivation_cannot_disable_the_sandbox(runner: NixJobRunner) -> None:
    free = derivation("__noChroot = true;")
    module = f'{{ pkgs, ... }}: {{ fixture.build = ": ${{{free}}}"; }}'
    made = runner.evaluate(module)
    assert made["ok"], made
    said = runner.build(made)
    assert not said["ok"]
    assert "__noChroot" in said["log"]


def test_attack_30_an_evaluation_uses_only_locked_inputs(runner: NixJobRunner) -> None:
    """With --no-write-lock-file beside it, an unlocked input would be accepted."""
    lock = runner.lock
    try:
        runner.lock = b'{"nodes": {"root": {}}, "root": "root", "version": 7}'
        assert "lock file" in runner.evaluate(PLAIN)["text"]
        less = json.loads(lock)
        del less["nodes"]["nixpkgs"], less["nodes"]["root"]["inputs"]["nixpkgs"]
        less["nodes"]["hive"]["inputs"] = {}
        runner.lock = json.dumps(less).encode()
        assert not runner.evaluate(PLAIN)["ok"]
    finally:
        runner.lock = lock
    assert runner.evaluate(PLAIN)["ok"]


def test_attack_21_files_that_differ_from_the_pin_are_not_used(runner: NixJobRunner) -> None:
    """The flake names the files by their hash, whatever lies in the exchange."""
    right = runner.evaluate(PLAIN)
    room = runner.room(flake_nix=b"", flake_lock=runner.lock, tree_nar=b"")
    assert right["ok"]
    assert not list(room.out.iterdir())
    other = runner.evaluate('{ ... }: { environment.etc.x.text = "other"; }')
    assert other["drv"] != right["drv"]


def test_attack_31_options_of_the_host_reach_nothing(runner: NixJobRunner) -> None:
    """A module is the inside of a container: all that leaves an evaluation is two store paths."""
    module = (
        '{ ... }: { containers.x.bindMounts."/".hostPath = "/"; systemd.nspawn.x = { };'
        ' hive.flags = [ "--capability=all" ]; nix.settings.sandbox = false; }'
    )
    said = runner.evaluate(module)
    assert said["ok"], said
    assert said.keys() == {"ok", "text", "log", "drv", "out"}


FORGED = {
    "a text": '"/etc"',
    "no derivation": '{ drvPath = "/etc/passwd"; outPath = "/etc"; }',
    "a path of the host": '{ type = "derivation"; drvPath = "/etc/passwd"; outPath = "/etc"; }',
    "words for the build": '{ type = "derivation"; drvPath = "--option"; outPath = "x"; }',
    "no text": '{ type = "derivation"; drvPath = 1; outPath = { }; }',
}


@pytest.mark.parametrize("value", FORGED.values(), ids=FORGED.keys())
def test_attack_32_a_forged_system_is_refused(runner: NixJobRunner, value: str) -> None:
    fixed = f"{{ lib, ... }}: {{ fixture.toplevel = {value}; }}"
    said = runner.evaluate(fixed)
    assert not said["ok"], said


def test_attack_32_the_output_must_equal_the_evaluated_one(runner: NixJobRunner) -> None:
    made = runner.evaluate(PLAIN)
    other = runner.evaluate('{ ... }: { environment.etc.x.text = "y"; }')
    assert made["ok"]
    said = runner.build({**made, "out": other["out"]})
    assert said["text"] == "the build result is not the evaluated system"


SYSTEMS = {
    "a link": "b rm -r $out; b ln -s /etc $out",
    "a file": "b rm -r $out; echo x >$out",
    "an init of the host": "b rm $out/init; b ln -s /bin/sh $out/init",
    "an init that leads out": "b rm $out/init; b ln -s ../../../bin/sh $out/init",
    "an init that leads out in two steps": (
        "b rm $out/init; b ln -s /bin $out/a; b ln -s a/sh $out/init"
    ),
    "an init without end": "b rm $out/init; b ln -s init $out/init",
    "no init": "b rm $out/init",
    "an init that cannot be run": "b rm $out/init; echo >$out/init",
    "no way to switch": "b rm $out/bin/switch-to-configuration",
    "a folder for init": "b rm $out/init; b mkdir $out/init",
}


@pytest.mark.parametrize("script", SYSTEMS.values(), ids=SYSTEMS.keys())
def test_attack_32_a_system_that_leads_out_of_the_store_is_refused(
    runner: NixJobRunner, script: str
) -> None:
    said = runner.build_agent(f'{{ ... }}: {{ fixture.build = "{script}"; }}')
    assert not said["ok"], said
    assert said["text"].startswith("the system ")


def test_attack_32_a_built_system_survives_the_collector_until_it_is_adopted(
    runner: NixJobRunner,
) -> None:
    """The link lies where the host sees it, so that the collector does too."""
    made = runner.build_agent('{ ... }: { environment.etc.kept.text = "kept"; }')
    roots = [path.readlink() for path in runner.store.glob("nix/var/nix/gcroots/auto/*")]
    links = {str(path): str(path.readlink()) for path in roots if path.is_symlink()}
    assert made["out"] in links.values()
    assert all(Path(path).is_relative_to(runner.folder) for path in links)


def test_h13_locking_names_what_it_fetched_and_changes_only_what_is_asked(
    runner: NixJobRunner,
) -> None:
    before, nodes = runner.lock, json.loads(runner.lock)["nodes"]
    try:
        for name in ("hive", "nixpkgs"):
            (Path(runner.inputs[name].removeprefix("path:")) / "changed").write_text(name)
        said = runner.relock("hive")
        assert said["ok"], said
        after = json.loads(runner.lock)["nodes"]
        assert after["nixpkgs"] == nodes["nixpkgs"]
        assert after["hive"]["locked"] != nodes["hive"]["locked"]
        assert len(said["sources"]) == 2
        assert runner.relock()["ok"]
        assert json.loads(runner.lock)["nodes"]["nixpkgs"] != nodes["nixpkgs"]
    finally:
        runner.lock = before


def test_an_unavailable_input_is_reported(runner: NixJobRunner) -> None:
    inputs = runner.inputs
    try:
        runner.inputs = {**inputs, "more": "path:/nonexistent"}
        said = runner.relock("more")
        assert not said["ok"]
        assert "/nonexistent" in said["text"]
    finally:
        runner.inputs = inputs


@pytest.mark.parametrize(
    "words",
    [["bob"], ["Bob", "/x", "9"], ["--help", "/x", "9"], ["bob", "x", "9"], ["bob", "/x", "-1"]],
)
def test_unknown_job_parameters_are_refused(runner: NixJobRunner, words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"needed|is not"):
        nix_evaluate.main(words, runner.room())


def test_an_unreadable_derivation_counts_as_one_that_fetches(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('Derive([("out","/nix/store/x","",""),("dev","y","","")],[],')
    (tmp_path / "b").write_text('Derive([("out","/nix/store/x","",""),("b","y","r:sha256","0")],')
    (tmp_path / "c").write_text("Other([])")
    assert not nix_build.is_fixed_output(tmp_path / "a")
    assert nix_build.is_fixed_output(tmp_path / "b")
    with pytest.raises(NixRefused):
        nix_build.is_fixed_output(tmp_path / "c")


def test_a_link_is_followed_within_the_store_only(tmp_path: Path) -> None:
    store = tmp_path / "nix/store/x"
    store.mkdir(parents=True)
    (store / "file").write_text("")
    (store / "near").symlink_to("file")
    (store / "far").symlink_to("/nix/store/x/near")
    (store / "out").symlink_to("../../../etc")
    room = JobFolders(store=str(tmp_path))
    assert nix_build.resolve_in_store(room, "/nix/store/x/far") == store / "file"
    assert nix_build.resolve_in_store(room, "/nix/store/x/out") is None
    assert nix_build.resolve_in_store(room, "/nix/store/../../etc") is None
