#!/bin/sh
# test_cuda.sh - dcp_cuda.h: its suite, cuda_test.c, against the stand-in runtime of cuda_stub/, on any machine;
# mistakes that the suite must find; and the real toolkit, where there is one: what compiles and links with it.
#
#     sh tests/test_cuda.sh [text]                      only tests whose name contains the text (or DCP_TEST_FILTER)
#     sh tests/test_cuda.sh gpu                         the suite on a real GPU instead, and nothing else: make test-gpu

#
# A missing toolkit (nvcc, or $CUDA_HOME) is a skip, or a failure if DCP_REQUIRE has the word cuda. Prints `ok name`,
# `skipped name: why` or `FAILED name: why`; last `N passed, N failed, N skipped`; exit status 1 if any failed.

cd "$(dirname "$0")/.." || exit 1
# clang builds in half the time; gcc reads the programs too.
if [ -z "${CC:-}" ] && command -v clang >/dev/null 2>&1; then CC=clang; fi
CC=${CC:-cc} CXX=${CXX:-g++}
. tests/harness.sh
unset DCP_TEST_FILTER                                   # that of the suite is set for each run
wanted() { case $1 in *"$filter"* | compiles* | *_compile) ;; *) return 1 ;; esac; }    # what is compiled may be needed

# ---- the toolkit -----------------------------------------------------------------------------------------------------
toolkit="the CUDA toolkit of NVIDIA (or Debian's nvidia-cuda-toolkit)"
home=${CUDA_HOME:-}
if [ -z "$home" ] && have nvcc; then home=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")"); fi
[ -n "$home" ] || home=/usr/local/cuda
[ -f "$home/include/cuda_runtime_api.h" ] || home=/usr
include="-isystem $home/include"
[ "$home" != /usr ] || include=
libraries="-L$home/lib64 -L$home/lib -Wl,-rpath,$home/lib64 -lcudart"
need_toolkit() { [ -f "$home/include/cuda_runtime_api.h" ] || missing cuda_runtime_api.h cuda "$toolkit"; }

