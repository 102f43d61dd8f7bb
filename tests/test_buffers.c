/* test_buffers.c - what passes through memory: budgets, threads, allocations that fail, and devices that copy for
 * themselves. The same state gives the same bytes, whatever of these is chosen (G11). */
#include "engine.h"
#ifndef _WIN32
#include <sys/resource.h>
#include <sys/wait.h>
#endif

/* ==== memory and threads ========================================================================================== */
TEST(a_budget_of_less_than_a_mebibyte_is_refused) {
    float a[6] = {0};
    int64_t shape[2] = { 2, 3 };
    dcp_tensor t = dcp_array("a", DCP_FP32, a, 2, shape);
    dcp_load_desc load;
    dcp_open_desc open;
    dcp_checkpoint *c;
    use_memory();
    save_two("x");
    load = loading("x", &t, 1);
    load.io.memory_budget = (1 << 20) - 1;
    CHECK_FAILS(dcp_load(&load, &err), DCP_E_INVALID, "1 MiB");
    open = opening("x");
    open.io.memory_budget = 1;
    CHECK_FAILS(dcp_open(&open, &c, &err), DCP_E_INVALID, "1 MiB");
    done();
}
/* What says "no bound" must not become a negative number on the way. */
TEST(a_budget_of_any_size_is_fine) {
    static const size_t budgets[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 1, SIZE_MAX / 2, SIZE_MAX / 4 * 3 };
    const int64_t shape[1] = { 3 * 1024 * 1024 };
    uint8_t *bytes = (uint8_t *)malloc((size_t)shape[0]), *back = (uint8_t *)malloc((size_t)shape[0]);
    size_t i;
    CHECK(bytes && back);
    fill(bytes, (size_t)shape[0], 21);
    for (i = 0; i < DCPI_COUNT(budgets); i++) {
        dcp_layout layout;
        for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout = (dcp_layout)(layout + 1)) {
            dcp_tensor t = dcp_array("a", DCP_UINT8, bytes, 1, shape), u = dcp_array("a", DCP_UINT8, back, 1, shape), v;
            dcp_save_desc s;
            dcp_load_desc l;
            dcp_open_desc o;
            dcp_sync_desc y = DCP_ZERO;
            dcp_checkpoint *c;
            int threads;
            use_local();
            s = saving("x", &t, 1);
            l = loading("x", &u, 1);
            o = opening("x");
            s.layout = layout;
            s.checksum = i % 2 ? DCP_CHECKSUM_FLAT : DCP_CHECKSUM_TREE;
            s.io.memory_budget = l.io.memory_budget = o.io.memory_budget = y.io.memory_budget = budgets[i];
            save(&s);
            for (threads = 0; threads <= 8; threads += 4) {
                memset(back, 0, (size_t)shape[0]);
                l.io.threads = threads;
                CHECK_OK_MESSAGE(dcp_load(&l, &err), err.message);
                CHECK_INT(memcmp(back, bytes, (size_t)shape[0]), 0);
            }
            c = open_with(&o);
            CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
            CHECK_OK_MESSAGE(dcp_prefetch(c, NULL, 0, &err), err.message);
            CHECK_OK_MESSAGE(dcp_prefetch_wait(c, 0, &err), err.message);
            CHECK_OK_MESSAGE(dcp_read_new(c, "a", &v, &err), err.message);
            dcp_free(v.data);
            dcp_close(c);
            y.path = at("x");
            y.directory = at("copy");
            if (layout == DCP_LAYOUT_MANIFEST) CHECK_OK_MESSAGE(dcp_sync(&y, &err), err.message);
            done();
        }
    }
    free(bytes);
    free(back);
}
/* A storage that gives sizes which cannot be is wrong, and nothing is read by them. */
static int wrong_opens, wrong_stats;    /* which answers have a size of -1 */
static dcp_status wrong_open(void *context, const char *path, void **object, dcp_object_info *info, dcp_error *e) {
    dcp_storage *inner = (dcp_storage *)context;
    const dcp_status status = inner->open(inner->context, path, object, info, e);
    if (wrong_opens) info->size = wrong_opens < 0 ? INT64_MIN : -1;
    return status;
}
static dcp_status wrong_stat(void *context, const char *path, dcp_object_info *info, dcp_error *e) {
    dcp_storage *inner = (dcp_storage *)context;
    const dcp_status status = inner->stat(inner->context, path, info, e);
    if (wrong_stats) info->size = -1;
    return status;
}
static dcp_status wrong_read(void *context, void *object, int64_t offset, void *data, size_t size, dcp_error *e) {
    dcp_storage *inner = (dcp_storage *)context;
    if (size > 64u << 20) abort();                      /* nobody asked for so much that is in his right mind */
    return inner->read(inner->context, object, offset, data, size, e);
}
static void wrong_close(void *context, void *object) {
    dcp_storage *inner = (dcp_storage *)context;
    inner->close(inner->context, object);
}
static dcp_status wrong_list(void *context, const char *directory, dcp_list_kind what,
                             dcp_status (*each)(void *, const char *, const dcp_object_info *),
                             void *user, dcp_error *e) {
    dcp_storage *inner = (dcp_storage *)context;
    return inner->list(inner->context, directory, what, each, user, e);
}
TEST(a_storage_that_gives_a_negative_size_is_an_io_error) {
    static const char *const names[] = { "sharded", "single", "manifest" };
    dcp_storage wrong;
    int i;
    float a[6] = {0};
    dcp_tensor t = vector("a", DCP_FP32, a, 6);
    use_memory();
    for (i = 0; i < 3; i++) {
        dcp_save_desc s = saving(names[i], &t, 1);
        s.layout = (dcp_layout)i;
        save(&s);
    }
    memset(&wrong, 0, sizeof wrong);
    wrong.context = files;
    wrong.open = wrong_open; wrong.read = wrong_read; wrong.close = wrong_close; wrong.stat = wrong_stat;
        wrong.list = wrong_list;
    store = &wrong;
    for (i = 0; i < 9; i++) {
        dcp_latest_desc latest = DCP_ZERO;
        dcp_list_desc list = DCP_ZERO;
        dcp_list_entry *entries;
        dcp_object_info info;
        size_t count, size;
        char *path;
        void *data;
        wrong_opens = i % 3 == 0 ? 1 : i % 3 == 1 ? -1 : 0;
        wrong_stats = i % 3 == 2;
        latest.io.storage = list.io.storage = store;
        CHECK_FAILS(try_load(names[i / 3], &t, 1), DCP_E_IO, "bytes, which cannot be");
        if (!wrong_stats) CHECK_FAILS(dcp_latest(&latest, &path, &err), DCP_E_IO, "bytes, which cannot be");
        if (!wrong_stats)
            CHECK_FAILS(dcp_storage_read_all(store, "single.checkpoint", &data, &size, NULL, &err), DCP_E_IO,
                                      "bytes, which cannot be");
        if (!wrong_stats) continue;
        CHECK_FAILS(dcp_storage_info(store, "single.checkpoint", &info, NULL, &err), DCP_E_IO,
                    "bytes, which cannot be");
        CHECK_OK_MESSAGE(dcp_list(&list, &entries, &count, &err), err.message);
        CHECK_INT(count, 3);
        dcp_free(entries);
    }
    wrong_opens = wrong_stats = 0;
    store = files;
    done();
}
#ifndef _WIN32
/* 512 MiB through a small budget, in a child whose peak of resident memory is measured. The source is one buffer that
 * all tensors share. The big buffers come from dcpi_os_pages, so the allocator's count would not see them. */
