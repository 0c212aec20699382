# Every target sets up what it needs. Python >= 3.11 and make are the only requirements.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
# What a user of the project needs: `make help` shows these targets first.
FOR_USERS := run story console docs zipapp image image-archive release
targets = awk -F ':.*\#\# ' '/^[a-z0-9-]+:.*\#\# / && $(1)index(" $(2) ", " " $$1 " ") {printf "  make %-24s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Keep compiled modules regardless of the environment: the tests start many processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## Show this list
	@echo 'For users:'
	@$(call targets,,$(FOR_USERS))
	@echo 'For changes (CONTRIBUTING.md):'
	@$(call targets,!,$(FOR_USERS))

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "berthmaster needs Python 3.11 or newer; name it with PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)

# Install the pins first, then the project in editable mode, so that commands use the checkout.
$(VENV)/.run: $(BIN)/python requirements/run.txt pyproject.toml berthmaster/version.py
	@echo "Setting up $(VENV) (only when the pins change) ..."
	@$(PIP) install -r requirements/run.txt
	@$(PIP) install --no-deps --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	@$(PIP) install -r requirements/dev.txt
	@touch $@

.PHONY: run
run: $(VENV)/.run ## Start here: schedule the manifests of examples/ and explain each placement
	@sh examples/first.sh $(BIN)/berthmaster

.PHONY: story
story: $(VENV)/.run ## The rest of the examples: the ledger, a replay, and both services on loopback
	@sh examples/story.sh $(BIN)/berthmaster

.PHONY: placement-tests
placement-tests: $(VENV)/.run ## Run the placement tests of examples/
	@$(BIN)/berthmaster test examples/tests $(ARGS)

.PHONY: test
test: $(VENV)/.dev ## Run the tests
	@$(BIN)/pytest --numprocesses=3 --dist=worksteal $(ARGS)

.PHONY: test-pythons
test-pythons: ## Run the tests with each newer Python on the PATH (3.12 to 3.14), each in .venv-VERSION
	@for version in 3.12 3.13 3.14; do \
		python=$$(for each in python$$version "$$HOME"/.pyenv/versions/$$version.*/bin/python; do \
			"$$each" -c '' 2>/dev/null && echo "$$each" && break; done); \
		if [ -z "$$python" ]; then echo "Python $$version is not installed"; continue; fi; \
		echo "Python $$version: $$python"; \
		$(MAKE) --no-print-directory test PYTHON="$$python" VENV=.venv-$$version || exit; \
	done

.PHONY: contract
contract: $(VENV)/.dev ## Run the tests of whole services, over sockets, and of controllers beside a model of Karmada
	@$(BIN)/pytest --numprocesses=4 --dist=worksteal tests/contract $(ARGS)  # most wait, so use more processes than cores

$(VENV)/.e2e: $(VENV)/.run requirements/e2e.txt
	@$(PIP) install -r requirements/e2e.txt
	@touch $@

.PHONY: e2e-assets
e2e-assets: $(BIN)/python ## Build etcd, kubectl, kwok and the components of Kubernetes once (needs Go, about eight minutes)
	@$(BIN)/python tests/e2e/assets.py

.PHONY: e2e
e2e: $(VENV)/.e2e ## Run the tests that need a real API server (after e2e-assets)
	@$(BIN)/pytest tests/e2e $(ARGS)

.PHONY: e2e-node
e2e-node: $(VENV)/.e2e helm ## Run the chart on a node with containerd and kubelet (root on Debian 12, after make image and e2e-assets)
	@if [ "$$(id -u)" = 0 ]; then BERTHMASTER_NODE=namespaces unshare --net --mount --pid --fork --kill-child --mount-proc \
		$(BIN)/pytest tests/node -s $(ARGS); else $(BIN)/pytest tests/node $(ARGS); fi

.PHONY: acceptance
acceptance: $(VENV)/.e2e ## Run the acceptance scenarios on the Karmada that KARMADA_KUBECONFIG names
	@if [ -z "$$KARMADA_KUBECONFIG$$KUBEADMIRAL_KUBECONFIG" ]; then echo "skipped: KARMADA_KUBECONFIG and KUBEADMIRAL_KUBECONFIG name no control plane (docs/testing.md)"; \
	else $(BIN)/pytest tests/acceptance $(ARGS); fi

