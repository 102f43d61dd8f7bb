/* convert_members.c - members of documents that this version does not know: copied as text, unchanged. */
#include "convert.h"

/* `*at` is text that the library has read; NULL where it has none. */
const char *convert_next_member(const char **at) {
    const char *start, *c;
    int depth = 0, is_string = 0;
    if (!*at) return NULL;
    start = *at + strspn(*at, ", \t\r\n");
    for (c = start; *c && (is_string || depth > 0 || *c != ','); c++) {
        if (is_string && *c == '\\' && c[1]) c++;
        else if (*c == '"') is_string = !is_string;
        else if (!is_string && (*c == '{' || *c == '[')) depth++;
        else if (!is_string && (*c == '}' || *c == ']')) depth--;
    }
    *at = c;
    return c > start ? tool_text_of(start, (size_t)(c - start)) : NULL;
}

const char *convert_join(const char *members, const char *member) {
    const size_t size = (members ? strlen(members) + 2 : 0) + strlen(member) + 1;
    char *all = tool_new(size, 1);
    snprintf(all, size, "%s%s%s", tool_or(members, ""), members ? ", " : "", member);
    return all;
}

/* The levels of documents that both kinds of them have. */
typedef enum level { AT_ROOT, AT_PIECE, AT_SHARDING, AT_TRAINING } level;

static int is_written_to_metadata(level where, const char *member) {
    dcp_metadata m = DCP_ZERO;
    dcp_shard_metadata shard = DCP_ZERO;
    dcp_tensor_metadata tensor = DCP_ZERO;
    char *text;
    size_t size;
    dcp_status status;
    shard.file_path = tensor.name = tensor.data_type = m.sharding.strategy = "x";
    shard.tensors = &tensor;
    shard.tensor_count = 1;
    m.world_size = m.has_training = 1;
    m.shards = &shard;
    m.shard_count = 1;
    *(where == AT_ROOT ? &m.extra : where == AT_PIECE ? &tensor.extra
      : where == AT_SHARDING ? &m.sharding.extra : &m.training.extra) = member;
    status = dcp_metadata_write(&m, NULL, &text, &size, NULL);
    dcp_free(text);
    return status == DCP_OK;
}

static int is_written_to_manifest(level where, const char *member) {
    dcp_manifest m = DCP_ZERO;
    dcp_manifest_shard shard = DCP_ZERO;
    char *text;
    size_t size;
    dcp_status status;
    shard.path = shard.tensor_name = "x";
    m.shards = &shard;
    m.shard_count = 1;
    m.has_sharding = m.has_training = 1;
    *(where == AT_ROOT ? &m.extra : where == AT_PIECE ? &shard.extra
      : where == AT_SHARDING ? &m.sharding.extra : &m.training.extra) = member;
    status = dcp_manifest_write(&m, 0, NULL, &text, &size, NULL);
    dcp_free(text);
    return status == DCP_OK;
}

/* Those that the target's document can have at that level; a warning names each of the others, which is a field of its
 * own there. */
static const char *carried(const convert_job *v, level where, const char *what, const char *extra) {
    const int is_manifest = v->t->to->layout == DCP_LAYOUT_MANIFEST;
    const char *member, *all = NULL;
    while ((member = convert_next_member(&extra)) != NULL) {
        if (is_manifest ? is_written_to_manifest(where, member) : is_written_to_metadata(where, member))
            all = convert_join(all, member);
        else tool_note(v->t, "warning: %s: %s has another meaning in the target, or cannot be written: left out", what,
                       member);
    }
    return all;
}

static void warn_of_others(const convert_job *v) {
    int has_role[DCP_ROLE_ROUTER + 1] = { 0 };
    size_t i;
    for (i = 0; i < v->pieces.count; i++) has_role[v->origins[v->pieces.items[i].order].role] = 1;
    if (v->optim_extra && !has_role[DCP_ROLE_OPTIMIZER])
        tool_note(v->t, "warning: optim_state has no tensors, and its members %s are left out", v->optim_extra);
    if (v->router_extra && !has_role[DCP_ROLE_ROUTER] && v->seed_count == 0)
        tool_note(v->t, "warning: router_state has neither tensors nor seeds, and its members %s are left out",
                  v->router_extra);
    for (i = 0; i < v->m->shard_count && !v->manifest; i++)
        if (v->m->shards[i].extra)
            tool_note(v->t, "warning: shards[%" PRIu64 "] has members that cannot be carried over: %s", (uint64_t)i,
                      v->m->shards[i].extra);
}

void convert_members(convert_job *v) {
    size_t i;
    v->root_extra = carried(v, AT_ROOT, "the document", v->manifest ? v->manifest->extra : v->m->extra);
    v->sharding.extra = carried(v, AT_SHARDING, "sharding", v->sharding.extra);
    if (v->has_training) v->training.extra = carried(v, AT_TRAINING, "training", v->training.extra);
    v->piece_extras = tool_new(v->pieces.count + 1, sizeof *v->piece_extras);
    for (i = 0; i < v->pieces.count; i++) {
        const tool_piece *p = &v->pieces.items[i];
        v->piece_extras[i] = carried(v, AT_PIECE, p->meta->name, p->file ? p->file->extra : p->meta->extra);
    }
    warn_of_others(v);
}
