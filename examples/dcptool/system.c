/* system.c - what differs between systems: terminals, kinds of files, threads and locks. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#define _DARWIN_C_SOURCE 1
#endif
#include "dcptool.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <shellapi.h>

struct tool_thread { HANDLE handle; void (*body)(void *); void *argument; };
struct tool_lock { CRITICAL_SECTION section; };

static unsigned __stdcall thread_main(void *argument) {
    tool_thread *t = argument;
    t->body(t->argument);
    return 0;
}

tool_thread *tool_thread_start(void (*body)(void *), void *argument) {
    tool_thread *t = tool_need(calloc(1, sizeof *t));
    t->body = body;
    t->argument = argument;
    t->handle = (HANDLE)_beginthreadex(NULL, 0, thread_main, t, 0, NULL);
    if (t->handle) return t;
    free(t);
    return NULL;
}

void tool_thread_join(tool_thread *t) {
    (void)WaitForSingleObject(t->handle, INFINITE);
    (void)CloseHandle(t->handle);
    free(t);
}

tool_lock *tool_lock_new(void) {
    tool_lock *l = tool_new(1, sizeof *l);
    InitializeCriticalSection(&l->section);
    return l;
}

void tool_lock_take(tool_lock *l) { EnterCriticalSection(&l->section); }
void tool_lock_give(tool_lock *l) { LeaveCriticalSection(&l->section); }
void tool_lock_free(tool_lock *l) { DeleteCriticalSection(&l->section); }

static wchar_t *to_wide(const char *text) {
    int length = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    wchar_t *wide = tool_new((size_t)length + 1, sizeof *wide);
    MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, length);
    return wide;
}

enum tool_kind tool_kind_of(const char *path) {
    DWORD attributes = GetFileAttributesW(to_wide(path));
    if (attributes == INVALID_FILE_ATTRIBUTES) return TOOL_NONE;
    return (attributes & FILE_ATTRIBUTE_DIRECTORY) ? TOOL_DIRECTORY : TOOL_FILE;
}

int tool_is_separator(char c) { return c == '/' || c == '\\' || c == ':'; }
int tool_is_terminal(int descriptor) { return _isatty(descriptor) != 0; }
double tool_seconds(void) { return (double)GetTickCount64() / 1000; }
void tool_sleep(double seconds) { Sleep((DWORD)(seconds * 1000)); }

int tool_processors(void) {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return (int)info.dwNumberOfProcessors;
}

int tool_terminal_width(int descriptor) {
    CONSOLE_SCREEN_BUFFER_INFO info;
    if (!_isatty(descriptor)) return 0;
    if (!GetConsoleScreenBufferInfo((HANDLE)_get_osfhandle(descriptor), &info)) return 80;
    return info.srWindow.Right - info.srWindow.Left + 1;
}

int tool_reader_is_gone(int descriptor) {
    DWORD count;
    HANDLE pipe = (HANDLE)_get_osfhandle(descriptor);
    return GetFileType(pipe) == FILE_TYPE_PIPE && !PeekNamedPipe(pipe, NULL, 0, NULL, &count, NULL) &&
           GetLastError() != ERROR_ACCESS_DENIED;
}
void tool_binary_stdout(void) { (void)_setmode(1, _O_BINARY); }
unsigned tool_process_id(void) { return (unsigned)_getpid(); }
FILE *tool_open_for_reading(const char *path) { return _wfopen(to_wide(path), L"rb"); }
FILE *tool_open_for_writing(const char *path) { return _wfopen(to_wide(path), L"wbx"); }
void tool_remove(const char *path) { (void)_wremove(to_wide(path)); }

const unsigned char *tool_map(const char *path, int64_t *size, dcp_error *err) {
    HANDLE file = CreateFileW(to_wide(path), GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL), mapping;
    LARGE_INTEGER length = DCP_ZERO;
    const void *bytes = NULL;
    *size = 0;
    if (file != INVALID_HANDLE_VALUE && GetFileSizeEx(file, &length) && length.QuadPart > 0 &&
        (uint64_t)length.QuadPart <= SIZE_MAX) {
        mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
        if (mapping) bytes = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
        if (mapping) (void)CloseHandle(mapping);
    }
    if (file != INVALID_HANDLE_VALUE) (void)CloseHandle(file);
    if (!bytes) (void)tool_error(err, DCP_E_IO, "%s is empty, or cannot be read", path);
    *size = length.QuadPart;
    return bytes;
}

void tool_unmap(const unsigned char *bytes, int64_t size) {
    (void)size;
    (void)UnmapViewOfFile(bytes);
}

/* The arguments in UTF-8, as the library takes paths. */
char **tool_prepare_process(int *argc, char **argv) {
    int count, i;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **arguments;
    (void)SetConsoleOutputCP(CP_UTF8);
    if (!wide) return argv;
    arguments = tool_new((size_t)count + 1, sizeof *arguments);
    for (i = 0; i < count; i++) {
        int length = WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
        arguments[i] = tool_new((size_t)length + 1, 1);
        WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, arguments[i], length, NULL, NULL);
    }
    LocalFree(wide);
    *argc = count;
    return arguments;
}
#else
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct tool_thread { pthread_t handle; void (*body)(void *); void *argument; };
struct tool_lock { pthread_mutex_t mutex; };

