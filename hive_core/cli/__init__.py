"""The operator's command, over the generated list of operations and the small client."""