stub="-I$root/tests/cuda_stub"
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Werror'
lib() { echo '#define DCP_IMPLEMENTATION
#include "dcp.h"'; }

# ---- on a real GPU ---------------------------------------------------------------------------------------------------
if [ "${1:-}" = gpu ]; then
    need_toolkit
    lib >"$work/lib.c"
    # shellcheck disable=SC2086
    "$CC" -std=c99 -O2 -g1 -I"$root" $include "$root/tests/cuda_test.c" "$work/lib.c" -o "$work/gpu" $libraries -lm \
        -pthread || exit 1
    "$work/gpu"
    exit
fi

# Pinned memory is freed at once, so that a copy left behind is noticed; most of all where calls fail.
keep_none='-DDCP_CUDA_KEEP=((size_t)0)' keeps_none_tests=fails
[ -z "${WHOLE:-}" ] || keeps_none_tests=

# ---- the suite against the stand-in ----------------------------------------------------------------------------------
# suite NAME FILTER: runs a program that was built; its own lines are shown where one failed
suite() {
    DCP_TEST_FILTER=$2 timeout -k 5 300 "./$1" >"$1.log" 2>&1 || fail "$(grep -v '^ok' "$1.log" | head -n 4)"
    grep -q ' 0 failed' "$1.log" || fail "$(tail -n 1 "$1.log")"
}
# shellcheck disable=SC2086
plain() {
    object lib.o
    "${MAKE:-make}" -s -C "$root" build/statuses.h || fail "dcp.h has no lists of statuses"
    "$CC" -std=c99 -O1 $warnings $stub -c "$root/tests/cuda_stub/cuda_stub.c" -o stub.o ||
        fail "cuda_stub.c does not compile"
    "$CC" -std=c99 -O1 $warnings -I"$root" $stub -c "$root/tests/cuda_test.c" -o test.o ||
        fail "cuda_test.c does not compile"
    if have gcc; then
        gcc -std=c99 -fsyntax-only $warnings -I"$root" $stub "$root/tests/cuda_stub/cuda_stub.c" \
            "$root/tests/cuda_test.c" || fail "gcc warns"
    fi
    "$CC" lib.o stub.o test.o -o plain -lm -pthread || fail "does not link"
    "$CC" -std=c99 -O0 $keep_none -I"$root" $stub -c "$root/tests/cuda_test.c" -o none.o || fail "does not compile"
}
# shellcheck disable=SC2086
sanitized() {
    "$CC" -std=c99 -O1 -g1 -fno-omit-frame-pointer "-fsanitize=$2" -I"$root" $stub -DCUDA_TEST_WHOLE \
        "$root/tests/cuda_test.c" \
        "$root/tests/cuda_stub/cuda_stub.c" -o "$1" -lm -pthread >log 2>&1 ||
            skip "does not build here; install libasan8 libtsan2: $(head -n 1 log)"
    DCP_TEST_FEWER=1 suite "$1" ''
}
# Both headers in one file as C++ are compiled below: this is about how dcp_cuda.h runs.
# shellcheck disable=SC2086
as_cxx() {
    need "$CXX" cxx g++
    "$CXX" -std=c++11 -O0 $warnings -I"$root" $stub -x c++ "$root/tests/cuda_test.c" -x none lib.o stub.o -o cxx -lm \
        -pthread ||
        fail "does not compile"
    DCP_TEST_FEWER=1 suite cxx tensors
}
keeps_none() {
    "$CC" none.o lib.o stub.o -o keeps_none -lm -pthread || fail "does not link"
    DCP_TEST_FEWER=1 suite keeps_none "$keeps_none_tests"
}
t compiles plain
t suite_keeps_none keeps_none
t suite suite plain ''
# These take as long as all others together.
if [ -n "${WHOLE:-}" ]; then
    t suite_asan sanitized asan address,undefined
    t suite_tsan sanitized tsan thread
fi
t suite_cxx as_cxx

# ---- the header as programs include it -------------------------------------------------------------------------------
# silent FILES-OF-GCC FILES-OF-G++ FLAGS...; the others take a little less: how they are with dcp.h alone is seen
# elsewhere
silent() {
    of_gcc=$1 of_gxx=$2
    shift 2
    echo '#define DCP_IMPLEMENTATION
#define DCP_CUDA
#include "dcp.h"
int main(void) { return 0; }' >pulled_in.c
    echo '#define DCP_CUDA_IMPLEMENTATION
#include "dcp_cuda.h"
#include "dcp.h"
#include "dcp_cuda.h"' >alone.c
    echo '#define DCP_IMPLEMENTATION
#define DCP_CUDA
#include "dcp_cuda.h"
int main(void) { return 0; }' >first.c
    echo '#define DCP_CUDA
#include "dcp.h"
int main(void) { dcp_device *d; return dcp_cuda_open(DCP_CUDA_CURRENT, &d, NULL) == DCP_E_DEVICE; }' >declared.c
    for compiler in 'gcc -std=c99' 'clang -std=c11' 'g++ -std=c++11 -x c++' 'clang++ -std=c++11 -x c++'; do
        have "${compiler%% *}" || continue
        case ${compiler%% *} in
        gcc) files=$of_gcc ;;
        g++) files=$of_gxx ;;
        *) files='alone declared' ;;
        esac
        for file in $files; do
            # shellcheck disable=SC2086
            $compiler $warnings -fsyntax-only -I"$root" "$@" $file.c || fail "$compiler warns about $file.c"
        done
    done
}
late() {
    echo '#include <stdio.h>
#define DCP_CUDA_IMPLEMENTATION
#include "dcp_cuda.h"' >late.c
    if "$CC" -std=c99 -I"$root" "$stub" -c late.c -o late.o 2>log; then fail "compiles"; fi
    grep -q 'error.*-D_GNU_SOURCE' log || fail "$(head -n 2 log)"
}
with_toolkit() {
    need_toolkit
    # shellcheck disable=SC2086
    silent "alone declared ${WHOLE:+pulled_in}" 'alone declared' $include
}
# What the stand-in declares is what the toolkit declares.
agrees() {
    need_toolkit
    # shellcheck disable=SC2086
    "$CC" -std=c99 $warnings $include -I"$root/tests/cuda_stub/none" -fsyntax-only "$root/tests/cuda_stub/cuda_stub.c"
}
# A program that defines DCP_IMPLEMENTATION takes dcp.h from lib.o instead, which compiles faster: that it may define it
# is seen above.
beside_lib='s/^#define DCP_IMPLEMENTATION$/#define DCP_CUDA_IMPLEMENTATION/'
# The example at the head of the header, against the stand-in.
example() {
    sed -n '/^ \*     #define DCP_IMPLEMENTATION/,/^ \*     }$/s/^ \*     //p' "$root/dcp_cuda.h" |
        sed "$beside_lib" >example.c
    grep -q 'int main' example.c && grep -q DCP_CUDA_IMPLEMENTATION example.c || fail "there is no example"
    # shellcheck disable=SC2086
    "$CC" -O0 -Wall -Wextra -Werror -I"$root" $stub example.c lib.o stub.o -o example -lm -pthread ||
        fail "does not compile"
    mkdir -p example.d && cd example.d && ../example && [ -f run/step_1.metadata.json ] || fail "does not run"
}
# examples/cuda_train.cu against the stand-in: its kernels run on the host, as operations of their stream. Killed, it
# goes on where it was saved.
emulated() {
    need "$CXX" cxx g++
    cat >emulated.h <<'END'
#include <functional>
#include <math.h>
#include "cuda_stub.h"
#define __device__
#define __global__
static thread_local struct { unsigned x; } blockIdx, threadIdx;
static const struct { unsigned x; } blockDim = { 256 };
template <class T> static T *of_kernel(T *memory) { return (T *)cuda_stub_bytes((void *)memory); }
static unsigned of_kernel(unsigned value) { return value; }
static void run_kernel(void *call) { (*(std::function<void()> *)call)(); delete (std::function<void()> *)call; }
template <class F, class... A> static void launch(int blocks, cudaStream_t stream, F kernel, A... arguments) {
    auto *call = new std::function<void()>([=]() {
        for (blockIdx.x = 0; blockIdx.x < (unsigned)blocks; blockIdx.x++)
            for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) kernel(of_kernel(arguments)...);
    });
    cudaLaunchHostFunc(stream, run_kernel, call);
}
END
    sed -e "$beside_lib" -e 's/^#include <signal.h>/#include <signal.h>\n#include "emulated.h"/' \
        -e 's/\([a-z]*\)<<<\(.*\), 256, 0, work>>>(\(.*\));/launch(\2, work, \1, \3);/' \
            "$root/examples/cuda_train.cu" >emulated.cc
    [ "$(grep -c 'launch(.*, work, ' emulated.cc)" -eq 4 ] || fail "the launches of kernels look different now"
    # shellcheck disable=SC2086
    "$CXX" -std=c++11 -O1 -I. -I"$root" $stub emulated.cc lib.o stub.o -o emulated -lm -pthread ||
        fail "does not compile"
    ./emulated once 250 >once.txt || fail "does not run: $(cat once.txt)"
    ./emulated twice 250 130 >twice.txt 2>&1
    [ $? -eq 137 ] || fail "was not killed: $(tail -n 1 twice.txt)"
    ./emulated twice 250 >twice.txt || fail "does not run again: $(cat twice.txt)"
    grep -q '^resumed at step 100$' twice.txt || fail "does not go on from step 100: $(cat twice.txt)"
    grep -q '^parameters sha256 ' once.txt && [ "$(tail -n 1 once.txt)" = "$(tail -n 1 twice.txt)" ] ||
        fail "ends otherwise: $(tail -n 1 twice.txt)"
}
t the_example_resumes_bit_for_bit emulated
t without_warnings silent "pulled_in alone declared ${WHOLE:+first}" 'pulled_in alone declared' "$stub"
t included_late_names_the_fix late
t without_warnings_with_the_toolkit with_toolkit
t stand_in_agrees_with_the_toolkit agrees
t example example

