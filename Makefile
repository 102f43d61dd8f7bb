# Builds the command-line tool, the examples and the tests of dcp.h. A program that uses dcp.h needs none of this: copy
# dcp.h and include it.
#
#     make                          build/dcptool
#     make help                     what else there is
#     make test                     all tests that this machine can run; last `N passed, N failed, N skipped`
#     make test SUITES="json meta" VARIANTS="plain asan" DCP_TEST_FILTER=text           some of them
#     make CC=clang CFLAGS="-O3 -march=native"                                          another compiler, other flags
#
# Everything that is built goes below build/. Needs GNU make.

CFLAGS ?= -O2
export CFLAGS
# Make's own cc and g++ are not told to the scripts: nobody asked for them.
ifneq ($(origin CC),default)
export CC
endif
ifneq ($(origin CXX),default)
export CXX
endif

CRASH_STATES ?= 250000
INTERLEAVE ?= 1
POWER_CUTS ?= 200
CYCLES ?= 10000

# examples/x.c, and examples/topic/x.c: build/examples/topic/x
EXAMPLES := $(patsubst examples/%.c,build/examples/%, \
    $(filter-out examples/dcptool/%,$(wildcard examples/*.c examples/*/*.c))) \
    $(if $(shell command -v $(CXX) 2>/dev/null),build/examples/cpp/simulation) \
    $(if $(shell command -v nvcc 2>/dev/null),build/examples/cuda_train)
