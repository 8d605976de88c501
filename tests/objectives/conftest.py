"""The checks are shared by rows and mutants, so they live in modules beside the tests."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)
