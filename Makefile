# Two commands set everything up: `make demo` and `make test`. All targets install what is missing (tools/deps) first.
# `make help` lists them: the first sentence above a rule is its line there.

.PHONY: all arm64 help docs demo test test-all test-packages install uninstall deb wheels dist install-torch asan tsan fuzz bench benches bench-peers bench-torch clean

BUILD := build
SEED_SECONDS ?= 60
COMPARE ?=
PREFIX ?= /usr/local
DESTDIR ?=
BANYAN_PYTHON ?= /usr/bin/python3
# OFF: tests and packages do without PyTorch.
TORCH ?= ON
# ON: warnings are errors. For those who change Banyan, not for those who use it: compilers to come have other warnings.
WERROR ?= OFF

dest = $(if $(DEST),"$(DEST)")
torch_dependencies = $(if $(filter ON,$(TORCH)),torch)

# $(call build,OPTIONS,TARGETS)
define build
	@cmake --preset release -DBANYAN_WERROR=$(WERROR) "-DBANYAN_PYTHON=$(BANYAN_PYTHON)" "-DCMAKE_INSTALL_PREFIX=$(PREFIX)" $(1) >$(BUILD).configure.log 2>&1 || \
	  { cat $(BUILD).configure.log; rm -f $(BUILD).configure.log; exit 1; }
	@rm -f $(BUILD).configure.log
	cmake --build --preset release --target $(2)
endef

# Builds what is installed, and the examples: the default. The backend of PyTorch where PyTorch is found.
all:
	@tools/deps
	$(call build,-DBANYAN_TESTS=OFF -DBANYAN_TORCH=AUTO -DBANYAN_PYTHON_PACKAGE=AUTO,all)

# Builds what README.md uses and shows it. Nothing more, so that a newcomer does not wait for tests and benches to be built.
demo:
	@tools/deps
	$(call build,-DBANYAN_TESTS=OFF,banyan example_allreduce example_gradients)
	tools/demo $(BUILD)/banyan

# Builds everything and runs the quick tests. They cover the PyTorch backend and the format of the code, so they want PyTorch and clang-format.
# More at a time than a small machine has cores: many tests wait for clocks and other processes.
test:
	@tools/deps test python tidy $(torch_dependencies)
	$(call build,-DBANYAN_TESTS=ON -DBANYAN_TORCH=$(TORCH) -DBANYAN_PYTHON_PACKAGE=ON,all)
	tools/run-tests $(BUILD) -j 4 -LE slow

# All tests. With a browser, for those of the page of predictions, and a compiler for 64-bit Arm, for those that run there.
test-all:
	@tools/deps test deploy python tidy page abi arm64 $(torch_dependencies)
	$(call build,-DBANYAN_TESTS=ON -DBANYAN_TORCH=$(TORCH) -DBANYAN_PYTHON_PACKAGE=ON,all benches)
	tools/run-tests $(BUILD) -j 4

# Builds all but the Python packages for 64-bit Arm, into build-arm64.
arm64:
	@tools/deps test arm64
	tools/arm64-check --libraries build-arm64
	cmake --preset arm64 -DBANYAN_WERROR=$(WERROR) && cmake --build --preset arm64

# Makes the reference of the interfaces: $(BUILD)/docs/html/index.html.
docs:
	@tools/deps docs
	$(call build,-DBANYAN_TESTS=OFF,reference)

# Builds the packages for each release, and installs, uses and removes them there. As root; takes an hour.
test-packages:
	@tools/deps debian
	tools/package-check 12
	tools/package-check 13
	tools/package-check sid

# Installs the program, the library with its headers, and the Python packages for the system's python3. As root where PREFIX wants it.
install:
	@tools/deps
	$(call build,-DBANYAN_TESTS=OFF -DBANYAN_TORCH=AUTO -DBANYAN_PYTHON_PACKAGE=AUTO,banyan_products)
	DESTDIR="$(DESTDIR)" BANYAN_INSTALL_NOTES=1 cmake --install $(BUILD)
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

