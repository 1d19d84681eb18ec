"""The durable record in SQLite: one small module for each noun. The only door to sqlite3."""
