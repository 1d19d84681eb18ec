"""The three HTTP interfaces of models, a module each."""
