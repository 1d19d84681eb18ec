"""Operations on the audit log: events, notes, journal lines, loose ends."""