#define SHARED_TENSORS 128
#define SHARED_SIZE (4 * MIB)
static int64_t peak_resident(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * KIB : -1;
}
static void shared_tensors(dcp_tensor *t, char (*labels)[16], void *data) {
    int i;
    for (i = 0; i < SHARED_TENSORS; i++) {
        (void)snprintf(labels[i], sizeof labels[i], "t%d", i);
        t[i] = dcp_bytes(labels[i], data, (size_t)SHARED_SIZE);
    }
}
static int64_t growth_of(size_t budget, int is_load, dcp_layout layout) {              /* in the child; -1: it failed */
    static dcp_tensor t[SHARED_TENSORS];
    static char labels[SHARED_TENSORS][16];
    uint8_t *data = filled((size_t)SHARED_SIZE, 1);
    dcp_save_desc s = saving("x", t, SHARED_TENSORS);
    dcp_load_desc l = loading("x", t, SHARED_TENSORS);
    dcp_status status;
    int64_t before = peak_resident();
    shared_tensors(t, labels, data);
    s.io.memory_budget = l.io.memory_budget = budget;
    s.layout = layout;
    status = is_load ? dcp_load(&l, &err) : dcp_save(&s, &err);
    if (status) printf("%s\n", err.message);
    if (is_load && !is_filled(data, (size_t)SHARED_SIZE, 1)) status = DCP_E_CHECKSUM;
    free(data);
    return status ? -1 : peak_resident() - before;
}
static int64_t growth_in_child(size_t budget, int is_load, dcp_layout layout) {
    int64_t growth = -1;
    int ends[2], status = 0;
    pid_t child;
    CHECK_INT(pipe(ends), 0);
    (void)fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        growth = growth_of(budget, is_load, layout);
        _exit(write(ends[1], &growth, sizeof growth) == (ssize_t)sizeof growth ? 0 : 1);
    }
    (void)close(ends[1]);
    CHECK_INT(read(ends[0], &growth, sizeof growth), sizeof growth);
    (void)close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return growth;
}
static void budget_case(size_t budget, dcp_layout layout) {
    int64_t most = (int64_t)budget + 8 * MIB, save_growth, load_growth;
    use_local();
    save_growth = growth_in_child(budget, 0, layout);
    load_growth = growth_in_child(budget, 1, layout);
    done();
    CHECK(save_growth >= 0 && save_growth <= most);
    CHECK(load_growth >= 0 && load_growth <= most);
}
TEST(the_memory_budget_is_honoured) {
    if (test_is_sanitized() || test_is_slow()) SKIP("the memory of a sanitizer or an emulator would be measured");
    budget_case(1 << 20, DCP_LAYOUT_SHARDED);
    budget_case(64 << 20, DCP_LAYOUT_SINGLE);
}
#endif

/* What the allocator hands out stays small too, and nothing of it is kept. */
TEST(allocations_do_not_grow_with_the_data) {
    int64_t before, shape[2] = { BIG_ROWS, BIG_COLUMNS };
    float *data = big_matrix();
    dcp_tensor t = dcp_array("big", DCP_FP32, data, 2, shape);
    use_local();
    before = hungry.peak = hungry.bytes;
    save_as("x", &t, 1);
    load_from("x", &t, 1);
    verify_at("x");
    CHECK_INT(hungry.bytes, before);
    CHECK(hungry.peak - before < 2 * MIB);
    done();
    free(data);
}

/* ---- determinism (G11) ------------------------------------------------------------------------------------------- */
/* Blanks what differs between two saves of one state: the value of that member, up to its quote or comma, everywhere in
 * the bytes. */
