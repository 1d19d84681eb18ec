"""The SQLite file itself: connection, transactions, opening, backup, and what all nouns share."""