.PHONY: fleet
fleet: $(VENV)/.e2e ## Play scenarios of moves on member clusters that run pods (after e2e-assets)
	@$(BIN)/pytest tests/fleet $(ARGS)

.PHONY: chaos
chaos: $(VENV)/.e2e ## Play random events on member clusters that run pods (DURATION=600 SEED=1, after e2e-assets)
	@PYTHONPATH=tests $(BIN)/python -m fleet.chaos $(ARGS)

.PHONY: karmada-suite
karmada-suite: $(VENV)/.e2e ## Play Karmada's own end-to-end suite with karmada-scheduler and with Berthmaster (after e2e-assets)
	@PYTHONPATH=tests $(BIN)/python -m karmada_suite $(ARGS)

.PHONY: helm
helm: $(BIN)/python ## Download the helm binary that the chart tests use (once)
	@$(BIN)/python tests/charts/assets.py

.PHONY: chart
chart: $(VENV)/.dev helm ## Render the chart in all its variants and check the result
	@$(BIN)/pytest tests/charts $(ARGS)

# npm fetches the scripts of the console by their pinned checksums. Everything else works without them.
console/static/vendor/LICENSES.txt: console/assets/package-lock.json packaging/console_assets.py | $(BIN)/python
	@$(BIN)/python packaging/console_assets.py

.PHONY: console
console: $(VENV)/.dev ## Show the console with a generated fleet of 200 clusters (ARGS="--clusters 1000 --workloads 10000")
	@$(if $(shell command -v npm),$(MAKE) --no-print-directory console-assets,echo "npm is not on the PATH: pages do not update themselves (Debian: apt-get install npm)")
	@$(BIN)/python tests/console_demo.py $(ARGS)

.PHONY: console-assets
console-assets: console/static/vendor/LICENSES.txt ## Fetch the scripts of the console from the npm registry (once, needs npm)

.PHONY: image-test
image-test: $(VENV)/.dev console-assets ## Run the steps of the Containerfile and check the result
	@$(BIN)/pytest tests/image $(ARGS)

VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' berthmaster/version.py)

.PHONY: image
image: $(BIN)/python console-assets ## Build the image into dist/ from Debian packages (PLATFORMS="amd64 arm64"; BASE=registry/python@sha256:... uses podman or BUILDER=docker)
	@$(if $(BASE),$(or $(BUILDER),podman) build --file Containerfile --build-arg BASE=$(BASE) --build-arg VERSION=$(VERSION) \
		--build-arg REVISION=$$(git rev-parse HEAD) --tag localhost/berthmaster:$(VERSION) .,\
		$(BIN)/python packaging/image.py $(if $(PLATFORMS),--platform $(PLATFORMS)))

.PHONY: image-archive
image-archive: image ## Write dist/berthmaster-image.tar, which ctr, podman, docker and kind load
	@$(if $(BASE),mkdir -p dist && $(or $(BUILDER),podman) save --output dist/berthmaster-image.tar localhost/berthmaster:$(VERSION),test -f dist/berthmaster-image.tar)

.PHONY: image-lock
image-lock: $(BIN)/python ## Write the versions of Debian packages that the image consists of (on Debian 12)
	@$(BIN)/python packaging/image.py --lock

.PHONY: image-sign
image-sign: ## Sign the files of the image (KEY=cosign.key), or IMAGE=registry/name@sha256:... in a registry
	@command -v cosign >/dev/null || { echo "install cosign to sign the image (docs/release.md)" >&2; exit 2; }
	@test -n "$(KEY)" || { echo "name the key: make image-sign KEY=cosign.key" >&2; exit 2; }
	@$(if $(IMAGE),cosign sign --key $(KEY) $(IMAGE),for file in dist/berthmaster-image*.tar dist/berthmaster-oci/index.json dist/berthmaster-image*.json; do \
		cosign sign-blob --yes --key $(KEY) --output-signature $$file.sig $$file || exit; done)

.PHONY: zipapp
zipapp: $(BIN)/python ## Build the command as one file into dist/, which needs Python 3.11 or newer and no pip (ARGS="--platform linux-arm64")
	@$(BIN)/python packaging/zipapp/build.py --output dist $(ARGS)

