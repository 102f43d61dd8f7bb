/* table.c - listings: a header, and aligned columns that fit the terminal. */
#include "dcptool.h"

enum { GAP = 2, SHORTEST = 16, LINE = TOOL_COLUMNS };   /* LINE: the column of what is below a row */

tool_table tool_table_begin(tool_state *t, const tool_column *columns, size_t count) {
    tool_table table = DCP_ZERO;
    table.t = t;
    table.columns = columns;
    table.column_count = count;
    return table;
}

static void add(tool_table *table, size_t column, const char *format, va_list arguments) {
    char *text;
    if (table->t->options & TOOL_JSON) return;
    if (table->count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 64;
        if (table->capacity > SIZE_MAX / 2 / sizeof *table->cells) tool_need(NULL);
        table->cells = tool_need(realloc(table->cells, table->capacity * sizeof *table->cells));
    }
    text = tool_format(format, arguments);
    table->cells[table->count].text = tool_escape(text, strlen(text));
    table->cells[table->count].colour = NULL;
    table->cells[table->count++].column = column;
    free(text);
}

void tool_table_add(tool_table *table, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add(table, table->next, format, arguments);
    va_end(arguments);
    table->next = (table->next + 1) % table->column_count;
}

void tool_table_add_line(tool_table *table, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add(table, LINE, format, arguments);
    va_end(arguments);
}

void tool_table_add_size(tool_table *table, int64_t bytes) {
    char text[TOOL_NUMBER];
    if (table->t->options & TOOL_BYTES) tool_table_add(table, "%" PRId64, bytes);
    else if (bytes < 1000) tool_table_add(table, "%" PRId64 " B", bytes);
    else tool_table_add(table, "%s", tool_bytes_text((double)bytes, text));
}

void tool_table_paint(tool_table *table, const char *colour) {
    if (table->count) table->cells[table->count - 1].colour = colour;
}

/* ---- what fits --------------------------------------------------------------------------------------------------- */
typedef struct layout {
    int width[TOOL_COLUMNS];                            /* 0: the column is not shown */
    int has_inline_note, room;                          /* room: columns of the terminal */
} layout;

static int least(const tool_column *c, int width) { return c->kind == 'm' && width > SHORTEST ? SHORTEST : width; }

static int total(const tool_table *table, const layout *l, int is_least) {
    int sum = -GAP;
    size_t i;
    for (i = 0; i < table->column_count; i++)
        if (l->width[i] && table->columns[i].kind != 'n')
            sum += GAP + (is_least ? least(&table->columns[i], l->width[i]) : l->width[i]);
    return sum;
}

static void measure(const tool_table *table, layout *l) {
    size_t i;
    for (i = 0; i < table->count; i++) {
        const tool_cell *cell = &table->cells[i];
        const int width = tool_columns(cell->text);
        if (cell->column != LINE && width > l->width[cell->column]) l->width[cell->column] = width;
    }
    for (i = 0; i < table->column_count; i++) {
        const int title = (int)strlen(table->columns[i].title);
        if (l->width[i] && title > l->width[i] && !(table->t->options & TOOL_QUIET)) l->width[i] = title;
    }
}

/* Leaves out what is spare, then shortens the longest columns that can be shortened. */
static layout fit(const tool_table *table) {
    layout l = DCP_ZERO;
    size_t i;
    l.room = table->t->width ? table->t->width : INT32_MAX;
    measure(table, &l);
    while (total(table, &l, 1) > l.room) {
        size_t sparest = table->column_count;
        for (i = 0; i < table->column_count; i++)
            if (l.width[i] && table->columns[i].spare &&
                (sparest == table->column_count || table->columns[i].spare > table->columns[sparest].spare))
                sparest = i;
        if (sparest == table->column_count) break;
        l.width[sparest] = 0;
    }
    while (total(table, &l, 0) > l.room) {
        size_t longest = table->column_count;
        for (i = 0; i < table->column_count; i++)
            if (table->columns[i].kind == 'm' && l.width[i] > 4 &&
                (longest == table->column_count || l.width[i] > l.width[longest])) longest = i;
        if (longest == table->column_count) break;
        l.width[longest]--;
    }
    i = table->column_count - 1;
    l.has_inline_note = l.width[i] && table->columns[i].kind == 'n' && l.width[i] < l.room - total(table, &l, 0) - GAP;
    return l;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */
static void put_shortened(const char *text, int width) {
    const int whole = tool_columns(text), head = (width - 1) / 2;
    const char *end = tool_cut(text, head);
    printf("%.*s\xe2\x80\xa6%s", (int)(end - text), text, tool_cut(text, whole - (width - 1 - head)));
}

static int is_shown(const tool_table *table, const layout *l, size_t column) {
    if (column == LINE || l->width[column] == 0) return 0;
    return table->columns[column].kind != 'n' || l->has_inline_note;
}

/* `indent`: columns that are still to be filled before the next cell. */
static void put_cell(const tool_table *table, const layout *l, size_t column, const char *text, const char *colour,
                     int *indent) {
    const int width = tool_columns(text), space = l->width[column] - width;
    const int is_right = table->columns[column].kind == 'r';
    if (width == 0) {
        *indent += l->width[column] + GAP;
        return;
    }
    printf("%*s", *indent + (is_right ? space : 0), "");
    if (colour) fputs(tool_paint(table->t, colour), stdout);
    if (space < 0) put_shortened(text, l->width[column]);
    else fputs(text, stdout);
    if (colour) fputs(tool_paint(table->t, TOOL_PLAIN), stdout);
    *indent = GAP + (is_right || space < 0 ? 0 : space);
}

static void put_header(const tool_table *table, const layout *l) {
    int indent = 0;
    size_t i;
    if (table->t->options & TOOL_QUIET) return;
    for (i = 0; i < table->column_count; i++)
        if (is_shown(table, l, i)) put_cell(table, l, i, table->columns[i].title, TOOL_BOLD, &indent);
    putchar('\n');
}

static void put_below(const tool_table *table, const tool_cell *cell) {
    if (!cell->text[0]) return;
    if (cell->colour) fputs(tool_paint(table->t, cell->colour), stdout);
    tool_put_wrapped(stdout, printf("   "), 4, table->t->width, cell->text);
    if (cell->colour) fputs(tool_paint(table->t, TOOL_PLAIN), stdout);
}

void tool_table_end(tool_table *table) {
    const layout l = fit(table);
    int indent = 0;
    size_t i;
    tool_progress_clear(table->t);
    if (table->count) put_header(table, &l);
    for (i = 0; i < table->count; i++) {
        const tool_cell *cell = &table->cells[i];
        if (is_shown(table, &l, cell->column))
            put_cell(table, &l, cell->column, cell->text, cell->colour, &indent);
        if (cell->column + 1 == table->column_count) {
            putchar('\n');
            indent = 0;
            if (table->columns[cell->column].kind == 'n' && !l.has_inline_note) put_below(table, cell);
        }
        if (cell->column == LINE) put_below(table, cell);
    }
    for (i = 0; i < table->count; i++) free(table->cells[i].text);
    free(table->cells);
}