static void *thread_main(void *argument) {
    tool_thread *t = argument;
    t->body(t->argument);
    return NULL;
}

tool_thread *tool_thread_start(void (*body)(void *), void *argument) {
    tool_thread *t = tool_need(calloc(1, sizeof *t));
    t->body = body;
    t->argument = argument;
    if (pthread_create(&t->handle, NULL, thread_main, t) == 0) return t;
    free(t);
    return NULL;
}

void tool_thread_join(tool_thread *t) {
    (void)pthread_join(t->handle, NULL);
    free(t);
}

tool_lock *tool_lock_new(void) {
    tool_lock *l = tool_new(1, sizeof *l);
    if (pthread_mutex_init(&l->mutex, NULL) != 0) tool_need(NULL);
    return l;
}

void tool_lock_take(tool_lock *l) { (void)pthread_mutex_lock(&l->mutex); }
void tool_lock_give(tool_lock *l) { (void)pthread_mutex_unlock(&l->mutex); }
void tool_lock_free(tool_lock *l) { (void)pthread_mutex_destroy(&l->mutex); }

enum tool_kind tool_kind_of(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) return TOOL_NONE;
    return S_ISDIR(info.st_mode) ? TOOL_DIRECTORY : S_ISREG(info.st_mode) ? TOOL_FILE : TOOL_OTHER;
}

int tool_is_separator(char c) { return c == '/'; }
int tool_is_terminal(int descriptor) { return isatty(descriptor); }

int tool_processors(void) {
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 1 && count < 10000 ? (int)count : 1;
}

double tool_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void tool_sleep(double seconds) {
    struct timespec time;
    time.tv_sec = (time_t)seconds;
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    (void)nanosleep(&time, NULL);
}

int tool_terminal_width(int descriptor) {
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    if (!isatty(descriptor)) return 0;
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return columns && atoi(columns) > 0 ? atoi(columns) : 80;
}

int tool_reader_is_gone(int descriptor) {
    struct pollfd writer;
    writer.fd = descriptor;
    writer.events = POLLOUT;
    return poll(&writer, 1, 0) == 1 && (writer.revents & POLLERR) != 0;
}
void tool_binary_stdout(void) {}
unsigned tool_process_id(void) { return (unsigned)getpid(); }
FILE *tool_open_for_reading(const char *path) { return fopen(path, "rb"); }
FILE *tool_open_for_writing(const char *path) { return fopen(path, "wbx"); }
void tool_remove(const char *path) { (void)remove(path); }

const unsigned char *tool_map(const char *path, int64_t *size, dcp_error *err) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    void *bytes = MAP_FAILED;
    *size = 0;
    if (file >= 0 && fstat(file, &info) == 0 && info.st_size > 0 && (uint64_t)info.st_size <= SIZE_MAX)
        bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (file >= 0) (void)close(file);
    if (bytes == MAP_FAILED) {
        (void)tool_error(err, DCP_E_IO, "%s is empty, or cannot be read", path);
        return NULL;
    }
    *size = (int64_t)info.st_size;
    return bytes;
}

void tool_unmap(const unsigned char *bytes, int64_t size) { (void)munmap((void *)(uintptr_t)bytes, (size_t)size); }

/* If a standard descriptor is closed, the next file gets its number, and our messages. What we open in its place fails
 * when it is used. */
char **tool_prepare_process(int *argc, char **argv) {
    int descriptor;
    (void)argc;
    for (descriptor = 0; descriptor < 3; descriptor++)
        if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY) != descriptor)
            exit(TOOL_TROUBLE);
    return argv;
}
#endif
