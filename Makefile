PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo demo-federated test tests audit fuzz lint bench reproduce docs wheel clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/wmlr demo --out demo

demo-federated: $(STAMP)
	$(BIN)/python -m wmlr.flower.demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(STAMP)
	$(MAKE) --jobs 2 lint tests

tests: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -rs

audit: $(STAMP)
	OMP_NUM_THREADS=1 WMLR_AUDIT=$(or $(EXAMPLES),5000) $(BIN)/python -m pytest -n 2 tests/audit
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist loadfile -m long

fuzz: $(STAMP)
	$(BIN)/python tests/attacks/hand_edits.py 2000 1
	OMP_NUM_THREADS=1 $(BIN)/python tests/attacks/random_fits.py 10000 1
	$(BIN)/python tests/attacks/random_messages.py 5000 1

bench: $(STAMP)
	$(BIN)/wmlr bench --out bench

reproduce: $(STAMP)
	$(BIN)/wmlr reproduce all --out reproduction

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

wheel: $(STAMP)
	$(BIN)/python -m build --outdir dist

clean:
	rm -rf $(VENV) demo bench reproduction build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