.PHONY: release
release: $(BIN)/python console-assets ## Write all files of a release to dist/ (on Debian 12; REPOSITORY=URL adds the kubectl plugin)
	@$(BIN)/python packaging/release.py $(if $(REPOSITORY),--repository $(REPOSITORY)) $(if $(PLATFORMS),--platform $(PLATFORMS))

.PHONY: lint
lint: $(VENV)/.dev ## Check style, types, the direction of imports, and the order of modules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python packaging/message_comparisons.py
	@$(BIN)/python packaging/constants_first.py

.PHONY: size
size: $(BIN)/python ## Print the statements of each room, without imports and docstrings
	@$(BIN)/python packaging/size.py

.PHONY: format
format: $(VENV)/.dev ## Format the sources
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: bench
bench: $(VENV)/.run ## Time the scheduling engine (ARGS="--input FILE" for fleets of your own)
	@$(BIN)/python bench/scheduling.py $(ARGS)

.PHONY: bench-webhook
bench-webhook: $(VENV)/.dev ## Time the admission webhook over TLS (uses wrk if it is installed)
	@PYTHONPATH=tests $(BIN)/python bench/admission.py $(ARGS)

.PHONY: bench-extender
bench-extender: $(VENV)/.dev ## Time the extender over real sockets
	@$(BIN)/python bench/extender_service.py $(ARGS)

.PHONY: bench-controllers
bench-controllers: $(VENV)/.e2e ## Time the binding scheduler on a real API server (after e2e-assets)
	@PYTHONPATH=tests $(BIN)/python bench/controllers.py $(ARGS)

.PHONY: bench-controllers-memory
bench-controllers-memory: $(VENV)/.e2e ## Measure the binding scheduler's memory with 10,000 bindings and 1,000 clusters (after e2e-assets)
	@PYTHONPATH=tests $(BIN)/python bench/controllers_memory.py $(ARGS)

.PHONY: bench-extender-memory
bench-extender-memory: $(VENV)/.e2e ## Measure an extender that watches 10,000 bindings with their templates, and 1,000 clusters
	@PYTHONPATH=tests $(BIN)/python bench/extender_memory.py $(ARGS)

.PHONY: bench-beside
bench-beside: $(VENV)/.e2e ## Measure what other clients notice of long plans, simulations and questions about failures
	@PYTHONPATH=tests $(BIN)/python bench/beside.py $(ARGS)

.PHONY: bench-scale
bench-scale: $(VENV)/.e2e ## Measure how memory and cost grow up to 100,000 bindings and 5,000 clusters
	@PYTHONPATH=tests $(BIN)/python bench/scale.py $(ARGS)

.PHONY: bench-console-api
bench-console-api: $(VENV)/.dev ## Time what the console asks most, with 10,000 and with 100,000 workloads
	@PYTHONPATH=tests $(BIN)/python bench/console_api.py $(ARGS)

.PHONY: bench-impact
bench-impact: $(VENV)/.e2e ## Time plans of an extender that watches 10,000 bindings, as the webhook asks for them
	@PYTHONPATH=tests $(BIN)/python bench/impact.py $(ARGS)

.PHONY: bench-gate
bench-gate: $(VENV)/.dev ## Attack the gate blast-radius with large changes, dry runs and plans, on 10,000 workloads
	@PYTHONPATH=tests $(BIN)/python bench/gate.py $(ARGS)

.PHONY: bench-gate-histories
bench-gate-histories: $(VENV)/.dev ## Play thousands of random histories of policies behind the gate (GATE_HISTORIES=10000)
	@GATE_HISTORIES=$${GATE_HISTORIES:-10000} $(BIN)/pytest -q -n 2 tests/properties/test_gate.py $(ARGS)

.PHONY: bench-move-budgets
bench-move-budgets: $(VENV)/.dev ## Search for an interleaving of leaders, writes and clock steps that exceeds a budget of moves
	@BERTHMASTER_EXAMPLES=2000 $(BIN)/pytest -q tests/properties/test_move_budgets.py $(ARGS)

.PHONY: bench-console
bench-console: $(VENV)/.e2e console-assets ## Time the pages of the console at 1,000 clusters and 10,000 workloads
	@PYTHONPATH=tests $(BIN)/python bench/console.py $(ARGS)