# What a change makes everything stale; wildcard, so that a header that is not there is not missed.
HEADERS := $(wildcard dcp*.h tests/*.h tests/regress/*.h)
FUZZ := $(wildcard tests/fuzz/*)

all: build/dcptool                      ## build/dcptool, the command-line tool (the default)

help:                                   ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | \
	    while IFS='	' read -r name text; do printf 'make %-15s %s\n' "$$name" "$$text"; done

test:                                   ## all tests that can run; needs a C compiler and make
	@MAKE='$(MAKE)' SUITES='$(SUITES)' VARIANTS='$(VARIANTS)' sh tests/run.sh

test-all:                               ## every suite in every variant that can run it: half an hour
	@WHOLE=1 MAKE='$(MAKE)' SUITES='$(SUITES)' VARIANTS='$(VARIANTS)' sh tests/run.sh

analyze:                                ## the headers under clang-tidy, cppcheck, gcc -fanalyzer
	@sh tests/test_analyzers.sh

matrix:                                 ## test_golden.c by every compiler and language: half an hour
	@sh tests/matrix.sh

soak: soak-crash soak-interleave soak-power soak-calls soak-cycles soak-model ## the six below, in depth: long runs
soak-crash: build/plain/test_crash      ## disks after power cuts; CRASH_STATES=250000
	@WHOLE=1 DCP_TEST_CRASH_STATES=$(CRASH_STATES) DCP_TEST_TIMEOUT=0 build/plain/test_crash
soak-interleave: build/plain/test_interleave ## more interleavings; INTERLEAVE=2: the largest, gigabytes
	@DCP_TEST_INTERLEAVE=$(INTERLEAVE) DCP_TEST_TIMEOUT=0 build/plain/test_interleave
soak-power: build/plain/test_disasters  ## power cuts of ext4 and xfs; POWER_CUTS=200; as root
	@DCP_TEST_POWER_CUTS=$(POWER_CUTS) DCP_TEST_TIMEOUT=0 DCP_TEST_FILTER=_on_ build/plain/test_disasters
soak-calls: build/plain/test_disasters  ## each system call fails in each way; needs strace
	@DCP_TEST_WHOLE=1 DCP_TEST_TIMEOUT=0 DCP_TEST_CYCLES=10 build/plain/test_disasters
soak-cycles: build/plain/test_disasters ## save, kill and restore; CYCLES=10000
	@DCP_TEST_CYCLES=$(CYCLES) DCP_TEST_TIMEOUT=0 DCP_TEST_FILTER=cycles build/plain/test_disasters

soak-model: build/plain/test_model      ## random programs beside a model; MINUTES=60
	@DCP_MODEL_MINUTES=$(or $(MINUTES),60) DCP_TEST_TIMEOUT=0 build/plain/test_model

coverage:                               ## lines and branches of dcp.h that tests reach; SHOW=json
	@SHOW='$(SHOW)' SUITES='$(SUITES)' KEEP='$(KEEP)' python3 tests/coverage.py

mutants:                                ## small errors that suites must notice; MUTANTS=300 SEED=n
	@MUTANTS='$(MUTANTS)' SEED='$(SEED)' SHOW='$(SHOW)' CHAPTERS='$(CHAPTERS)' python3 tests/mutants.py

mutants-model:                          ## fixes taken out: random programs find each; SECONDS=300
	@MODEL=$(or $(SECONDS),300) MAKE='$(MAKE)' sh tests/test_mutants.sh

fuzz:                                   ## libFuzzer; MINUTES=10 RUNS=n TARGETS="json yaml"
	@MINUTES='$(MINUTES)' RUNS='$(RUNS)' TARGETS='$(TARGETS)' sh tests/fuzz/run.sh

demo: build/dcptool                     ## trains on 4 ranks, killed in saves, resumes with 3 and 6
	@DCPTOOL=build/dcptool sh examples/demo.sh

demo-mpi: build/dcptool                 ## the same with processes of MPI, under mpirun
	@DCPTOOL=build/dcptool sh examples/demo.sh --mpi

sizes:                                  ## what dcp.h and its switches cost: bytes, seconds to compile
	@CC='$(CC)' sh tests/sizes.sh

bench: build/bench                      ## speed and memory; BENCH="--quick" for options
	@build/bench $(BENCH)

bench-scale: build/bench_scale          ## documents of 1,000 and 10,000 ranks; SCALE="64x1000"
	@build/bench_scale $(SCALE)

test-gpu:                               ## the suite of dcp_cuda.h on a real GPU; needs CUDA
	@sh tests/test_cuda.sh gpu

bench-gpu: build/bench_gpu              ## staging on a real GPU; GPU="8 /dev/shm": GiB, directory
	@build/bench_gpu $(GPU)
	@if python3 -c 'import torch' 2>/dev/null; then python3 tests/bench_torch.py $(GPU); \
	else echo 'PyTorch is not there: not compared'; fi

examples: $(EXAMPLES) build/dcptool     ## build/examples/* and build/dcptool

# ---- what programs use that do not copy dcp.h ------------------------------------------------------------------------
# Programs and library are of the same version, exactly: so is the name by which they ask for it.
VERSION := $(shell sed -n 's/^\#define DCP_VERSION "\(.*\)"/\1/p' dcp.h)
SHARED := libdcp.so.$(VERSION)
lib: build/lib/libdcp.a build/lib/libdcp.so ## build/lib/libdcp.so, which exports dcp_*, and libdcp.a
build/lib/dcp.o: examples/dcptool/dcp.c dcp.h build/command/main
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fPIC -c $< -o $@
build/lib/shared.o: examples/dcptool/dcp.c dcp.h build/command/main
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fPIC '-DDCPDEF=extern __attribute__((visibility("default")))' -c $< -o $@
build/lib/libdcp.a: build/lib/dcp.o
	rm -f $@ && $(AR) rc $@ $<
build/lib/libdcp.so: build/lib/shared.o
	$(CC) $(CFLAGS) -shared -Wl,-soname,$(SHARED) -Wl,-z,defs $< -o build/lib/$(SHARED) -pthread
	ln -sf $(SHARED) $@

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MAN = $(DESTDIR)$(PREFIX)/share/man/man1
COMPLETION = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
CMAKE_FILES = $(DESTDIR)$(LIBDIR)/cmake/dcp
PLACES = sed 's|@version@|$(VERSION)|; s|@prefix@|$(PREFIX)|; s|@libdir@|$(LIBDIR)|; s|@includedir@|$(INCLUDEDIR)|'
install: build/dcptool lib              ## headers, libraries, dcptool, dcp.pc; PREFIX=/usr/local DESTDIR=
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(INCLUDEDIR)' '$(DESTDIR)$(LIBDIR)/pkgconfig' '$(CMAKE_FILES)' \
	    '$(MAN)' '$(COMPLETION)'
	install -m 644 dcp.h dcp_mpi.h dcp_cuda.h '$(DESTDIR)$(INCLUDEDIR)'
	install -m 644 build/lib/libdcp.a '$(DESTDIR)$(LIBDIR)'
	install -m 755 build/lib/$(SHARED) '$(DESTDIR)$(LIBDIR)'
	ln -sf $(SHARED) '$(DESTDIR)$(LIBDIR)/libdcp.so'
	install -m 755 build/dcptool '$(DESTDIR)$(PREFIX)/bin'
	build/dcptool help --man >build/dcptool.1 && install -m 644 build/dcptool.1 '$(MAN)'
	build/dcptool help --bash >build/dcptool.bash && install -m 644 build/dcptool.bash '$(COMPLETION)/dcptool'
	$(PLACES) examples/cmake/dcp.pc.in >build/dcp.pc && install -m 644 build/dcp.pc '$(DESTDIR)$(LIBDIR)/pkgconfig'
	$(PLACES) examples/cmake/dcpConfig.cmake.in >build/dcpConfig.cmake
	$(PLACES) examples/cmake/dcpConfigVersion.cmake.in >build/dcpConfigVersion.cmake
	install -m 644 build/dcpConfig.cmake build/dcpConfigVersion.cmake '$(CMAKE_FILES)'

# The same bytes from the same files, whoever makes it, where and when: sorted, owned by root, dated as the last commit
# or as SOURCE_DATE_EPOCH says; outside a repository as dcp.h. Needs GNU tar.
DIST := dcp-$(VERSION)
dist:                                   ## build/dcp-<version>.tar.gz, the same bytes for the same files
	@mkdir -p build
	@{ git ls-files 2>/dev/null || find . -type f ! -path './build/*' | cut -c3-; } | \
	    while read -r file; do [ ! -f "$$file" ] || echo "$$file"; done | LC_ALL=C sort >build/dist.txt
	@date=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || date -r dcp.h +%s)} && \
	    tar -c --format=ustar --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s --mtime=@$$date \
	    --transform='s|^|$(DIST)/|' -T build/dist.txt | gzip -9n >build/$(DIST).tar.gz
	@echo build/$(DIST).tar.gz

clean:                                  ## removes build/
	rm -rf build

.PHONY: all help test test-all analyze matrix fuzz coverage mutants mutants-model test-gpu \
    soak soak-crash soak-interleave soak-power soak-calls soak-cycles soak-model \
    demo demo-mpi sizes bench bench-scale bench-gpu examples lib install dist clean FORCE
.DELETE_ON_ERROR:
.SECONDARY:                             # what is built on the way stays

# The library in it is the tests' build/dcp.o, unless other flags are asked for.
TOOL := $(patsubst examples/dcptool/%.c,build/tool/%.o,$(wildcard examples/dcptool/*.c))
ifeq ($(strip $(CFLAGS)),-O2)
TOOL := $(TOOL:build/tool/dcp.o=build/dcp.o)
endif
build/dcptool: $(TOOL)
	$(CC) $(CFLAGS) $^ -o $@ -lm -pthread
build/tool/%.o: examples/dcptool/%.c dcp.h $(wildcard examples/dcptool/*.h) build/command/main
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c $< -o $@

# With the compiler of an MPI, where there is one.
MPICC ?= mpicc
OF_MPI := $(shell grep -l '^\#define DCP_MPI$$' examples/*.c examples/*/*.c)
$(OF_MPI:examples/%.c=build/examples/%): build/examples/%: examples/%.c $(HEADERS) build/command/main
	@mkdir -p $(@D)
	@if command -v $(MPICC) >/dev/null 2>&1; then set -x; $(MPICC) $(CFLAGS) -I. $< -o $@ -lm -pthread; \
	else echo '$< is left out: $(MPICC) is not there (libopenmpi-dev or libmpich-dev has it)'; fi

