/* main.c - the commands, and what every run of one does. */
#include "dcptool.h"
#include <errno.h>
#include <signal.h>

const tool_command *const tool_commands[] = {
    &tool_ls, &tool_info, &tool_verify, &tool_stats, &tool_diff, &tool_report, &tool_cat, &tool_extract, &tool_convert,
    &tool_sign, &tool_sync, &tool_repair, &tool_watch, &tool_latest, &tool_prune, &tool_sweep, NULL
};

dcp_cancel tool_interrupted;
static volatile sig_atomic_t caught;                    /* the signal that did, or 0 */

static int run(int count, char **arguments);
static int finish(int code);
static void on_signal(int number);

int main(int argc, char **argv) {
    int code;
    argv = tool_prepare_process(&argc, argv);
    /* signals that were ignored when we started (nohup, &) stay ignored */
    if (signal(SIGINT, SIG_IGN) != SIG_IGN) signal(SIGINT, on_signal);
    if (signal(SIGTERM, SIG_IGN) != SIG_IGN) signal(SIGTERM, on_signal);
#ifdef SIGPIPE
    signal(SIGPIPE, SIG_IGN);                           /* so that a closed pipe is an error like any other */
#endif
    code = finish(run(argc > 0 ? argc - 1 : 0, argv + 1));
    /* A shell ends its loop only if the signal ended us, which it does now that nothing is left behind. */
    if (caught) {
        signal(caught, SIG_DFL);
        raise(caught);
    }
    return code;
}

static void on_signal(int number) {
    caught = number;
    dcp_cancel_request(&tool_interrupted);
    signal(number, SIG_DFL);                            /* a second one ends the program at once */
}

static void on_log(void *user, dcp_log_level level, const char *message) {
    if (level > DCP_LOG_WARNING) return;
    tool_note((tool_state *)user, "%s%s", level == DCP_LOG_WARNING ? "warning: " : "", message);
}

static int prepare(tool_state *t) {
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    const int has_terminal = term && term[0] && strcmp(term, "dumb") != 0;
    t->has_colour = has_terminal && tool_is_terminal(1) && !(no_color && no_color[0]);
    t->width = tool_terminal_width(1);
    t->progress.begun = tool_seconds();
    if (has_terminal && !(t->options & TOOL_QUIET)) t->progress.width = tool_terminal_width(2);
    t->io.cancel = &tool_interrupted;
    t->io.progress = tool_on_progress;
    t->io.progress_user = t;
    t->io.log = on_log;
    t->io.log_user = t;
    t->select.tiers = t->tiers.items;
    t->select.tier_count = t->tiers.count;
    return tool_read_keys(t);
}

static const tool_command *find_command(const char *name) {
    const tool_command *const *c = tool_commands;
    while (*c && strcmp((*c)->name, name) != 0) c++;
    return *c;
}

static int help(int count, char **arguments) {
    const tool_command *c = count > 0 ? find_command(arguments[0]) : NULL;
    if (count == 0) tool_print_overview(stdout);
    else if (count == 1 && strcmp(arguments[0], "--man") == 0) tool_print_manual();
    else if (count == 1 && strcmp(arguments[0], "--bash") == 0) tool_print_completion();
    else if (count > 1) return tool_usage(NULL, "help takes the name of one command");
    else if (!c) return tool_usage(NULL, "unknown command '%s'", arguments[0]);
    else tool_print_help(c);
    return TOOL_FINE;
}

static int run(int count, char **arguments) {
    const char *name = count > 0 ? arguments[0] : "";
    tool_state t = DCP_ZERO;
    int code;
    if (count == 0) {
        tool_print_overview(stderr);
        return TOOL_USAGE;
    }
    if (strcmp(name, "help") == 0) return help(count - 1, arguments + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return help(0, NULL);
    if (strcmp(name, "--version") == 0) {
        printf("dcptool %s (dcp.h %s, writes format %s)\n", DCP_VERSION, dcp_version(), DCP_FORMAT_VERSION);
        return TOOL_FINE;
    }
    t.command = find_command(name);
    if (!t.command) return tool_usage(NULL, "unknown %s '%s'", name[0] == '-' ? "option" : "command", name);
    code = tool_parse(&t, count - 1, arguments + 1);
    if (!code && (t.options & TOOL_HELP)) {
        tool_print_help(t.command);
        return TOOL_FINE;
    }
    if (!code) code = prepare(&t);
    if (!code) code = t.command->run(&t);
    tool_progress_clear(&t);
    tool_free_all();
    return code;
}

/* A full disk shows when the last bytes go out; results that nobody received are a failure. A reader that had enough
 * of them (head) is not. */
static int finish(int code) {
    const int failed = ferror(stdout), has_enough = tool_reader_is_gone(1);
    errno = 0;
    if (fclose(stdout) == 0 && !failed) return code;
    if (has_enough || errno == EPIPE) return code;
    fprintf(stderr, "dcptool: cannot write to standard output: %s\n",
            errno ? strerror(errno) : "an earlier write failed");
    return TOOL_TROUBLE;
}
