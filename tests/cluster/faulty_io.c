/* Makes file operations of one process fail, on request: LD_PRELOAD=faulty_io.so OTTLA_FAULTS=<file>
 *
 * Each line of that file, while it exists, is a fault:   <operation> <how> <part of the path>
 *
 *   operation   fsync (fdatasync, fsync and syncfs), write (pwrite), read (pread and sendfile)
 *   how         EIO: it fails;  SHORT: half of it is written, and that is all that this call does;
 *               TORN: half of it is written, and then it fails;  KILL3: before the third of these
 *               operations since the fault is there, the process is killed
 *
 * A fault applies to files whose path contains the given part.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum how { NONE, EIO_, SHORT, TORN };

static enum how fault(const char *operation, int fd) {
    const char *faults = getenv("OTTLA_FAULTS");
    if (faults == NULL || access(faults, F_OK) != 0) return NONE;
    char link[64], path[4096], line[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return NONE;
    path[length] = 0;
    FILE *file = fopen(faults, "r");
    if (file == NULL) return NONE;
    enum how found = NONE;
    while (found == NONE && fgets(line, sizeof line, file) != NULL) {
        char what[16], how[16], part[2048];
        if (sscanf(line, "%15s %15s %2047s", what, how, part) != 3) continue;
        if (strcmp(what, operation) != 0 || strstr(path, part) == NULL) continue;
        if (strncmp(how, "KILL", 4) == 0) {
            static int seen = 0;
            if (++seen >= atoi(how + 4)) kill(getpid(), SIGKILL);
            continue;
        }
        found = strcmp(how, "SHORT") == 0 ? SHORT : strcmp(how, "TORN") == 0 ? TORN : EIO_;
    }
    fclose(file);
    return found;
}

#define REAL(name, type, ...) ((type (*)(__VA_ARGS__)) dlsym(RTLD_NEXT, name))
#define FAIL_IF(operation, fd) if (fault(operation, fd) != NONE) { errno = EIO; return -1; }

int fsync(int fd) { FAIL_IF("fsync", fd) return REAL("fsync", int, int)(fd); }
int fdatasync(int fd) { FAIL_IF("fsync", fd) return REAL("fdatasync", int, int)(fd); }
int syncfs(int fd) { FAIL_IF("fsync", fd) return REAL("syncfs", int, int)(fd); }

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    ssize_t (*real)(int, const void *, size_t, off64_t) =
        REAL("pwrite64", ssize_t, int, const void *, size_t, off64_t);
    switch (fault("write", fd)) {
    case NONE: return real(fd, data, size, at);
    case SHORT: return real(fd, data, size > 1 ? size / 2 : size, at);
    case TORN: real(fd, data, size / 2, at); /* and fall through */
    default: errno = EIO; return -1;
    }
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t pread64(int fd, void *data, size_t size, off64_t at) {
    FAIL_IF("read", fd)
    return REAL("pread64", ssize_t, int, void *, size_t, off64_t)(fd, data, size, at);
}
ssize_t pread(int fd, void *data, size_t size, off_t at) { return pread64(fd, data, size, at); }

ssize_t sendfile64(int to, int from, off64_t *at, size_t size) {
    FAIL_IF("read", from)
    return REAL("sendfile64", ssize_t, int, int, off64_t *, size_t)(to, from, at, size);
}
ssize_t sendfile(int to, int from, off_t *at, size_t size) { return sendfile64(to, from, at, size); }