# Removes what `make install` has installed, wherever that was.
uninstall:
	@cmake -DBUILD=$(BUILD) -P packaging/uninstall.cmake
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

# Makes packages of Debian for this release, into $(BUILD)/packages. TORCH=OFF leaves the backend of PyTorch out.
deb:
	@tools/deps deb python $(torch_dependencies)
	packaging/make_packages $(BUILD) $(TORCH)

# Makes wheels of the Python package for the Python of Debian 12 and of Debian 13, into $(BUILD)/wheels. As root.
wheels:
	@tools/deps debian
	@mkdir -p $(BUILD)/wheels
	set -e; for release in bookworm trixie; do \
	  tools/in-debian $$release --tree wheels --install python3-venv --install twine \
	    sh -c 'tools/deps python && packaging/make_wheels build/wheels'; \
	  cp "$(or $(BANYAN_CHROOTS),$(HOME)/.cache/banyan/chroots)"/$$release/banyan/wheels/build/wheels/*.whl $(BUILD)/wheels; done
	@ls -l $(BUILD)/wheels

# Makes an archive of the sources as they were committed, which knows its version, into $(BUILD).
dist:
	@mkdir -p $(BUILD) && packaging/version file >$(BUILD)/VERSION
	git archive --prefix=banyan-$$(packaging/version)/ --add-file=$(BUILD)/VERSION HEAD | \
	  gzip -9n >$(BUILD)/banyan-$$(packaging/version).tar.gz
	@cd $(BUILD) && sha256sum banyan-$$(../packaging/version).tar.gz

# Installs the package banyan_torch, to where BANYAN_PYTHON finds it, or to DEST=folder.
install-torch:
	@tools/deps torch
	@BANYAN_PYTHON="$(BANYAN_PYTHON)" tools/install-torch --check $(dest)
	$(call build,-DBANYAN_TESTS=OFF -DBANYAN_TORCH=ON,banyan_torch_package)
	BANYAN_PYTHON="$(BANYAN_PYTHON)" tools/install-torch $(BUILD)/python/banyan_torch $(dest)

# The tests with a sanitizer, in a build of its own.
asan tsan:
	@tools/deps test
	cmake --preset $@ && cmake --build --preset $@ && ctest --preset $@

# Every reader and decoder with random inputs, SEED_SECONDS=60 each.
fuzz:
	@tools/deps test fuzz
	cmake --preset fuzz && cmake --build --preset fuzz
	tools/fuzz build-fuzz $(SEED_SECONDS)

# Builds the benchmarks.
benches:
	@tools/deps test
	$(call build,-DBANYAN_TESTS=ON,benches)

# Runs them.
bench: benches
	bench/run $(BUILD)

# Ourselves and other libraries side by side, into $(BUILD)/compare. COMPARE=--quick for a few minutes instead of an hour.
bench-peers:
	@tools/deps test peers
	$(call build,-DBANYAN_TESTS=ON,peers)
	bench/compare.py $(BUILD) $(COMPARE)

# PyTorch over Banyan and over Gloo side by side, into $(BUILD)/compare-torch.
bench-torch:
	@tools/deps torch
	$(call build,-DBANYAN_TESTS=OFF -DBANYAN_TORCH=ON,banyan_torch_package banyan)
	bench/torch_run $(BUILD)

# Lists these targets.
help:
	@awk '/^# / { text = text substr($$0, 2); next } \
	  /^[a-z][a-z0-9 -]*:/ && text { sub(/:.*/, ""); sub(/\. .*/, ".", text); printf "  make %-14s%s\n", $$0, text } \
	  { text = "" }' Makefile
	@echo "Variables: BUILD=$(BUILD) PREFIX=$(PREFIX) DESTDIR= BANYAN_PYTHON=$(BANYAN_PYTHON) TORCH=$(TORCH) WERROR=$(WERROR)"

# Removes what the builds have made.
clean:
	rm -rf build build-arm64 build-asan build-tsan build-fuzz
