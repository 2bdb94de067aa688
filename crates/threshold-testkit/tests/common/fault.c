/* Breaks the disk under one process: LD_PRELOAD it.
 *
 * Counts the calls that write to files whose path contains FAULT_MARKER, and looks into the file FAULT_CONTROL before
 * each: "ARMED NTH LASTS ERRNO". A new value of ARMED starts the count again; NTH 0 is a sound disk. The NTH call fails
 * with ERRNO, and all after it if LASTS is 1. A write that fails with ERRNO 0 writes half. Each failure adds a byte to
 * the file FAULT_FIRED.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is_meant(int fd) {
    const char *marker = getenv("FAULT_MARKER");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0 || !marker) return 0;
    path[length] = 0;
    return strstr(path, marker) != NULL;
}

static void note(void) {
    int fd = open(getenv("FAULT_FIRED"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0) abort();
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    if (real(fd, "x", 1) != 1) abort();
    close(fd);
}

/* -1 if the call goes through, else what it fails with. */
static int fault(int fd) {
    static long armed = -1, count = 0;
    if (!is_meant(fd)) return -1;
    pthread_mutex_lock(&lock);
    int failure = -1, saved = errno, control = open(getenv("FAULT_CONTROL"), O_RDONLY);
    char text[128] = "";
    if (control < 0 || read(control, text, sizeof text - 1) < 0) abort();
    close(control);
    long now, nth, lasts, code;
    if (sscanf(text, "%ld %ld %ld %ld", &now, &nth, &lasts, &code) != 4) abort();
    if (now != armed) armed = now, count = 0;
    count++;
    if (nth && (count == nth || (lasts && count > nth))) {
        failure = (int)code;
        note();
    }
    errno = saved;
    pthread_mutex_unlock(&lock);
    return failure;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL_OR(fd, call) \
    do { int code = fault(fd); if (code < 0) return call; errno = code ? code : ENOSPC; return -1; } while (0)
#define HALF_OR(fd, size, whole, half) \
    do { int code = fault(fd); if (code < 0) return whole; \
         if (code == 0 && size > 1) return half; errno = code ? code : ENOSPC; return -1; } while (0)

ssize_t write(int fd, const void *from, size_t size) {
    HALF_OR(fd, size, REAL(write)(fd, from, size), REAL(write)(fd, from, size / 2));
}
ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
    HALF_OR(fd, size, REAL(pwrite)(fd, from, size, at), REAL(pwrite)(fd, from, size / 2, at));
}
ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at) {
    HALF_OR(fd, size, REAL(pwrite64)(fd, from, size, at), REAL(pwrite64)(fd, from, size / 2, at));
}
int fsync(int fd) { FAIL_OR(fd, REAL(fsync)(fd)); }
int fdatasync(int fd) { FAIL_OR(fd, REAL(fdatasync)(fd)); }
int ftruncate(int fd, off_t size) { FAIL_OR(fd, REAL(ftruncate)(fd, size)); }
int ftruncate64(int fd, off64_t size) { FAIL_OR(fd, REAL(ftruncate64)(fd, size)); }
int fallocate(int fd, int mode, off_t at, off_t size) { FAIL_OR(fd, REAL(fallocate)(fd, mode, at, size)); }
int posix_fallocate(int fd, off_t at, off_t size) {
    int code = fault(fd);
    return code < 0 ? REAL(posix_fallocate)(fd, at, size) : code ? code : ENOSPC;
}
