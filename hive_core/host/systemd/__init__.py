"""systemd, the journal, the root helper, jobs and clocks."""
