"""What `hive-privd` says to a person who types it. The helper itself does not import this."""

import argparse
from collections.abc import Sequence
from typing import Never

from hive_core import VERSION


def answer_person(arguments: Sequence[str]) -> Never:
    """Print help, the version, or why the helper does not start, and end the program."""
    parser = argparse.ArgumentParser(
        "hive-privd",
        description="The root helper of hived. systemd runs it: `systemctl start hive-privd`.",
    )
    parser.add_argument("--version", action="version", version=f"hive-privd {VERSION}")
    parser.parse_args(arguments)
    parser.exit(2, "hive-privd: cannot start: systemd runs it: `systemctl start hive-privd`\n")
