"""Rows of approvals, deploys, generations and rollouts."""
