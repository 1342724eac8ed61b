"""Our figures and the peers', from the same run on the same machine. See docs/BENCHMARKS.md."""
