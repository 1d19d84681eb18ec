"""`hive-agent` out of this checkout, for programs that run in another environment."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from hive_core.agent.main import main

main()
