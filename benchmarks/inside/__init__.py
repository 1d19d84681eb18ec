"""Programs that benchmarks run inside a lab, with the machine's own Python."""
