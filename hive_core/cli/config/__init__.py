"""Commands about configuration: approvals, history, the meta repository, git."""