# With OpenSSL, where it is.
build/examples/sign_ed25519: examples/sign_ed25519.c $(HEADERS) build/command/main
	@mkdir -p $(@D)
	@if printf '#include <openssl/evp.h>\nint main(void) { return EVP_PKEY_ED25519 == 0; }\n' | \
	    $(CC) -x c - -o $@.probe -lcrypto 2>/dev/null; then \
	    rm -f $@.probe; set -x; $(CC) $(CFLAGS) -I. $< -o $@ -lcrypto -lm -pthread; \
	else echo 'examples/sign_ed25519.c is left out: OpenSSL is not there (libssl-dev has it)'; fi

build/examples/%: examples/%.c $(HEADERS) build/command/main
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -I. $< -o $@ -lm -pthread

build/examples/%: examples/%.cpp examples/cpp/dcp.hpp $(HEADERS) build/command/main
	@mkdir -p $(@D)
	$(CXX) $(CFLAGS) -std=c++17 -I. $< -o $@ -pthread

build/bench_scale: tests/bench_scale.c $(HEADERS) build/command/main
	$(CC) $(CFLAGS) -I. $< -o $@ -lm -pthread

# The toolkit is that of nvcc, or in CUDA_HOME.
CUDA_HOME ?= $(or $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v nvcc 2>/dev/null))),/usr/local/cuda)
CUDA_FLAGS = -isystem $(CUDA_HOME)/include -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64 -lcudart
build/bench_gpu: tests/bench_gpu.c $(HEADERS) build/command/main
	$(CC) $(CFLAGS) -I. $< -o $@ $(CUDA_FLAGS) -lm -pthread
