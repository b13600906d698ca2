# Two commands set everything up: `make demo` and `make test`. Both install what is missing (tools/deps) first.
.PHONY: all deps demo test test-all asan tsan fuzz bench bench-peers clean

BUILD := build
SEED_SECONDS ?= 60
COMPARE ?=

all: deps
	@cmake --preset release >$(BUILD).configure.log 2>&1 || { cat $(BUILD).configure.log; rm -f $(BUILD).configure.log; exit 1; }
	@rm -f $(BUILD).configure.log
	cmake --build --preset release

deps:
	@tools/deps

demo: all
	tools/demo $(BUILD)/banyan

test: all
	ctest --test-dir $(BUILD) --output-on-failure -j 2 -LE slow

test-all: all
	ctest --test-dir $(BUILD) --output-on-failure -j 2

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

clean:
	rm -rf build build-asan build-tsan build-fuzz