static void blank(uint8_t *bytes, size_t size, const char *member) {
    size_t n = strlen(member), i;
    for (i = 0; i + n < size; i++) {
        if (memcmp(bytes + i, member, n) != 0) continue;
        for (i += n; i < size && bytes[i] != '"' && bytes[i] != ','; i++) bytes[i] = '#';
    }
}
static uint8_t *get_blanked(const char *name, size_t *size) {
    uint8_t *bytes = get(name, size);
    blank(bytes, *size, "\"timestamp\": \"");
    blank(bytes, *size, "\"saveId\": \"");
    blank(bytes, *size, "\"sequence\": ");
    blank(bytes, *size, "\"integrity\": { \"algorithm\": \"sha256\", \"value\": \"");
    return bytes;
}
typedef struct way { int threads, poison; size_t budget; } way;                         /* of saving one state */
static void save_this_way(const way *w, dcp_layout layout, dcp_checksum checksum, const dcp_tensor *t, size_t n) {
    dcp_save_desc desc = saving("x", t, n);
    dcp_field field = { "who", "me" };
    hungry.poison = w->poison;
    desc.layout = layout;
    desc.checksum = checksum;
    desc.alignment = 4096;
    desc.block_size = 512 * 1024;
    desc.fields = &field;
    desc.field_count = 1;
    desc.io.threads = w->threads;
    desc.io.memory_budget = w->budget;
    save(&desc);
    hungry.poison = 0xA5;
}
static void same_bytes_case(dcp_layout layout, dcp_checksum checksum, const dcp_tensor *t, size_t n, const char *file) {
    static const way ways[] = { { 1, 0xA5, 0 }, { 1, 0, 1 << 20 }, { 2, 0x5A, 0 }, { 3, 0xFF, 3 << 20 }, { 5, 1, 0 },
                                { 8, 2, 1 << 20 } };
    uint8_t *first = NULL, *other;
    size_t first_size = 0, size, i;
    for (i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (i % 3 == 2) use_local(); else use_memory();
        save_this_way(&ways[i], layout, checksum, t, n);
        other = get_blanked(file, &size);
        verify_at("x");
        done();
        if (i == 0) { first = other; first_size = size; continue; }
        CHECK_INT(size, first_size);
        CHECK(memcmp(first, other, size) == 0);
        dcp_free(other);
    }
    dcp_free(first);
}
TEST(one_state_gives_one_sequence_of_bytes) {
    const int64_t size = (test_is_sanitized() ? 3 : 9) * MIB + 77;         /* more than the budgets */
    uint8_t *data = filled((size_t)size, 6);
    int64_t shape[2] = { 300, 5 };
    dcp_tensor t[4];
    t[0] = dcp_bytes("a", data, 3);
    t[1] = dcp_bytes("b", data, (size_t)size);
    t[2] = dcp_array("c", DCP_FP64, data, 2, shape);
    t[2].stride[0] = 11;
    t[2].stride[1] = 2;
    t[3] = dcp_bytes("d", data, 4097);
    same_bytes_case(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, t, 4, "x_shard_0.bin");
    same_bytes_case(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, t, 4, "x.metadata.json");
    same_bytes_case(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, t, 4, "x.metadata.json");
    same_bytes_case(DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE, t, 4, "x.checkpoint");
    free(data);
}
TEST(any_number_of_threads_loads_the_same) {
    const int64_t size = 13 * MIB + 5;
    uint8_t *data = filled((size_t)size, 6), *in = allocated((size_t)size);
    dcp_tensor t = dcp_bytes("a", data, (size_t)size);
    dcp_load_desc desc;
    int threads;
    use_local();
    save_as("x", &t, 1);
    t.data = in;
    for (threads = 1; threads <= 8; threads++) {
        memset(in, 0, (size_t)size);
        desc = loading("x", &t, 1);
        desc.io.threads = threads;
        desc.io.memory_budget = threads % 2 ? 0 : 1 << 20;
        CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
        CHECK(is_filled(in, (size_t)size, 6));
    }
    desc.io.threads = 1000;                             /* more than there are is no error */
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
    done();
    free(data);
    free(in);
}

/* ---- every allocation fails once --------------------------------------------------------------------------------- */
static dcp_layout failing_layout;
static dcp_status save_once(void) {
    float a[6] = { 1, 2, 3, 4, 5, 6 };
    int64_t shape[2] = { 2, 3 };
    dcp_tensor t = dcp_array("a", DCP_FP32, a, 2, shape);
    dcp_save_desc s = saving("x", &t, 1);
    s.layout = failing_layout;
    s.overwrite = 1;
    return dcp_save(&s, &err);
}
static dcp_status load_once(void) {
    float a[6] = {0};
    int64_t shape[2] = { 2, 3 };
    const void *data;
    size_t size;
    dcp_metadata *m = NULL;
    dcp_checkpoint *c = NULL;
    dcp_tensor t = dcp_array("a", DCP_FP32, a, 2, shape), fresh;
    dcp_load_desc l = loading("x", &t, 1);
    dcp_open_desc o = opening("x");
    dcp_status status;
    l.metadata = &m;
    l.exact = 1;
    status = dcp_load(&l, &err);
    dcp_metadata_free(m);
    if (!status) status = dcp_open(&o, &c, &err);
    if (!status) status = dcp_verify(c, &err);
    if (!status) status = dcp_map(c, "a", &data, &size, &err);
    if (!status) status = dcp_read_new(c, "a", &fresh, &err);
    if (!status) dcp_free(fresh.data);
    dcp_close(c);
    return status;
}
/* Each time: success or a clean error, and no memory kept. Returns how many allocations there are. */
static int fail_each(dcp_status (*call)(void), void (*check)(dcp_status status)) {
    int n;
    for (n = 0; n < 2000; n++) {
        int64_t before = hungry.bytes;
        dcp_status status;
        int was_reached;
        hungry_fail(n + 1, 0);
        status = call();
        was_reached = hungry.tripped;
        hungry_fail(0, 0);
        CHECK(status == DCP_OK || ((status == DCP_E_MEMORY || (status == DCP_E_UNKNOWN && PATHS_NEED_MEMORY)) &&
                                   was_reached));
        CHECK(status == DCP_OK || err.message[0] != '\0');
        if (store == NULL) CHECK_INT(hungry.bytes, before);
        check(status);
        if (!was_reached) return n;
    }
    return n;
}
static void check_nothing(dcp_status status) { (void)status; }
static void check_first_save(dcp_status status) {       /* nothing is left of one that failed */
    dcp_remove_desc remove_desc = DCP_ZERO;
    if (status && status != DCP_E_UNKNOWN) { CHECK_INT(count_files(""), 0); return; }
    CHECK_OK_MESSAGE(verify_now("x"), err.message);
    remove_desc.path = key_of("x");
    remove_desc.io.storage = files;
    CHECK_OK_MESSAGE(dcp_remove(&remove_desc, NULL, &err), err.message);     /* its shard may have the save id */
    CHECK_INT(count_files(""), 0);
}
static void check_later_save(dcp_status status) {       /* what was there before, or what is there now, loads */
    int least = failing_layout == DCP_LAYOUT_SINGLE ? 1 : 2, count = count_files("");
    CHECK_OK_MESSAGE(verify_now("x"), err.message);
    /* cleaning up after an overwrite may fail: then sweep does it */
    CHECK(count == least || ((status == DCP_OK || status == DCP_E_UNKNOWN) && count == least + 1));
    if (count == least) return;
    done();
    use_memory();
    CHECK_OK_MESSAGE(save_once(), err.message);
}
static void fail_each_in(dcp_layout layout) {
    failing_layout = layout;
    use_local();
    CHECK(fail_each(save_once, check_first_save) > 20);
    CHECK_OK_MESSAGE(save_once(), err.message);
    CHECK(fail_each(load_once, check_nothing) > 40);
    done();
    use_memory();
    CHECK(fail_each(save_once, check_first_save) > 20);
    CHECK_OK_MESSAGE(save_once(), err.message);
    CHECK(fail_each(load_once, check_nothing) > 40);
    CHECK(fail_each(save_once, check_later_save) > 40);
    done();
}
TEST(every_allocation_can_fail) {
    fail_each_in(DCP_LAYOUT_SHARDED);
    fail_each_in(DCP_LAYOUT_SINGLE);
}