build/examples/cuda_train: examples/cuda_train.cu $(HEADERS) build/command/main
	@mkdir -p $(@D)
	nvcc -O2 -I. $< -o $@ -Xcompiler -pthread

# OpenSSL and cJSON are what the benchmark compares with, where they are installed.
build/bench: tests/bench.c $(HEADERS) build/command/main
	@flags=; for library in "OPENSSL openssl/evp.h crypto" "CJSON cjson/cJSON.h cjson"; do \
	    set -- $$library; \
	    if printf '#include <%s>\nint main(void) { return 0; }\n' "$$2" | \
	        $(CC) -x c - -o build/bench.probe "-l$$3" 2>/dev/null; then \
	        flags="$$flags -DHAVE_$$1 -l$$3"; fi; \
	done; rm -f build/bench.probe; set -x; $(CC) $(CFLAGS) -I. $< -o $@ $$flags -lm -pthread

# A file for each compile command: other flags or another compiler make what was built with the old ones stale.
build/command/main: FORCE
	@mkdir -p $(@D); [ "$$(cat $@ 2>&1)" = '$(CC) $(CFLAGS)' ] || echo '$(CC) $(CFLAGS)' >$@

# ---- the tests: build/<variant>/test_x from tests/test_x.c -----------------------------------------------------------
# tests/run.sh says which suites run in which variant, finds out which variants this machine has, and runs them. A
# command here is all but the source and the output. `small` is a build for small machines: no threads, no kernels with
# machine instructions.
M32 = $(or $(shell command -v gcc-12 >/dev/null 2>&1 && echo 'int main(void){return 0;}' | \
    gcc-12 -m32 -x c - -o /dev/null 2>/dev/null && echo gcc-12),gcc)
# With DCP_STATIC the compiler leaves out what a suite does not call, which halves the time that all of this takes.
command_plain    = $(CC) -std=c99 -Og -Wall -Wextra -DDCP_STATIC
command_asan     = $(CC) -std=c99 -Og -g1 -fno-omit-frame-pointer -fsanitize=address,undefined \
    -fno-sanitize-recover=undefined -DDCP_STATIC
# Not optimized, by clang: built in half the time, for suites that take less to run than to build.
command_asan0    = clang -std=c99 -O0 -fsanitize=address,undefined -fno-sanitize-recover=undefined -DDCP_STATIC
command_tsan0    = clang -std=c99 -O0 -g1 -fsanitize=thread -DDCP_STATIC
command_tsan     = $(CC) -std=c99 -Og -g1 -fno-omit-frame-pointer -fsanitize=thread -DDCP_STATIC
# Ends at the first byte that is used, or given to the system, without having been set. Off_t has 64 bits anyway; that
# of clang 14 knows what lstat fills in, and of lstat64 it does not.
command_msan     = clang -std=c99 -O1 -g1 -fno-omit-frame-pointer -fsanitize=memory -DDCP_STATIC -D_FILE_OFFSET_BITS=32
command_clang    = clang -std=c11 -O0 -DDCP_STATIC
command_cxx      = $(CXX) -std=c++11 -O0 -x c++ -DDCP_STATIC
command_small    = $(CC) -std=c99 -O1 -DDCP_NO_THREADS=1 -DDCP_NO_SIMD=1 -DDCP_STATIC
command_m32      = $(M32) -m32 -std=c99 -Og -isystem /usr/include/x86_64-linux-gnu -DDCP_STATIC
command_valgrind = $(CC) -std=c99 -O1 -g1 -DDCP_STATIC
command_musl     = musl-gcc -std=c99 -Og -static -DDCP_STATIC
command_tcc      = tcc -DDCP_STATIC
command_coverage = clang -std=c11 -O1 -DDCP_STATIC -fprofile-instr-generate -fcoverage-mapping \
    -mllvm -runtime-counter-relocation
