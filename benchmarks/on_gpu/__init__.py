"""The parts of `benchmarks/gpu.py`: each is a module with `measure(record)`."""