/* ==== devices ===================================================================================================== */
/* Its memory holds every byte inverted. Copies happen when they are waited for, and each must be waited for once, in
 * order. */
typedef struct fake_copy {
    uint8_t *host;
    const dcp_tensor *tensor;
    int64_t offset;
    size_t size;
    int is_out;
} fake_copy;
static struct {
    fake_copy copies[64];
    uint64_t next, waited, most;                        /* begun, waited for, most under way at once */
    int failing_outs, failing_ins, failing_waits, failing_hosts, is_out_of_bounds, is_outside_hosts;
    uint8_t *hosts[8]; size_t host_sizes[8]; int host_count, hosts_made;
} fake;

static dcp_status fake_copy_later(void *host, const dcp_tensor *tensor, int64_t offset, size_t size, int is_out,
                                  uint64_t *ticket) {
    fake_copy *copy = &fake.copies[fake.next % 64];
    copy->host = (uint8_t *)host;
    copy->tensor = tensor;
    copy->offset = offset;
    copy->size = size;
    copy->is_out = is_out;
    if (offset < 0 || offset + (int64_t)size > dcpi_tensor_bytes(tensor)) fake.is_out_of_bounds = 1;
    *ticket = fake.next++;
    if (fake.next - fake.waited > fake.most) fake.most = fake.next - fake.waited;
    return DCP_OK;
}
static dcp_status fake_allocate(void *context, size_t size, void **memory, dcp_error *error) {
    (void)context;
    if (fake.failing_hosts && --fake.failing_hosts == 0)
        return dcpi_fail(error, DCP_E_DEVICE, "no pages can be pinned");
    *memory = fake.hosts[fake.host_count] = allocated(size);
    fake.host_sizes[fake.host_count++] = size;
    fake.hosts_made++;
    return DCP_OK;
}
static void fake_free(void *context, void *memory) {
    int i;
    (void)context;
    for (i = 0; i < fake.host_count && fake.hosts[i] != memory; i++) {}
    /* freed under a copy, or never made */
    if (fake.next != fake.waited || i == fake.host_count) fake.is_outside_hosts = 1;
    fake.host_count--;
    fake.hosts[i] = fake.hosts[fake.host_count];
    fake.host_sizes[i] = fake.host_sizes[fake.host_count];
    free(memory);
}
/* Whether a copy's host memory is staging memory that is still there. */
static int fake_is_staged(const fake_copy *copy) {
    int i;
    for (i = 0; i < fake.host_count; i++)
        if (copy->host >= fake.hosts[i] && copy->host + copy->size <= fake.hosts[i] + fake.host_sizes[i]) return 1;
    return 0;
}
static dcp_status fake_out(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size,
                           uint64_t *ticket, dcp_error *error) {
    (void)context;
    if (fake.failing_outs && --fake.failing_outs == 0) return dcpi_fail(error, DCP_E_DEVICE, "the device is on fire");
    return fake_copy_later(host, tensor, offset, size, 1, ticket);
}
static dcp_status fake_in(void *context, const dcp_tensor *tensor, int64_t offset, const void *host, size_t size,
                          uint64_t *ticket, dcp_error *error) {
    (void)context;
    if (fake.failing_ins && --fake.failing_ins == 0) return dcpi_fail(error, DCP_E_DEVICE, "the device is on fire");
    return fake_copy_later((void *)host, tensor, offset, size, 0, ticket);
}
/* Where byte `at` of the piece, row-major, is in the tensor's memory: the device knows the strides. */
static uint8_t *fake_byte(const dcp_tensor *t, int64_t at) {
    int64_t width = dcp_dtype_bits(t->dtype) / 8, element_at = at / width, place = 0, stride[DCP_MAX_DIMS];
    int d;
    dcpi_effective_stride(t, stride);
    for (d = t->ndim - 1; d >= 0; d--) {
        place += element_at % t->shape[d] * stride[d];
        element_at /= t->shape[d];
    }
    return (uint8_t *)t->data + place * width + at % width;
}
static dcp_status fake_wait(void *context, uint64_t ticket, dcp_error *error) {
    const fake_copy *copy = &fake.copies[ticket % 64];
    int64_t i;
    (void)context;
    if (ticket != fake.waited++) return dcpi_fail(error, DCP_E_DEVICE, "another ticket was to be waited for");
    if (fake.hosts_made && !fake_is_staged(copy)) fake.is_outside_hosts = 1;
    if (fake.failing_waits && --fake.failing_waits == 0) return dcpi_fail(error, DCP_E_DEVICE, "the device has melted");
    for (i = 0; i < (int64_t)copy->size && !fake.is_out_of_bounds; i++) {
        uint8_t *byte = fake_byte(copy->tensor, copy->offset + i);
        if (copy->is_out) copy->host[i] = (uint8_t)~*byte;
        else *byte = (uint8_t)~copy->host[i];
    }
    return DCP_OK;
}
static dcp_device *fake_device(void) {
    static dcp_device device;
    memset(&fake, 0, sizeof fake);
    memset(&device, 0, sizeof device);
    device.copy_out = fake_out;
    device.copy_in = fake_in;
    device.wait = fake_wait;
    return &device;
}
static void invert(void *data, size_t size) {
    uint8_t *bytes = (uint8_t *)data;
    size_t i;
    for (i = 0; i < size; i++) bytes[i] = (uint8_t)~bytes[i];
}
static void check_fake(void) { CHECK(fake.next == fake.waited && fake.next > 0 && !fake.is_out_of_bounds); }