# ---- mistakes that the suite must find -------------------------------------------------------------------------------
# noticed PROGRAM FILTER; the suite itself passes with the same flags, so it is the mistake that is found
noticed() {
    if DCP_TEST_FILTER=$2 DCP_TEST_TIMEOUT=20 DCP_TEST_STATUSES= timeout -k 5 60 "./$1" >log 2>&1; then
        fail "nobody noticed: $(tail -n 1 log)"
    fi
}
# finds FILTER FLAGS SED-SCRIPT: a copy of dcp_cuda.h with the mistake; a script that changes nothing is a failure too
finds() {
    rm -rf mutant.d && mkdir mutant.d && cp "$root/dcp.h" mutant.d
    sed "$3" "$root/dcp_cuda.h" >mutant.d/dcp_cuda.h
    if cmp -s "$root/dcp_cuda.h" mutant.d/dcp_cuda.h; then fail "the mistake cannot be made any more: $3"; fi
    # shellcheck disable=SC2086
    "$CC" -std=c99 -O0 $2 -Imutant.d -I"$root/tests" $stub "$root/tests/cuda_test.c" lib.o stub.o -o mutant -lm \
        -pthread 2>log ||
        fail "does not compile: $(grep -m 1 error log)"
    noticed mutant "$1"
}
m() {
    name=$1
    shift
    t "finds_$name" finds "$@"
}
# Mistakes in dcp.h, which takes long to compile: all in one copy of it, and DCP_MISTAKE tells the program which of them
# to make.
cat >"$work/mistakes.sed" <<'END'
s/status = \(dcpi_copies_until(&t->copies, t->settled, err);\)/status = MISTAKE(1) ? DCP_OK : \1/
s/return \(dcpi_copies_until(&r->copies, r->turn - \)/return MISTAKE(2) ? DCP_OK : \1/
/^static void dcpi_stream_free/,/^}/s/dcpi_copies_drain(&t->copies);/if (!MISTAKE(3)) dcpi_copies_drain(\&t->copies);/
/^static void dcpi_reader_free/,/^}/s/dcpi_copies_drain(&r->copies);/if (!MISTAKE(4)) dcpi_copies_drain(\&r->copies);/
s/status = \(dcpi_copies_until(&r->copies, INT64_MAX, &error);\)/status = MISTAKE(4) ? DCP_OK : \1/
s/status = \(device && size > 0 ? device->wait(device->context, kept\)/status = !MISTAKE(5) \&\& \1/
s/kept->at = pool->used;/kept->at = MISTAKE(6) ? 0 : pool->used;/
s/if (!status) status = dcpi_devices_begin(/if (!status \&\& !MISTAKE(7)) status = dcpi_devices_begin(/
s/return status ? status : dcpi_devices_begin(/return status || MISTAKE(8) ? status : dcpi_devices_begin(/
END
mistakes() {
    mkdir mistakes.d
    lib >lib.c
    sed -f mistakes.sed "$root/dcp.h" >mistakes.d/dcp.h
    for n in 1 2 3 4 5 6 7 8; do
        [ "$(grep -c "MISTAKE($n)" mistakes.d/dcp.h)" -eq "$(grep -c "MISTAKE($n)" mistakes.sed)" ] ||
            fail "mistake $n cannot be made any more"
    done
    "$CC" -std=c99 -O0 '-DMISTAKE(n)=(atoi(getenv("DCP_MISTAKE")) == n)' -Imistakes.d -c lib.c -o mistakes.o 2>log ||
        fail "$(grep -m 1 error log)"
    "$CC" none.o mistakes.o stub.o -o mistakes -lm -pthread || fail "does not link"
}
m_lib() { t "finds_$1" finds_in_lib "$2" "$3"; }
finds_in_lib() {
    DCP_MISTAKE=$2
    export DCP_MISTAKE
    noticed mistakes "$1"
}
m a_missing_wait tensors_come '' 's/code = cudaEventSynchronize(taken->event)/code = cudaSuccess/'
m a_buffer_in_use_twice several_threads '' 's/if (!block->in_use \&\& block->size/if (block->size/'
m an_event_in_use_twice tensors_of_host '' \
    's/if (code == cudaSuccess) \(return dcpi_cuda_succeed(err);\)/{ dcpi_cuda_ticket_give(m, ticket); \1 }/'
m an_event_on_the_wrong_stream tensors_come '' \
    's/\(cudaEventRecord(ticket->event, c->\)stream)/\1way == DCPI_CUDA_IN ? m->out : m->in)/'
m an_event_before_its_copy tensors_come '' \
    's/    call = "cudaMemcpyAsync";/    (void)cudaEventRecord(ticket->event, c->stream); call = "x";/
    s/code = cudaEventRecord(ticket->event, c->stream);/code = cudaSuccess;/'
m a_save_that_overtakes_the_caller the_stream_that '' '/cudaStreamWaitEvent(m->out/d'
m a_load_that_overtakes_the_caller the_stream_that '' '/cudaStreamWaitEvent(m->in/d'
m a_missing_synchronisation told_nothing '' 's/code = cudaDeviceSynchronize();/code = cudaSuccess;/'
m a_needless_synchronisation the_stream_that '' \
    's/if (dcpi_cuda_was_told(m)) return/if (dcpi_cuda_was_told(m) \&\& !m) return/'
m a_word_that_counts_for_ever waited_for_once '' \
    's/if (was_told) m->told\[i\] = m->told\[--m->told_count\];/if (was_told) {}/'
m a_word_that_counts_for_every_thread that_said_so '' 's/ \&\& m->told\[i\] != thread;/ \&\& !thread;/'
m a_word_that_is_kept_for_later that_said_so '' 's/else m->told_count = 0;//'
m a_capture_that_is_not_noticed capturing '' 's/ \&\& capture != cudaStreamCaptureStatusNone/ \&\& !m/'
m a_device_that_is_not_set several_devices '' \
    's/code = (cudaError_t)m->push(m->context);/code = cudaSuccess;/
    s/if (before != m->device) (void)m->pop(&ours);/(void)m; (void)before; (void)ours;/'
m a_device_that_is_not_set_back several_devices '' \
    's/if (before != m->device) (void)m->pop(&ours);/(void)m; (void)before; (void)ours;/'
m a_context_made_on_the_way_back no_context '' \
    's/(void)m->pop(&ours);/{ (void)m->pop(\&ours); (void)cudaSetDevice(before); }/'
m an_offset_that_is_ignored tensors_come '' 's/taken, t, (size_t)offset, (char \*)host/taken, t, 0, (char *)host/'
m a_wrong_pitch strided_tensors '' \
    's/cudaMemcpy2DAsync(device, pitch, host, width, width/cudaMemcpy2DAsync(device, pitch, host, pitch, width/'
m rows_copied_without_their_gaps strided_tensors '' \
    's/char \*at = device + begin \/ dim->unit \* dim->stride/char *at = device + begin/'
m a_pitch_beyond_the_limit rows_further '' 's/pitch <= c->m->most_pitch/1/g'
m managed_memory_taken_for_the_devices managed '' \
    's/c->kind = memory.type != cudaMemoryTypeDevice ? cudaMemcpyDefault :/c->kind =/'
m memory_of_another_device_let_pass refused '' 's/memory.device != m->device/0/'
m a_copy_left_behind_after_an_error each_call_fails_in_saves "$keep_none" '/(void)cudaStreamSynchronize(c->stream);/d'
m an_error_left_for_the_caller each_call_fails_in_saves '' \
    '/^static dcp_status dcpi_cuda_error/,/^}/s/(void)cudaGetLastError();//'
own='c->way == DCPI_CUDA_WITHIN'
m a_snapshot_that_overtakes_the_caller through_both '' \
    's/c.stream = way == DCPI_CUDA_IN ? m->in : m->out;/c.stream = way == DCPI_CUDA_OUT ? m->out : NULL;/'
m a_snapshot_with_its_event_elsewhere memory_of_the_device '' \
    "s/cudaEventRecord(ticket->event, c->stream)/cudaEventRecord(ticket->event, $own ? m->in : c->stream)/"
m a_snapshot_with_its_event_too_early memory_of_the_device '' \
    "s/    call = \"cudaMemcpyAsync\";/    if ($own) (void)cudaEventRecord(ticket->event, c->stream);/
    s/code = cudaEventRecord(ticket->event, c->stream);/if (!($own)) &/"
m a_snapshot_that_shares_its_memory two_savers '' \
    's/code = \(cudaMalloc(&block->memory, size);\)/code = m->own ? (block->memory = m->own->memory, cudaSuccess) : \1/'
m a_snapshot_beyond_its_bytes without_memory '' 's/is_there = size <= m->own_left;/is_there = 1;/'
m a_snapshot_that_is_never_freed memory_of_the_device '' 's/if (cudaFree(block->memory) != cudaSuccess)/if (0)/'
m a_snapshot_that_waits_for_the_program does_not_wait '' '/^static dcp_status dcpi_cuda_issue/,/^}/{
    s/    cudaError_t code = /&cudaDeviceSynchronize() != cudaSuccess ? cudaErrorLaunchFailure : /
}'
t mistakes_compile mistakes
m_lib a_buffer_handed_over_too_early tensors_come 1
m_lib a_buffer_read_into_too_early take_long 2
m_lib a_buffer_of_a_save_freed_too_early take_long 3
m_lib a_buffer_of_a_load_freed_too_early take_long 4
m_lib a_snapshot_that_is_not_waited_for in_the_background 5
m_lib a_snapshot_on_top_of_another in_the_background 6
m_lib a_save_that_overtakes_the_device told_nothing 7
m_lib a_load_that_overtakes_the_device no_worker 8

# ---- nvcc ------------------------------------------------------------------------------------------------------------
# The whole as CUDA: dcp.h, dcp_cuda.h and a kernel in one file, linked with the toolkit's runtime; without a GPU it
# says so, and what is missing.
nvcc_links() {
    need nvcc cuda "$toolkit"
    cat >program.cu <<'END'
#define DCP_IMPLEMENTATION
#define DCP_CUDA
#include "dcp_cuda.h"
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
int main() {
    dcp_device *gpu;
    dcp_error err;
    if (dcp_cuda_open(0, &gpu, &err)) { puts(err.message); return err.status == DCP_E_DEVICE ? 0 : 1; }
    float *x = NULL;
    if (cudaMalloc(&x, 128) != cudaSuccess) return 1;
    twice<<<1, 32>>>(x);
    if (dcp_cuda_wait_stream(gpu, 0, &err)) { puts(err.message); return 1; }
    cudaFree(x);
    dcp_device_close(gpu);
    return 0;
}
END
    nvcc -Werror all-warnings -I"$root" program.cu -o program -Xcompiler -pthread >log 2>&1 ||
        fail "$(grep -m 2 -E 'error|warning' log)"
    ./program >log || fail "$(cat log)"
}
# The suite as CUDA, and with the toolkit's C headers and library: built, and run where there is a GPU.
nvcc_builds_the_suite() {
    need nvcc cuda "$toolkit"
    nvcc -x cu -I"$root" -I"$root/tests" -c "$root/tests/cuda_test.c" -o suite_cu.o >log 2>&1 ||
        fail "$(grep -m 2 -E 'error|warning' log)"
    nvcc suite_cu.o lib.o -o suite_cu -Xcompiler -pthread || fail "does not link"
    ./suite_cu >log 2>&1 || fail "$(grep -v '^ok' log | head -n 4)"
}
links() {
    need_toolkit
    # shellcheck disable=SC2086
    "$CC" -std=c99 -I"$root" $include "$root/tests/cuda_test.c" lib.o -o linked $libraries -lm -pthread ||
        fail "does not link"
    ./linked >log 2>&1 || fail "$(grep -v '^ok' log | head -n 4)"
}
benchmark() {
    # shellcheck disable=SC2086
    "$CC" -std=c99 -O1 $warnings -I"$root" $stub "$root/tests/bench_gpu.c" stub.o -o bench -lm -pthread ||
        fail "does not compile"
    ./bench 0.02 . >log 2>&1 || fail "$(cat log)"
    grep -q 'dcp_load to the device' log || fail "$(cat log)"
    if ls dcp_bench_gpu* >left 2>/dev/null; then fail "left $(cat left)"; fi
    need_toolkit
    # shellcheck disable=SC2086
    "$CC" -std=c99 $warnings -I"$root" $include -fsyntax-only "$root/tests/bench_gpu.c" ||
        fail "does not compile with the toolkit"
}
trains() {
    need nvcc cuda "$toolkit"
    sed "$beside_lib" "$root/examples/cuda_train.cu" >train.cu
    nvcc -Werror all-warnings -I"$root" train.cu lib.o -o train -Xcompiler -pthread >log 2>&1 ||
        fail "$(grep -m 2 -E 'error|warning' log)"
}
t nvcc_compiles_and_links nvcc_links
t nvcc_compiles_the_suite nvcc_builds_the_suite
t links_with_the_toolkit links
[ -z "${WHOLE:-}" ] || t benchmark benchmark
t nvcc_compiles_the_example trains
finish
