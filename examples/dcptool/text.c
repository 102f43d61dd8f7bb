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
        { "sharded", DCP_LAYOUT_SHARDED, 0, 0 }, { "single", DCP_LAYOUT_SINGLE, 0, 0 },
        { "manifest", DCP_LAYOUT_MANIFEST, 0, 0 }, { "manifest-yaml", DCP_LAYOUT_MANIFEST, 1, 0 },
        { "npz", DCP_LAYOUT_SINGLE, 0, 1 }
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
    for (; bytes >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]; unit++) bytes /= 1024;
    snprintf(text, TOOL_NUMBER, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

char *tool_size_text(const tool_state *t, int64_t bytes, char text[TOOL_NUMBER]) {
    if (!(t->options & TOOL_BYTES)) tool_bytes_text((double)bytes, text);
    else snprintf(text, TOOL_NUMBER, "%" PRId64 " bytes", bytes);
    return text;
}

/* Seconds since 1970 of a time such as 2026-01-31T12:00:00Z; -1: it is none. */
int64_t tool_time_of(const char *timestamp) {
    int year, month, day, hour, minute, second, zone_hours = 0, zone_minutes = 0, length = 0;
    const char *zone;
    int64_t days;
    if (sscanf(timestamp, "%4d-%2d-%2dT%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute, &second, &length) != 6)
        return -1;
    zone = timestamp + length + strspn(timestamp + length, ".0123456789");
    if (*zone == '+' || *zone == '-') {
        if (sscanf(zone + 1, "%2d:%2d", &zone_hours, &zone_minutes) != 2) return -1;
        if (*zone == '-') zone_hours = -zone_hours, zone_minutes = -zone_minutes;
    }
    if (year < 1970 || month < 1 || month > 12) return -1;
    year -= month <= 2;                                 /* a year that ends with February */
    days = (int64_t)year * 365 + year / 4 - year / 100 + year / 400 + (153 * ((month + 9) % 12) + 2) / 5 + day - 719469;
    return days * 86400 + (hour - zone_hours) * 3600 + (minute - zone_minutes) * 60 + second;
}

char *tool_age_text(const char *timestamp, char text[TOOL_NUMBER]) {
    static const struct { const char *name; int64_t seconds; } units[] = {
        { "y", 31557600 }, { "mo", 2629800 }, { "d", 86400 }, { "h", 3600 }, { "min", 60 }, { "s", 1 }
    };
    const int64_t then = timestamp ? tool_time_of(timestamp) : -1, age = (int64_t)time(NULL) - then;
    size_t i = 0;
    text[0] = '\0';
    if (then < 0) return text;
    if (age < -60) snprintf(text, TOOL_NUMBER, "%.10s", timestamp);     /* of another clock: the day */
    else if (age < 1) snprintf(text, TOOL_NUMBER, "now");
    else {
        while (age < 2 * units[i].seconds && units[i].seconds > 1) i++;
        snprintf(text, TOOL_NUMBER, "%" PRId64 " %s", age / units[i].seconds, units[i].name);
    }
    return text;
}

char *tool_digest_text(const tool_state *t, const char *checksum, char text[TOOL_SHAPE]) {
    const char *digits = strchr(checksum, ':');
    const size_t kept = (digits ? (size_t)(digits + 1 - checksum) : 0) + 8;
    if ((t->options & TOOL_VERBOSE) || strlen(checksum) <= kept) snprintf(text, TOOL_SHAPE, "%s", checksum);
    else snprintf(text, TOOL_SHAPE, "%.*s\xe2\x80\xa6", (int)kept, checksum);
    return text;
}

/* Of the extension of a commit file's name; 0: it is none. */
static size_t commit_extension(const char *name) {
    static const char *const extensions[] = {
        ".metadata.json", ".manifest.json", ".manifest.yaml", ".checkpoint"
    };
    const size_t length = strlen(name);
    size_t i;
    for (i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        const size_t size = strlen(extensions[i]);
        if (length > size && strcmp(name + length - size, extensions[i]) == 0) return size;
    }
    return 0;
}

int tool_is_commit_name(const char *name) { return commit_extension(name) > 0; }

char *tool_stem_text(const char *path) {
    const char *name = tool_base_name(path);
    return tool_text_of(name, strlen(name) - commit_extension(name));
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

const char *tool_in_our_words(const char *message) {
    static const char *const words[][2] = {
        { "set overwrite to replace it", "--force replaces it" },
        { "overwrite replaces only", "--force replaces only" },
        { "minimum_step is", "--minimum-step is" }
    };
    size_t i;
    for (i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *found = strstr(message, words[i][0]);
        const size_t size = strlen(message) + strlen(words[i][1]) + 1;
        char *text;
        if (!found) continue;
        text = tool_new(size, 1);
        snprintf(text, size, "%.*s%s%s", (int)(found - message), message, words[i][1], found + strlen(words[i][0]));
        message = text;
    }
    return message;
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
