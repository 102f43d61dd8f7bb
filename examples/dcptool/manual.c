/* manual.c - the man page and the completion for bash, made of the texts of help. */
#include "dcptool.h"

/* ---- dcptool help --man ------------------------------------------------------------------------------------------ */
/* As roff wants it: no line begins with a dot, hyphens can be copied. */
static void put_roff(const char *text) {
    int is_first = 1;
    for (; *text; text++) {
        if (is_first && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
        if (*text == '\\') fputs("\\e", stdout);
        else if (*text == '-') fputs("\\-", stdout);
        else putchar(*text);
        is_first = *text == '\n';
    }
}

static void put_option(const tool_option *o) {
    const tool_command *const *c;
    const char *comma = "";
    fputs(".TP\n", stdout);
    if (o->letter) printf("\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB", stdout);
    put_roff("--");
    put_roff(o->name);
    printf("\\fR%s\\fI%s\\fR\n", o->value ? " " : "", tool_or(o->value, ""));
    put_roff(o->help);
    fputs(" (", stdout);
    if (o->bit & TOOL_COMMON) fputs("all commands", stdout);
    else for (c = tool_commands; *c; c++) {
        if (!tool_takes(*c, o)) continue;
        printf("%s%s", comma, (*c)->name);
        comma = ", ";
    }
    fputs(")\n", stdout);
}

void tool_print_manual(void) {
    const tool_command *const *c;
    const tool_option *o;
    printf(".TH DCPTOOL 1 \"\" \"dcptool %s\"\n.SH NAME\n", DCP_VERSION);
    printf("dcptool \\- looks at checkpoints of dcp.h, checks, compares and converts them\n.SH SYNOPSIS\n");
    printf(".B dcptool\n.I COMMAND\n[\\fIOPTION\\fR]... \\fIPATH\\fR...\n.SH EXAMPLES\n.nf\n");
    put_roff(tool_examples);
    printf(".fi\n.SH COMMANDS\n");
    for (c = tool_commands; *c; c++) {
        printf(".SS \"dcptool %s %s\"\n", (*c)->name, (*c)->operands);
        put_roff((*c)->summary);
        fputs("\n.PP\n.nf\n", stdout);
        put_roff((*c)->help);
        fputs(".fi\n", stdout);
    }
    fputs(".SH OPTIONS\n", stdout);
    for (o = tool_options; o->name; o++) put_option(o);
    fputs(".SH \"EXIT STATUS\"\n.nf\n", stdout);
    put_roff(tool_exit_codes);
    fputs(".fi\n", stdout);
}

/* ---- dcptool help --bash ----------------------------------------------------------------------------------------- */
static void put_options(const tool_command *c) {
    const tool_option *o;
    printf("    %s) options='", c->name);
    for (o = tool_options; o->name; o++) if (tool_takes(c, o)) printf("--%s ", o->name);
    fputs("' ;;\n", stdout);
}

void tool_print_completion(void) {
    const tool_command *const *c;
    const tool_option *o;
    fputs("_dcptool() {\n    local word=${COMP_WORDS[COMP_CWORD]} options= commands='", stdout);
    for (c = tool_commands; *c; c++) printf("%s ", (*c)->name);
    fputs("help --help --version'\n    COMPREPLY=()\n    if [ \"$COMP_CWORD\" = 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"$commands\" -- \"$word\"))\n        return\n    fi\n"
          "    case ${COMP_WORDS[COMP_CWORD-1]} in\n"
          "    --to) COMPREPLY=($(compgen -W 'sharded single manifest manifest-yaml' -- \"$word\")); return ;;\n"
          "    help) COMPREPLY=($(compgen -W \"$commands\" -- \"$word\")); return ;;\n", stdout);
    fputs("    ", stdout);
    for (o = tool_options; o->name; o++) if (o->value && strstr(o->value, "FILE")) printf("--%s | ", o->name);
    fputs("-o) return ;;\n    esac\n    case ${COMP_WORDS[1]} in\n", stdout);
    for (c = tool_commands; *c; c++) put_options(*c);
    fputs("    esac\n    case $word in -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;; esac\n}\n"
          "complete -o default -F _dcptool dcptool\n", stdout);
}
