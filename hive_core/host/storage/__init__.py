"""Files of hived: disks, artifacts, secrets, views, event files, backups."""
