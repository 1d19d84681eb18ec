"""Operations on machines: start, stop, sleep, and what follows from their ends."""