command_windows  = x86_64-w64-mingw32-gcc -std=c99 -Og -DDCP_STATIC
command_s390x    = s390x-linux-gnu-gcc -std=c99 -Og -static -DDCP_STATIC
command_aarch64  = aarch64-linux-gnu-gcc -std=c99 -Og -static -DDCP_STATIC
libraries        = -lm -pthread
libraries_small  = -lm
libraries_windows = -lm

# What public functions can return, by their comments: tests/statuses.h checks it in each suite.
build/statuses.h: tests/statuses.awk dcp.h dcp_mpi.h dcp_cuda.h
	@mkdir -p $(@D); awk -f $^ >$@

# What the compiler says goes into a log, which run.sh shows if there is no program then. MinGW adds .exe by itself: the
# target is touched.
define variant
build/command/$(1): FORCE
	@mkdir -p $$(@D); [ "$$$$(cat $$@ 2>&1)" = '$$(command_$(1))' ] || echo '$$(command_$(1))' >$$@
build/$(1)/%: tests/%.c $$(HEADERS) build/statuses.h build/command/$(1)
	@mkdir -p $$(@D); $$(command_$(1)) -I. $$< -o $$@ $$(or $$(libraries_$(1)),$$(libraries)) >$$@.log 2>&1 && touch $$@
build/$(1)/%: build/%.c build/command/$(1)
	@mkdir -p $$(@D); $$(command_$(1)) -I. $$< -o $$@ $$(or $$(libraries_$(1)),$$(libraries)) >$$@.log 2>&1 && touch $$@
endef
BUILT_VARIANTS := $(patsubst command_%,%,$(filter command_%,$(.VARIABLES)))
$(foreach name,$(BUILT_VARIANTS),$(eval $(call variant,$(name))))

$(foreach name,$(BUILT_VARIANTS),build/$(name)/test_fuzz): $(FUZZ)

# The suites that share engine.h as one program, for a variant whose compiler takes longest for dcp.h.
ENGINE := roundtrip slices buffers calls documents
build/test_engine.c: Makefile
	@mkdir -p $(@D); { for name in $(ENGINE); do \
	    printf '#define main main_of_%s\n#include "../tests/test_%s.c"\n#undef main\n' $$name $$name; \
	done; echo 'int main(void) { return 0$(foreach name,$(ENGINE), | main_of_$(name)()); }'; } >$@
$(foreach name,$(BUILT_VARIANTS),build/$(name)/test_engine): $(ENGINE:%=tests/test_%.c) $(HEADERS) build/statuses.h

# Suites that take less to run than to build: by clang, not optimized, in a quarter of the time; in test-all by CC.
QUICK := calls convert coord directory documents file_format fuzz golden json lock manifest platform pool ranks repair \
    resume storage tree yaml
ifeq ($(WHOLE)$(filter-out default,$(origin CC)),)
QUICK_CC := $(shell command -v clang 2>/dev/null)
endif
$(QUICK:%=build/plain/test_%): private command_plain = \
    $(or $(QUICK_CC:%=clang -std=c99 -O0),$(CC) -std=c99 -Og) -Wall -Wextra -DDCP_STATIC
$(QUICK:%=build/plain/test_%): build/command/quick
build/command/quick: FORCE
	@mkdir -p $(@D); [ "$$(cat $@ 2>&1)" = '$(QUICK_CC)' ] || echo '$(QUICK_CC)' >$@

# All of dcp.h, once for the tool and all the test scripts; the compiler is as strict as it can be, and may say nothing
# (test_build.sh looks at the log).
command_object = $(CC) -std=c99 -O3 -g1 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Wvla \
    -DDCP_IMPLEMENTATION
build/command/object: FORCE
	@mkdir -p $(@D); [ "$$(cat $@ 2>&1)" = '$(command_object)' ] || echo '$(command_object)' >$@
build/dcp.o: dcp.h build/command/object
	@$(command_object) -x c -c dcp.h -o $@ >$@.log 2>&1 || { cat $@.log; exit 1; }

# The smallest program, which tells run.sh whether a variant's compiler and libraries work.
build/probe.c:
	@mkdir -p $(@D); printf '#include <stdio.h>\nint main(void) { puts("works"); return 0; }\n' >$@

# One suite in one variant: built, run and reported; or only built. run.sh asks for these, and reads the files that they
# leave.
build/result/%: FORCE
	@sh tests/run.sh run $(*D) $(*F)
build/only/%: FORCE
	@sh tests/run.sh build $(*D) $(*F)