/* io.threads workers need as many buffers, or they wait for each other: how far a save reads ahead of a write that
 * takes long tells. */
static volatile int64_t ahead_bytes, ahead_seen;
static dcp_status ahead_out(void *context, void *host, const dcp_tensor *t, int64_t offset, size_t size,
                            uint64_t *ticket, dcp_error *error) {
    (void)context; (void)t; (void)ticket; (void)error;
    memset(host, 5, size);
    ahead_bytes = offset + (int64_t)size;
    return DCP_OK;
}
static dcp_status ahead_in(void *context, const dcp_tensor *t, int64_t offset, const void *host, size_t size,
                           uint64_t *ticket, dcp_error *error) {
    (void)context; (void)t; (void)offset; (void)host; (void)size; (void)ticket; (void)error;
    return DCP_OK;
}
static dcp_status ahead_wait(void *context, uint64_t ticket, dcp_error *error) {
    (void)context; (void)ticket; (void)error;
    return DCP_OK;
}
static dcp_status (*ahead_inner)(void *context, void *object, int64_t offset, const void *data, size_t size,
                                 dcp_error *err);
static dcp_status ahead_write(void *context, void *object, int64_t offset, const void *data, size_t size,
                              dcp_error *error) {
    if (offset == 0 && size > 1 << 19) {                /* the first write of the tensor: until nothing more is read */
        int64_t before;
        int still;
        for (before = -1, still = 0; still < 15; still = before == ahead_bytes ? still + 1 : 0) {
            before = ahead_bytes;
            dcpi_os_sleep_ms(20);
        }
        ahead_seen = ahead_bytes;
    }
    return ahead_inner(context, object, offset, data, size, error);
}
static int64_t read_ahead(int threads, size_t budget) {
    const int64_t shape[1] = { 64 * MIB };
    uint8_t nothing[1] = {0};
    dcp_tensor t = dcp_array("a", DCP_UINT8, nothing, 1, shape);
    dcp_device device;
    dcp_save_desc s;
    use_memory();
    memset(&device, 0, sizeof device);
    device.copy_out = ahead_out;
    device.copy_in = ahead_in;
    device.wait = ahead_wait;
    t.device = &device;
    ahead_inner = store->write;
    store->write = ahead_write;
    ahead_bytes = ahead_seen = 0;
    s = saving("x", &t, 1);
    s.io.threads = threads;
    s.io.memory_budget = budget;
    save(&s);
    store->write = ahead_inner;
    done();
    return ahead_seen;
}
TEST(as_many_threads_as_asked_for_have_something_to_do) {
#if DCP_NO_THREADS
    SKIP("built without threads");
#endif
    CHECK(read_ahead(0, 0) <= 5 * 4 * MIB);
    CHECK(read_ahead(8, 0) >= 8 * 4 * MIB);
    CHECK(read_ahead(8, (size_t)(16 * MIB)) >= 8 * MIB);                /* smaller ones */
    CHECK(read_ahead(16, (size_t)(64 * MIB)) >= 40 * MIB);
    CHECK(read_ahead(16, (size_t)(1 * MIB)) <= 1 * MIB);
}
TEST(the_buffers_of_a_save_stay_within_the_budget) {
    static const int64_t sizes[] = { 1, 300 * 1024, 1 << 20, 5 << 20, 100 << 20 };
    static const size_t requests[] = { 0, 5 << 20, 40 << 20 };
    dcp_storage storage;
    dcpi_stream *t = (dcpi_stream *)malloc(sizeof *t);
    dcpi_op op;
    dcp_io io = DCP_ZERO;
    int threads, mib;
    size_t i;
    CHECK(t != NULL);
    for (threads = 1; threads <= DCPI_MAX_WORKERS; threads++)
        for (mib = 1; mib <= 80; mib += mib < 20 ? 1 : 15)
            for (i = 0; i < DCPI_COUNT(sizes) * DCPI_COUNT(requests); i++) {
                memset(&storage, 0, sizeof storage);
                storage.request_size = requests[i / DCPI_COUNT(sizes)];
                io.memory_budget = (size_t)mib << 20;
                CHECK_OK(dcpi_op_begin(&op, &io, &err));
                memset(t, 0, sizeof *t);
                t->op = &op;
                t->storage = &storage;
                t->end = sizes[i % DCPI_COUNT(sizes)];
                CHECK_OK_MESSAGE(dcpi_stream_allocate(t, threads, &err), err.message);
                CHECK(t->staging.size <= io.memory_budget);
                CHECK(t->buffer_count >= 1 && t->buffer_count <= DCPI_STREAM_MOST);
                /* none for nothing */
                CHECK((int64_t)(t->capacity - DCPI_OS_DIRECT_ALIGN) * (t->buffer_count - 1) < t->end);
                dcpi_stream_free(t);
            }
    free(t);
}
/* A device has no checkpoints to miss, and what is no status is not passed on. */
static dcp_status odd_status;
static dcp_status odd_out(void *context, void *host, const dcp_tensor *t, int64_t offset, size_t size, uint64_t *ticket,
                          dcp_error *error) {
    (void)context; (void)host; (void)t; (void)offset; (void)size; (void)ticket; (void)error;
    return odd_status;
}
static dcp_status odd_in(void *context, const dcp_tensor *t, int64_t offset, const void *host, size_t size,
                         uint64_t *ticket, dcp_error *error) {
    (void)context; (void)host; (void)t; (void)offset; (void)size; (void)ticket; (void)error;
    return odd_status;
}
TEST(a_device_that_answers_oddly_is_a_device_error) {
    static const int odd[] = { DCP_E_NOT_FOUND, DCP_E_UNKNOWN, DCP_PENDING, 99, -1 };
    float a[6] = {0};
    dcp_tensor t = vector("a", DCP_FP32, a, 6);
    dcp_device device;
    size_t i;
    use_memory();
    save_as("x", &t, 1);
    memset(&device, 0, sizeof device);
    device.copy_out = odd_out;
    device.copy_in = odd_in;
    device.wait = fake_wait;
    t.device = &device;
    for (i = 0; i < DCPI_COUNT(odd); i++) {
        dcp_save_desc s = saving("y", &t, 1);
        odd_status = (dcp_status)odd[i];
        CHECK_FAILS(try_load("x", &t, 1), DCP_E_DEVICE, "\"a\"");
        CHECK_FAILS(dcp_save(&s, &err), DCP_E_DEVICE, "\"a\"");
    }
    done();
}
/* Each operation tells a device that it begins: once, before the first copy, however many tensors are there. */
static int begun, ended;
static void count_end(void *context) {
    ended++;
    CHECK(context != NULL && fake.next == fake.waited);
}
static dcp_status count_begin(void *context, dcp_error *error) {
    begun++;
    if (fake.next != fake.waited || !context) return dcpi_fail(error, DCP_E_DEVICE, "copies are under way");
    return odd_status == DCP_E_DEVICE ? dcpi_fail(error, DCP_E_DEVICE, "the device is asleep") : odd_status;
}
TEST(a_device_is_told_that_an_operation_begins) {
    static const int odd[] = { DCP_E_NOT_FOUND, DCP_E_UNKNOWN, DCP_PENDING, 99 };
    float a[6] = {0}, b[6] = {0}, c[6] = {0};
    dcp_tensor t[3];
    dcp_device *device = fake_device();
    dcp_save_desc s;
    dcp_checkpoint *opened_x;
    size_t i;
    use_memory();
    s = saving("x", t, 3);
    device->context = &begun;
    device->begin = count_begin;
    device->end = count_end;
    t[0] = vector("a", DCP_FP32, a, 6);
    t[1] = vector("b", DCP_FP32, b, 6);
    t[2] = vector("c", DCP_FP32, c, 6);
    t[0].device = t[2].device = device;
    odd_status = DCP_OK;
    begun = ended = 0;
    save(&s);
    CHECK_INT(begun, 1);
    CHECK_INT(ended, 1);
    load_from("x", t, 3);
    CHECK_INT(begun, 2);
    opened_x = open_at("x");
    CHECK_INT(begun, 2);
    CHECK_OK_MESSAGE(dcp_read(opened_x, t + 1, 1, &err), err.message);
    CHECK_INT(begun, 2);
    CHECK_OK_MESSAGE(dcp_read(opened_x, t, 3, &err), err.message);
    CHECK_INT(begun, 3);
    CHECK_INT(ended, 3);
    dcp_close(opened_x);
    s.path = at("y");
    fake.failing_outs = fake.failing_ins = 1;
    CHECK_FAILS(dcp_save(&s, &err), DCP_E_DEVICE, "on fire");
    CHECK_FAILS(try_load("x", t, 3), DCP_E_DEVICE, "on fire");
    CHECK_INT(begun, 5);
    CHECK_INT(ended, 5);                                /* when it failed too */
    odd_status = DCP_E_DEVICE;
    s.path = at("y");
    CHECK_FAILS(dcp_save(&s, &err), DCP_E_DEVICE, "\"a\": the device is asleep");
    CHECK_FAILS(try_load("x", t, 3), DCP_E_DEVICE, "\"a\": the device is asleep");
    for (i = 0; i < DCPI_COUNT(odd); i++) {
        odd_status = (dcp_status)odd[i];
        CHECK_FAILS(dcp_save(&s, &err), DCP_E_DEVICE, "gave no reason");
        CHECK_FAILS(try_load("x", t, 3), DCP_E_DEVICE, "gave no reason");
    }
    CHECK_INT(ended, 5);
    CHECK_INT(count_files(""), 2);
    done();
}
/* A device that hashes: what it says stands in the document, and the host hashes nothing of it. */
static int hashed, hash_is_wrong;
static dcp_status plain_out(void *context, void *host, const dcp_tensor *t, int64_t offset, size_t size,
                            uint64_t *ticket, dcp_error *error) {
    (void)context; (void)ticket; (void)error;
    memcpy(host, (const uint8_t *)t->data + offset, size);
    return DCP_OK;
}
static dcp_status plain_in(void *context, const dcp_tensor *t, int64_t offset, const void *host, size_t size,
                           uint64_t *ticket, dcp_error *error) {
    (void)context; (void)ticket; (void)error;
    memcpy((uint8_t *)(uintptr_t)t->data + offset, host, size);
    return DCP_OK;
}
static dcp_status plain_wait(void *context, uint64_t ticket, dcp_error *error) {
    (void)context;
    return ticket == 99 ? dcpi_fail(error, DCP_E_DEVICE, "the kernel has failed") : DCP_OK;
}
static dcp_status plain_hash(void *context, const dcp_tensor *t, int64_t offset, size_t size, uint8_t (*digests)[32],
                             uint64_t *ticket, dcp_error *error) {
    size_t at, n;
    (void)context; (void)error;
    CHECK_INT(offset % (256 * 1024), 0);
    for (at = 0; at < size; at += n, hashed++) {
        n = size - at < 256 * 1024 ? size - at : 256 * 1024;
        dcp_sha256((const uint8_t *)t->data + offset + at, n, digests[at / (256 * 1024)]);
        digests[at / (256 * 1024)][0] ^= (uint8_t)(hash_is_wrong == 1);
    }
    if (hash_is_wrong == 2) return dcpi_fail(error, DCP_E_DEVICE, "no such kernel");
    *ticket = hash_is_wrong == 3 ? 99 : 0;
    return DCP_OK;
}
TEST(a_device_may_hash) {
    static const int64_t sizes[] = { 1, 256 * 1024, 9 * MIB + 5 };
    static const dcp_checksum kinds[] = { DCP_CHECKSUM_TREE, DCP_CHECKSUM_FLAT };
    uint8_t *bytes = (uint8_t *)malloc(9 * MIB + 5), *back = (uint8_t *)calloc(1, 9 * MIB + 5);
    dcp_device device;
    size_t i;
    CHECK(bytes && back);
    for (i = 0; i < 9 * MIB + 5; i++) bytes[i] = (uint8_t)(i * 7 + i / 1000);
    memset(&device, 0, sizeof device);
    device.copy_out = plain_out; device.copy_in = plain_in; device.wait = plain_wait; device.hash_leaves = plain_hash;
    for (i = 0; i < 2 * DCPI_COUNT(sizes); i++) {
        const int64_t size = sizes[i / 2];
        dcp_tensor t[2];
        dcp_save_desc s;
        use_memory();
        t[0] = dcp_bytes("a", bytes, size);
        t[1] = dcp_bytes("b", bytes, 300 * 1024);       /* of the host */
        t[0].device = &device;
        s = saving("x", t, 2);
        s.checksum = kinds[i % 2];
        hashed = hash_is_wrong = 0;
        save(&s);
        CHECK_INT(hashed, i % 2 ? 0 : (size + 256 * 1024 - 1) / (256 * 1024));
        t[0].data = back;
        load_from("x", t, 2);
        CHECK(memcmp(back, bytes, (size_t)size) == 0);
        t[0].data = bytes;
        s.overwrite = 1;
        hash_is_wrong = 1;
        save(&s);
        if (i % 2 == 0) CHECK_FAILS(try_load("x", t, 2), DCP_E_CHECKSUM, "\"a\"");
        for (hash_is_wrong = 2; hash_is_wrong <= 3 && i % 2 == 0; hash_is_wrong++)
            CHECK_FAILS(dcp_save(&s, &err), DCP_E_DEVICE, hash_is_wrong == 2 ? "no such kernel" : "the kernel");
        done();
    }
    free(bytes);
    free(back);
}
/* From the device to the host, back to the device, whole and in boxes. io.threads = 1: this device is not for several
 * threads. */
