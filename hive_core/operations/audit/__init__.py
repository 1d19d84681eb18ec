"""Operations on the log: events, notes, journal lines, loose ends."""
