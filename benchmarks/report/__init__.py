"""What the benchmarks share: rows, and the table, plots and page that are made of them."""
