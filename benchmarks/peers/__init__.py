"""Other ways to keep a message durably before its sender hears so, driven from Python too.

Each gives how many messages a second a hundred senders got acknowledged, each of whom sends the
next one when it has heard of the one before. Fsync before the answer, on the same disk as hive.
"""

from typing import Final

SENDERS: Final = 100
SECONDS: Final = 1.5
ROUNDS: Final = 2
BODY: Final = "How is the build?"
