/* Faults of disk and clock for one replica, which is forked from a process with
 * LD_PRELOAD=preload.so.
 *
 * The file $XDG_DATA_HOME/faults has three 64-bit numbers, which the run changes: seconds that the
 * wall clock is off, one read in how many fails with EIO (0: none), and milliseconds that a read
 * takes longer. Only files below $ELMO_TASKS fail. The monotonic clock is never changed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control { volatile int64_t clock_seconds, failing, read_ms; };
static const struct control *control;
static const char *folder;
static int (*real_clock)(clockid_t, struct timespec *);

/* The variables of a replica are set after the fork: look until they are there. */
static int is_disturbed(void) {
    if (control) return 1;
    const char *home = getenv("XDG_DATA_HOME"), *tasks = getenv("ELMO_TASKS");
    char path[4096];
    if (!home || !tasks) return 0;
    snprintf(path, sizeof path, "%s/faults", home);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    void *page = mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page == MAP_FAILED) return 0;
    folder = strdup(tasks);
    control = page;
    return 1;
}

static int is_below(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path);
    size_t wanted = strlen(folder);
    return length >= (ssize_t)wanted && !memcmp(path, folder, wanted);
}

static int fails(int file) {
    static uint64_t calls;
    if (!is_disturbed()) return 0;
    uint64_t failing = control->failing; /* read once: the run may set it to 0 meanwhile */
    if (!failing || !is_below(file)) return 0;
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % failing) return 0;
    errno = EIO;
    return 1;
}

ssize_t read(int file, void *bytes, size_t count) {
    if (fails(file)) return -1;
    if (is_disturbed() && control->read_ms && is_below(file)) usleep(1000 * control->read_ms);
    return syscall(SYS_read, file, bytes, count);
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    if (!real_clock) real_clock = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real_clock(clock, found);
    if (!status && clock == CLOCK_REALTIME && is_disturbed())
        found->tv_sec += control->clock_seconds;
    return status;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *found, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}
