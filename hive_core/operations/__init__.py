"""One declaration for each operation; `load` fills the registry by importing them all."""