.PHONY: bench-hostile
bench-hostile: $(VENV)/.dev ## Measure what hostile documents cost, and what other clients notice
	@PYTHONPATH=tests PYTHONHASHSEED=0 $(BIN)/python bench/hostile.py $(ARGS)

.PHONY: bench-live
bench-live: $(VENV)/.e2e ## Time simulate and explain on a live control plane (after e2e-assets)
	@PYTHONPATH=tests $(BIN)/python bench/live.py $(ARGS)

.PHONY: bench-moves-histories
bench-moves-histories: $(VENV)/.dev ## Play thousands of random histories of moves (MOVE_HISTORIES=4000)
	@MOVE_HISTORIES=$${MOVE_HISTORIES:-4000} $(BIN)/pytest -q -n 2 tests/properties/test_move_histories.py

.PHONY: bench-completion
bench-completion: $(VENV)/.e2e ## Time the completion of names on a real API server with 10,000 workloads (after e2e-assets)
	@PYTHONPATH=tests $(BIN)/python bench/completion.py $(ARGS)

.PHONY: bench-plan
bench-plan: $(VENV)/.run ## Time plans of small and of large changes with 10,000 workloads on 1,000 clusters
	@$(BIN)/python bench/plan.py $(ARGS)

.PHONY: bench-drift
bench-drift: $(VENV)/.run ## Measure drift after 200 random events, and what a full and a minimal repair move
	@$(BIN)/python bench/drift.py $(ARGS)

.PHONY: bench-plan-property
bench-plan-property: $(VENV)/.dev ## Compare 10,000 plans with what then happens, on a model of Karmada
	@PYTHONPATH=tests $(BIN)/python bench/plan_property.py $(ARGS)

.PHONY: bench-present-property
bench-present-property: $(VENV)/.dev ## Compare simulations without changes with what schedulers then do (FLEETS=1700)
	@FLEETS=$${FLEETS:-1700} $(BIN)/pytest -q -n 2 tests/properties/test_fleets_in_use.py

.PHONY: bench-left-property
bench-left-property: $(VENV)/.dev ## Compare what answers call left by a loss with what members then run (FLEETS=1000)
	@FLEETS=$${FLEETS:-1000} $(BIN)/pytest -q -n 2 tests/properties/test_losses.py

.PHONY: bench-question-property
bench-question-property: $(VENV)/.dev ## Ask 10,000 questions in every way that there is, and compare the figures (QUESTION_FLEETS=170)
	@QUESTION_FLEETS=$${QUESTION_FLEETS:-170} $(BIN)/pytest -q -n 2 tests/properties/test_one_question.py

.PHONY: bench-why-not-property
bench-why-not-property: $(VENV)/.dev ## Ask 2,000 times why a workload is not on a cluster, and simulate each answer (WHY_NOT_FLEETS=90)
	@WHY_NOT_FLEETS=$${WHY_NOT_FLEETS:-90} $(BIN)/pytest -q -n 2 tests/properties/test_why_not.py

.PHONY: bench-loss-property
bench-loss-property: $(VENV)/.dev ## Compare 1,600 losses of clusters with what then happens, on a model of Karmada
	@PYTHONPATH=tests $(BIN)/python bench/losses.py $(ARGS)

.PHONY: bench-way
bench-way: $(VENV)/.e2e ## Count the files that one binding and one plan pass (ARGS=--list names them)
	@PYTHONPATH=tests $(BIN)/python bench/way.py $(ARGS)

.PHONY: bench-ledger
bench-ledger: $(VENV)/.run ## Measure the size, the overhead and the query times of the ledger (ARGS="--decisions 1000000")
	@$(BIN)/python bench/ledger.py $(ARGS)

.PHONY: bench-ledger-property
bench-ledger-property: $(VENV)/.e2e ## Record and replay thousands of random histories on SQLite and PostgreSQL (LEDGER_HISTORIES=2000)
	@LEDGER_HISTORIES=$${LEDGER_HISTORIES:-2000} $(BIN)/pytest -q -n 2 tests/properties/test_ledger.py $(ARGS)
	@LEDGER_HISTORIES=$${LEDGER_HISTORIES:-2000} $(BIN)/pytest -q tests/e2e/test_ledger.py -k random_histories $(ARGS)

