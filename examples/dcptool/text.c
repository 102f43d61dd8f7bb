/* text.c - names, numbers and paths as text. */
#include "dcptool.h"

#define NAME_OF(names, value) ((unsigned)(value) < sizeof names / sizeof names[0] ? names[value] : "unknown")

const char *tool_placement_name(dcp_placement placement) {
    static const char *const names[] = { "auto", "replicated", "private", "sharded" };
    return NAME_OF(names, placement);
}

const char *tool_role_name(dcp_role role) {
    static const char *const names[] = { "dense", "expert", "optimizer", "router" };
    return NAME_OF(names, role);
}

const char *tool_layout_name(dcp_layout layout) {
    static const char *const names[] = { "sharded", "single", "manifest" };
    return NAME_OF(names, layout);
}

const tool_target *tool_target_named(const char *name) {
    static const tool_target targets[] = {
        { "sharded", DCP_LAYOUT_SHARDED, 0 }, { "single", DCP_LAYOUT_SINGLE, 0 },
        { "manifest", DCP_LAYOUT_MANIFEST, 0 }, { "manifest-yaml", DCP_LAYOUT_MANIFEST, 1 }
    };
    size_t i;
    for (i = 0; i < sizeof targets / sizeof targets[0]; i++)
        if (strcmp(targets[i].name, name) == 0) return &targets[i];
    return NULL;
}

const char *tool_dtype_text(const dcp_tensor_info *info) {
    const char *name = info->dtype == DCP_OPAQUE ? NULL : dcp_dtype_name(info->dtype);
    return tool_or(name, info->dtype_name);
}

char *tool_shape_text(int ndim, const int64_t *shape, char text[TOOL_SHAPE]) {
    size_t used = 1;
    int d;
    snprintf(text, TOOL_SHAPE, "[");
    for (d = 0; d < ndim; d++) {
        snprintf(text + used, TOOL_SHAPE - used, "%s%" PRId64, d ? ", " : "", shape[d]);
        used = strlen(text);
    }
    snprintf(text + used, TOOL_SHAPE - used, "]");
    return text;
}

/* The shortest that reads back as the same number. */
char *tool_double_text(double value, char text[TOOL_NUMBER]) {
    int digits;
    for (digits = 1; digits <= 17; digits++) {
        snprintf(text, TOOL_NUMBER, "%.*g", digits, value);
        if (!(strtod(text, NULL) < value) && !(strtod(text, NULL) > value)) break;
    }
    return text;
}

char *tool_bytes_text(double bytes, char text[TOOL_NUMBER]) {
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB" };
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++) bytes /= 1024;
    snprintf(text, TOOL_NUMBER, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

const char *tool_plural(int64_t count) { return count == 1 ? "" : "s"; }

const char *tool_or(const char *text, const char *otherwise) { return text ? text : otherwise; }

const char *tool_base_name(const char *path) {
    const char *name = path;
    for (; *path; path++) if (tool_is_separator(*path)) name = path + 1;
    return name;
}

/* The message without the path that it begins with, for a line that has named it. */
const char *tool_without_path(const char *message, const char *path) {
    size_t length = strlen(path);
    if (strncmp(message, path, length) != 0) {
        path = tool_base_name(path);
        length = strlen(path);
        if (strncmp(message, path, length) != 0) return message;
    }
    return message[length] == ':' && message[length + 1] == ' ' ? message + length + 2 : message;
}

/* A set such as [a-z] or [!0-9]; p is after the bracket. *past: what follows the set, NULL if it is not closed. */
static int set_matches(const char *p, char c, const char **past) {
    int matches = 0, negated = *p == '!' || *p == '^', is_first = 1;
    if (negated) p++;
    for (*past = NULL; *p && (*p != ']' || is_first); p++, is_first = 0) {
        char low = *p, high = low;
        if (p[1] == '-' && p[2] && p[2] != ']') {
            high = p[2];
            p += 2;
        }
        if ((unsigned char)low <= (unsigned char)c && (unsigned char)c <= (unsigned char)high) matches = 1;
    }
    if (*p) *past = p + 1;
    return matches != negated;
}

/* Goes back to the last star only, so that it takes at most the product of the lengths. */
int tool_glob_matches(const char *glob, const char *text) {
    const char *star = NULL, *from = NULL, *past;
    while (*text) {
        if (*glob == '*') {
            star = ++glob;
            from = text;
        } else if (*glob == '[' && set_matches(glob + 1, *text, &past) && past) {
            glob = past;
            text++;
        } else if (*glob == '?' || (*glob == *text && (*glob != '[' || !strchr(glob, ']')))) {
            glob++;
            text++;
        } else if (star) {
            glob = star;
            text = ++from;
        } else return 0;
    }
    while (*glob == '*') glob++;
    return *glob == '\0';
}
