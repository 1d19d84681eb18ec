"""What every command uses: the connection, groups, options, output, progress."""
