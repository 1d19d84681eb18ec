"""What then: actions as values, and how each is rendered; pure."""