static void device_body(void) {
    float out[ROWS * COLUMNS] = {0}, in[ROWS * COLUMNS] = {0};
    static const int64_t box[4] = { 2, 3, 5, 6 };
    int64_t shape[2] = { ROWS, COLUMNS };
    dcp_tensor t = dcp_array("m", DCP_FP32, out, 2, shape);
    fill_matrix(out, whole_matrix);
    invert(out, sizeof out);
    t.device = fake_device();
    save_as("x", &t, 1);
    check_fake();
    check_whole_matrix("x");
    t.data = in;
    t.device = fake_device();
    load_from("x", &t, 1);
    check_fake();
    CHECK(memcmp(in, out, sizeof in) == 0);
    memset(in, 0, sizeof in);
    t = block("m", in, box, ROWS, COLUMNS);
    t.device = fake_device();
    load_from("x", &t, 1);
    check_fake();
    invert(in, 5 * 6 * sizeof *in);
    CHECK(is_matrix(in, box));
}
TEST(a_device_is_copied_from_and_to) { on_local_and_memory(device_body); }

/* Offsets count the piece's bytes in row-major order, whatever its strides are in the device's memory. */
TEST(a_strided_device_tensor) {
    float out[ROWS * COLUMNS * 3] = {0}, in[ROWS * COLUMNS * 3] = {0}, plain[ROWS * COLUMNS];
    static const int64_t box[4] = { 4, 1, 6, 5 };
    int64_t shape[2] = { ROWS, COLUMNS }, r, c;
    dcp_tensor t = dcp_array("m", DCP_FP32, out, 2, shape);
    fill_matrix(plain, whole_matrix);
    invert(plain, sizeof plain);
    for (r = 0; r < ROWS; r++) for (c = 0; c < COLUMNS; c++) out[r * 2 + c * 2 * ROWS] = plain[r * COLUMNS + c];
    t.stride[0] = 2;
    t.stride[1] = 2 * ROWS;
    t.device = fake_device();
    use_memory();
    save_as("x", &t, 1);
    check_fake();
    check_whole_matrix("x");
    t.data = in;
    t.device = fake_device();
    load_from("x", &t, 1);
    check_fake();
    CHECK(memcmp(in, out, sizeof in) == 0);
    t = block("m", in, box, ROWS, COLUMNS);
    t.stride[0] = 1;
    t.stride[1] = 7;
    t.device = fake_device();
    load_from("x", &t, 1);
    check_fake();
    for (r = 0; r < 6; r++) for (c = 0; c < 5; c++) CHECK(in[r + 7 * c] == plain[(4 + r) * COLUMNS + 1 + c]);
    done();
}
TEST(a_large_device_tensor_in_pieces) {
    const int64_t size = 11 * MIB + 3;
    uint8_t *data = filled((size_t)size, 5), *in = allocated((size_t)size);
    dcp_tensor t = dcp_bytes("a", data, (size_t)size);
    dcp_load_desc desc;
    dcp_save_desc s;
    use_memory();
    invert(data, (size_t)size);
    t.device = fake_device();
    s = saving("x", &t, 1);
    s.io.memory_budget = 1 << 20;
    save(&s);
    check_fake();
    CHECK_INT(fake.most, 2);                /* one copy a buffer: the next one is begun before this one is waited for */
    t.data = in;
    t.device = fake_device();
    desc = loading("x", &t, 1);
    desc.io.threads = 1;
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
    check_fake();
    CHECK_INT(fake.most, 2);
    CHECK(memcmp(in, data, (size_t)size) == 0);
    t.device = NULL;
    load_from("x", &t, 1);
    CHECK(is_filled(in, (size_t)size, 5));
    done();
    free(data);
    free(in);
}
TEST(a_device_that_fails) {
    float data[ROWS * COLUMNS] = {0};
    int64_t shape[2] = { ROWS, COLUMNS };
    dcp_tensor t = dcp_array("m", DCP_FP32, data, 2, shape);
    dcp_device lame;
    dcp_save_desc desc;
    use_memory();
    save_as("x", &t, 1);
    t.device = fake_device();
    fake.failing_outs = 1;
    desc = saving("y", &t, 1);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_DEVICE, "on fire");
    CHECK_INT(count_files(""), 2);
    fake.failing_ins = 1;
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_DEVICE, "on fire");
    memset(&lame, 0, sizeof lame);
    t.device = &lame;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "copy_out");
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_INVALID, "copy_in");
    lame.copy_out = fake_out;
    lame.copy_in = fake_in;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "wait");
    done();
}