.PHONY: soak
soak: $(VENV)/.dev ## Test webhook, extender and console under bad clients: pipelining, slow readers, dribbling bodies, full ports
	@PYTHONPATH=tests $(BIN)/python bench/soak.py $(ARGS)

.PHONY: cost
cost: $(VENV)/.dev ## Find work that grows faster than n log n in any input
	@PYTHONPATH=tests PYTHONHASHSEED=0 $(BIN)/python tests/cost_growth.py $(ARGS)

.PHONY: compatibility
compatibility: $(VENV)/.dev ## Write the tables of docs/compatibility*.md (KARMADA=/path/to/clone reads the fields of releases first)
	@$(if $(KARMADA),$(BIN)/python tests/compatibility/derive.py $(KARMADA))
	@PYTHONPATH=tests $(BIN)/python tests/field_page.py

.PHONY: protobuf
protobuf: $(VENV)/.dev ## Generate the messages of Karmada's estimators from estimator.proto
	@$(BIN)/python -m grpc_tools.protoc --proto_path=. --python_out=. berthmaster/controllers/estimators/estimator.proto

.PHONY: reference
reference: $(VENV)/.dev ## Write docs/reference/, docs/rules/, docs/schemas/ and the table of completion from the commands, the rules and the types
	@$(BIN)/python tests/command_pages.py
	@$(BIN)/python tests/command_rows.py
	@$(BIN)/python tests/rule_pages.py
	@$(BIN)/python tests/placement_test_schema.py

$(VENV)/.docs: $(BIN)/python requirements/docs.txt
	@$(PIP) install -r requirements/docs.txt
	@touch $@

# npm fetches the script that draws diagrams, by its pinned checksum. Without npm, the theme loads it from unpkg.com.
DIAGRAMS := $(if $(shell command -v npm),docs/vendor/LICENSES.txt)
docs/vendor/LICENSES.txt: packaging/site/package-lock.json packaging/site_assets.py | $(BIN)/python
	@$(BIN)/python packaging/site_assets.py

.PHONY: docs
docs: $(VENV)/.docs $(DIAGRAMS) ## Build the site of docs/ into dist/site; a broken link, anchor, menu or spelling fails
	@$(if $(DIAGRAMS),,echo "npm is not on the PATH: the diagrams of the site need the network (Debian: apt-get install npm)")
	@$(BIN)/codespell README.md CONTRIBUTING.md CHANGELOG.md docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "The site is $(abspath dist/site)/index.html: python3 -m http.server --bind 127.0.0.1 --directory dist/site 8000"

.PHONY: docs-version
docs-version: $(VENV)/.docs $(DIAGRAMS) ## Add the site of this version to the branch gh-pages, beside those of earlier versions
	@NO_MKDOCS_2_WARNING=1 PATH="$(abspath $(BIN)):$$PATH" $(BIN)/mike --quiet deploy --update-aliases $(VERSION) latest
	@$(BIN)/mike --quiet set-default latest

.PHONY: coverage
coverage: $(VENV)/.dev ## Run the tests and show uncovered lines
	@$(BIN)/coverage run -m pytest -q
	@$(BIN)/coverage report

.PHONY: ci
ci: ## Run everything that must pass before a change lands
	@bash .ci/run

.PHONY: pictures
pictures: $(VENV)/.run ## Draw the pictures of README.md from the output of the commands
	@$(BIN)/python docs/pictures.py

.PHONY: console-pictures
console-pictures: $(VENV)/.e2e console-assets ## Take the pictures of docs/console.md with Chromium
	@$(BIN)/python docs/console_pictures.py

.PHONY: pins
pins: $(VENV)/.dev ## Compile requirements/*.txt from pyproject.toml
	@$(PIP) install "uv>=0.5,<1"
	@sh requirements/compile.sh $(BIN)/uv

.PHONY: wheels
wheels: $(BIN)/python ## Check that a wheel of every dependency exists for amd64 and arm64 (needs the network)
	@$(BIN)/python packaging/wheels.py $(ARGS)

.PHONY: clean
clean: ## Remove the virtual environment and all caches
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
