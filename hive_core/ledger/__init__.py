"""The durable record in SQLite, one package for each noun. Only this package imports sqlite3."""