/* A device with staging memory: while one buffer is hashed and written, or read, another is copied. */
static const dcp_device *staging_device(void) {
    dcp_device *device = fake_device();
    device->allocate_host = fake_allocate;
    device->free_host = fake_free;
    return device;
}
static void check_staged(int is_staged) {
    check_fake();
    CHECK(fake.most >= 2 && fake.most <= DCPI_COPIES);
    CHECK(!fake.is_outside_hosts && fake.host_count == 0);
    CHECK_INT(fake.hosts_made > 0, is_staged);
}
static char staging_log[600];
static void staging_logged(void *user, dcp_log_level level, const char *message) {
    (void)user;
    if (level == DCP_LOG_WARNING) (void)snprintf(staging_log, sizeof staging_log, "%s", message);
}
/* Tensors of device and host in turns, odd sizes, so that buffers end inside them and carry bytes over. */
static void staged_body(size_t budget, size_t size, int is_refused) {
    enum { COUNT = 5 };
    uint8_t *data[COUNT], *in[COUNT];
    char names[COUNT][8];
    dcp_tensor t[COUNT];
    dcp_save_desc s;
    dcp_load_desc l;
    int i;
    staging_log[0] = '\0';
    for (i = 0; i < COUNT; i++) {
        const size_t n = size / (size_t)(i + 1) + (size_t)i;
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        data[i] = filled(n, (uint64_t)i);
        in[i] = allocated(n);
        t[i] = dcp_bytes(names[i], data[i], n);
        if (i % 2 == 0) { invert(data[i], n); t[i].device = staging_device(); }
    }
    fake.failing_hosts = is_refused;
    s = saving("x", t, COUNT);
    s.overwrite = 1;
    s.io.memory_budget = budget;
    s.io.log = staging_logged;
    save(&s);
    check_staged(!is_refused);
    if (is_refused) CHECK(strstr(staging_log, "no pages can be pinned"));
    for (i = 0; i < COUNT; i++) { t[i].data = in[i]; if (t[i].device) t[i].device = staging_device(); }
    fake.failing_hosts = is_refused;
    l = loading("x", t, COUNT);
    l.io.memory_budget = budget;
    l.io.threads = 1;
    l.io.log = staging_logged;
    CHECK_OK_MESSAGE(dcp_load(&l, &err), err.message);
    check_staged(!is_refused);
    for (i = 0; i < COUNT; i++) {
        const size_t n = size / (size_t)(i + 1) + (size_t)i;
        if (t[i].device) invert(in[i], n);
        CHECK(is_filled(in[i], n, (uint64_t)i));
        free(data[i]);
        free(in[i]);
    }
}
TEST(copies_of_a_device_overlap_the_rest) {
    use_memory();
    staged_body(0, 9 * MIB + 5, 0);
    staged_body(1 << 20, 3 * MIB + 77, 0);
    staged_body(0, 300, 0);
    staged_body(0, 2 * MIB + 1, 1);
    done();
}
/* One tensor fills many buffers; whichever wait fails, no copy is left when its memory goes, and what the save made
 * goes too. */
