"""Deploys: from a proposed commit to an agent that runs it and is healthy, or back."""
