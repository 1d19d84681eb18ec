"""Says when a path was there: reads paths from standard input, looks at each again and again.

Runs in the container of an agent.
"""

import sys
import time
from pathlib import Path

PAUSE = 0.0001  # so that it leaves the processor to those it waits for


def main() -> None:
    for line in sys.stdin:
        path, waiting = Path(line.rstrip("\n")), True
        print("looking", flush=True)
        while waiting:
            try:
                path.stat()
                waiting = False
            except OSError:
                time.sleep(PAUSE)
        print(time.time(), flush=True)


if __name__ == "__main__":
    main()