TEST(a_wait_that_fails_leaves_no_copy_behind) {
    const size_t size = 6 * MIB + 9;
    uint8_t *data = filled(size, 1), *in = allocated(size);
    dcp_tensor t = dcp_bytes("a", data, size);
    dcp_save_desc s = saving("x", &t, 1);
    dcp_load_desc l;
    int n;
    use_memory();
    s = saving("x", &t, 1);
    save(&s);
    for (n = 1; n <= 6; n++) {
        t.data = data;
        t.device = staging_device();
        fake.failing_waits = n;
        s = saving("y", &t, 1);
        s.io.memory_budget = 1 << 20;
        CHECK_FAILS(dcp_save(&s, &err), DCP_E_DEVICE, "tensor \"a\": the device has melted");
        CHECK(fake.next == fake.waited && fake.host_count == 0 && !fake.is_outside_hosts && fake.hosts_made > 0);
        CHECK_INT(count_files(""), 2);
        t.data = in;
        t.device = staging_device();
        fake.failing_waits = n;
        l = loading("x", &t, 1);
        l.io.memory_budget = 1 << 20;
        l.io.threads = 1;
        CHECK_FAILS(dcp_load(&l, &err), DCP_E_DEVICE, "tensor \"a\": the device has melted");
        CHECK(fake.next == fake.waited && fake.host_count == 0 && !fake.is_outside_hosts && fake.hosts_made > 0);
    }
    done();
    free(data);
    free(in);
}
/* What does not have its digest is never copied to a device. */
TEST(damaged_bytes_do_not_reach_a_device) {
    const size_t size = 3 * MIB;
    uint8_t *data = filled(size, 1), *in = allocated(size);
    dcp_tensor t = dcp_bytes("a", data, size);
    use_memory();
    save_as("x", &t, 1);
    flip("x_shard_0.bin", 2 * MIB + 7);
    memset(in, 0xEE, size);
    t.data = in;
    t.device = staging_device();
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_CHECKSUM, "tensor \"a\"");
    CHECK(fake.next == 0 && is_all(in, size, 0xEE));
    done();
    free(data);
    free(in);
}

int main(void) {
    RUN(a_budget_of_less_than_a_mebibyte_is_refused);
    RUN(a_budget_of_any_size_is_fine);
    RUN(a_storage_that_gives_a_negative_size_is_an_io_error);
#ifndef _WIN32
    RUN(the_memory_budget_is_honoured);
#endif
    RUN(allocations_do_not_grow_with_the_data);
    RUN(one_state_gives_one_sequence_of_bytes);
    RUN(any_number_of_threads_loads_the_same);
    RUN(every_allocation_can_fail);
    RUN(as_many_threads_as_asked_for_have_something_to_do);
    RUN(the_buffers_of_a_save_stay_within_the_budget);
    RUN(a_device_that_answers_oddly_is_a_device_error);
    RUN(a_device_is_told_that_an_operation_begins);
    RUN(a_device_may_hash);
    RUN(a_device_is_copied_from_and_to);
    RUN(a_strided_device_tensor);
    RUN(a_large_device_tensor_in_pieces);
    RUN(a_device_that_fails);
    RUN(copies_of_a_device_overlap_the_rest);
    RUN(a_wait_that_fails_leaves_no_copy_behind);
    RUN(damaged_bytes_do_not_reach_a_device);
    return test_finish();
}
