# Two commands set everything up: `make demo` and `make test`. Both install what is missing (tools/deps) first.
.PHONY: all configure deps deps-torch deps-page docs demo test test-all install-torch asan tsan fuzz bench bench-peers bench-torch clean

BUILD := build
SEED_SECONDS ?= 60
COMPARE ?=

all: deps configure
	cmake --build --preset release

# TORCH=ON where PyTorch must be found.
TORCH = AUTO
# The same of the Python package and pybind11.
PYTHON = AUTO
configure:
	@cmake --preset release -DBANYAN_TORCH=$(TORCH) -DBANYAN_PYTHON_PACKAGE=$(PYTHON) >$(BUILD).configure.log 2>&1 || { cat $(BUILD).configure.log; rm -f $(BUILD).configure.log; exit 1; }
	@rm -f $(BUILD).configure.log

deps:
	@tools/deps

# The tests cover the PyTorch backend and the format of the code, so they want PyTorch and clang-format.
test test-all install-torch bench-torch: TORCH = ON
test test-all: PYTHON = ON
deps-torch: deps
	@tools/deps torch python tidy
# A browser, for the tests of the page of predictions; without one they are skipped.
deps-page: deps
	@tools/deps page

# What README.md uses and nothing more, so that a newcomer does not wait for tests and benches to be built.
demo: deps configure
	cmake --build --preset release --target banyan example_allreduce example_gradients
	tools/demo $(BUILD)/banyan

# More at a time than a small machine has cores: many tests wait for clocks and other processes.
test: deps-torch all
	ctest --test-dir $(BUILD) --output-on-failure -j 3 -LE slow

test-all: deps-torch deps-page all
	ctest --test-dir $(BUILD) --output-on-failure -j 3

# The reference of the interfaces: $(BUILD)/docs/html/index.html.
docs: deps
	@tools/deps docs
	@$(MAKE) --no-print-directory configure
	cmake --build --preset release --target reference

# The package banyan_torch, to where the system's python3 finds it, or to DEST=folder.
install-torch: deps-torch configure
	cmake --build --preset release --target banyan_torch_package
	tools/install-torch $(BUILD)/python/banyan_torch $(DEST)

asan tsan: deps
	cmake --preset $@ && cmake --build --preset $@ && ctest --preset $@

fuzz:
	@tools/deps fuzz
	cmake --preset fuzz && cmake --build --preset fuzz
	tools/fuzz build-fuzz $(SEED_SECONDS)

bench: all
	bench/run $(BUILD)

# Ourselves and other libraries side by side, into $(BUILD)/compare. COMPARE=--quick for a few minutes instead of an hour.
bench-peers:
	@tools/deps peers
	cmake --preset release && cmake --build --preset release --target peers
	bench/compare.py $(BUILD) $(COMPARE)

# PyTorch over Banyan and over Gloo side by side, into $(BUILD)/compare-torch.
bench-torch: deps-torch configure
	cmake --build --preset release --target banyan_torch_package banyan
	bench/torch_run $(BUILD)

clean:
	rm -rf build build-asan build-tsan build-fuzz
