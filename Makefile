# The words everybody uses. `make demo` and `make test` work on a fresh machine with Python 3.11+ and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= auto

.PHONY: demo test check kubernetes serving-tools bench bench-cluster bench-queue bench-tune bench-tasks bench-corun studies clean

# Two stamps: the demo needs no development tools, and the stamp is rebuilt when the requirements change.
$(VENV)/.runtime: pyproject.toml src/foretell/model/techniques/trees/_growing.c
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,parquet,energy,ray,torch,kubernetes,spark,secure]'
	touch $@

# The pages are tested in a real browser. Where none is and none can be installed, those tests are skipped.
$(VENV)/.browser: $(VENV)/.runtime
	command -v chromium chromedriver > /dev/null || sh tests/install-browser
	touch $@

# Spark is tested for real, on Java 17. Where none is and none can be installed, those tests are skipped.
$(VENV)/.java: $(VENV)/.runtime
	sh tests/install-java
	touch $@

demo: $(VENV)/.runtime
	$(BIN)/foretell demo

test: $(VENV)/.dev $(VENV)/.browser $(VENV)/.java
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -rs

# A real Kubernetes control plane for the tests of schedulers, built once into a cache outside this folder; about ten
# minutes. Without it those tests are skipped. KUBEBUILDER_ASSETS names a folder with servers that are built already.
kubernetes:
	sh tests/install-kubernetes

# The parsers of Triton, BentoML and Ray Serve for the tests of their formats, in an environment of their own, once.
serving-tools:
	sh tests/install-serving-tools

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.accuracy
	$(BIN)/python -m benchmarks.serve

# What placement by predictions saves and costs (simulated), how fast the extender answers, and how many pods per second
# the standalone scheduler binds (both measured, with `make kubernetes`). About eight minutes.
bench-cluster: $(VENV)/.dev
	$(BIN)/python -m benchmarks.cluster
	$(BIN)/python -m benchmarks.kubernetes
	$(BIN)/python -m benchmarks.standalone

# How true and how fast predictions of queues are: formulas against simulations, ciw and simpy; and against a real Spark,
# for which the machine should do nothing else. About half an hour.
bench-queue: $(VENV)/.dev $(VENV)/.java
	$(BIN)/python -m benchmarks.queue
	$(BIN)/python -m benchmarks.queue_plans
	$(BIN)/python -m benchmarks.queue_study
	$(BIN)/python -m benchmarks.queue_others
	$(BIN)/python -m benchmarks.dispatcher
	$(BIN)/python -m benchmarks.spark
	$(BIN)/python -m benchmarks.spark_kills

# How much sooner searches end, and how true it is what is told of them; for which the machine should do nothing else.
bench-tune: $(VENV)/.dev
	$(BIN)/python -m benchmarks.tune
	$(BIN)/python -m benchmarks.tune_played
	$(BIN)/python -m benchmarks.impact
	$(BIN)/python -m benchmarks.tune_budgets
	$(BIN)/python -m benchmarks.tune_eta
	$(BIN)/python -m benchmarks.deploy

# The cost of empty tasks beside other runtimes, how true forecasts of graphs are, what sandboxes and sealed data cost, and
# 100,000 random programs, in parts that can be resumed; for which the machine should do nothing else. About half an hour.
bench-tasks: $(VENV)/.dev
	$(BIN)/python -m benchmarks.tasks
	$(BIN)/python -m benchmarks.task_forecasts measure benchmarks/output/task-forecasts
	$(BIN)/python -m benchmarks.task_forecasts judge benchmarks/output/task-forecasts
	$(BIN)/python -m benchmarks.random_graphs
	$(BIN)/python -m benchmarks.secure_tasks

# How good and how fast predictions of co-runs are, on the co-runs in examples/; a minute or two.
bench-corun: $(VENV)/.dev
	$(BIN)/python -m benchmarks.corun

# The studies in docs/, from the runs in examples/: writes their tables and pictures again.
studies: study-ray-training study-vgg-layers study-any-program study-placement study-priorities study-impact study-serving study-tuning study-secure-tasks study-co-runs

study-%: $(VENV)/.dev
	$(BIN)/python docs/studies/$(subst -,_,$*).py

clean:
	rm -rf $(VENV) demo-output benchmarks/output
