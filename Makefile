# Two commands do everything on a machine with Python 3.11+ and make:
#   make quickstart   plan, train, compare and report on data that ships with the install
#   make test         what a change is judged by, in minutes: all that proves privacy, and the rest but for
#                     what takes long; properties are tried on the same examples every time
# make test-all adds what takes long and proves no privacy, and compiles what the engine, audits, noise and
# accounting are tested by as users do; CI runs it.
# make site builds the documentation into build/site; a link that leads nowhere fails it
# make reference writes docs/study_file.md, all keys of a study, from the tables that check them
# make search, for the night, tries the properties on new examples; one that fails is kept with @example
# and make mutants checks that the audit catches broken copies of the product and passes sound ones, in minutes
PYTHON ?= python3
unexport PYTHONDONTWRITEBYTECODE  # tests start processes, each of which would compile all modules anew
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
AS_USERS := $(addprefix tests/,audit privacy statistical engines/test_noise.py)

.PHONY: quickstart test test-all search mutants lint reference site clean

quickstart: $(READY)
	$(BIN)/noiseworthy quickstart

test: $(READY)
	$(BIN)/pytest -q -n 2 --dist worksteal

test-all: $(READY)
	XLA_FLAGS= $(BIN)/pytest -q -n 2 --dist worksteal -m 'not slow' $(AS_USERS)
	$(BIN)/pytest -q -n 2 --dist worksteal -m 'not slow' $(addprefix --ignore=,$(AS_USERS))

search: $(READY)
	$(BIN)/pytest -q -n 2 --hypothesis-profile=search $$(grep -rl --include='*.py' '@given' tests papers)

mutants: $(READY)
	$(BIN)/pytest -q -n 2 -m slow tests/mutants tests/audit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

reference: $(READY)
	$(BIN)/python site/study_file.py

site: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(READY): pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[test,site]' -e papers
	touch $@

clean:
	rm -rf $(VENV) .cache build dist runs src/*.egg-info papers/src/*.egg-info
