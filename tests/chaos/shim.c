/* What can go wrong between a program and its disk, at a chosen call: LD_PRELOAD this into an
   unmodified program, with HIVE_FAULTS naming the file through which it is told what to do
   (faults/shim.py has the other end). Calls that change what is on disk below `root` are numbered
   while it is armed; at number `at` the process is killed before or after the call, or the call
   fails. It can also write down every change (for the replay of power cuts), and shift the clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KILL_BEFORE = 1, KILL_AFTER, FAIL_ONCE, FAIL_FROM };
enum { WRITE = 1, SYNC = 2, NAME = 4, MOUNT = 8, UNIT = 16, MODE = 32, GONE = 64 };
#define NAMED 4096
#define LENGTH 224

static struct control {
    uint64_t count, at;
    uint32_t armed, act, kinds, number; /* number: errno of a call that fails */
    int64_t shift;                      /* nanoseconds added to the wall clock */
    char root[256];                     /* what does not begin with this is not looked at */
    char record[256];                   /* where every change is written down, if anywhere */
    char names[NAMED][LENGTH];          /* what was reached: "call path" */
} *control;
static int record = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("HIVE_FAULTS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *found = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED)
        control = found;
}

static void put(const char *op, const char *path, const char *other, off_t at, const void *data,
                size_t size)
{
    if (record < 0)
        record = syscall(SYS_openat, AT_FDCWD, control->record,
                         O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    char head[2 * PATH_MAX + 64];
    int length = snprintf(head, sizeof head, "%s\t%s\t%s\t%lld\t%zu\n", op, path, other,
                          (long long)at, size);
    struct iovec parts[] = {{head, length}, {(void *)data, size}, {"\n", 1}};
    syscall(SYS_writev, record, parts, 3);
}

/* The number of this call, 0 when nobody counts it. */
static uint64_t reach(uint32_t kind, const char *call, const char *path)
{
    if (!control || !control->armed || !(control->kinds & kind))
        return 0;
    if (strncmp(path, control->root, strlen(control->root)))
        return 0;
    uint64_t number = __atomic_add_fetch(&control->count, 1, __ATOMIC_SEQ_CST);
    if (number <= NAMED)
        snprintf(control->names[number - 1], LENGTH, "%s %s", call, path);
    if (control->act == KILL_BEFORE && number == control->at)
        kill(getpid(), SIGKILL);
    return number;
}

static int fails(uint64_t number)
{
    if (!number || !((control->act == FAIL_ONCE && number == control->at) ||
                     (control->act == FAIL_FROM && number >= control->at)))
        return 0;
    errno = control->number;
    return 1;
}

static void reached(uint64_t number)
{
    if (number && control->act == KILL_AFTER && number == control->at)
        kill(getpid(), SIGKILL);
}

static const char *of(int file, char *room)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, room, PATH_MAX - 1);
    room[size < 0 ? 0 : size] = 0;
    return room;
}

static const char *at(int folder, const char *path, char *room)
{
    if (path[0] == '/')
        return path;
    if (folder != AT_FDCWD)
        of(folder, room);
    else if (!getcwd(room, PATH_MAX))
        room[0] = 0;
    size_t length = strlen(room);
    snprintf(room + length, 2 * PATH_MAX - length, "/%s", path);
    return room;
}

static int watched(void) { return control && control->armed; }
static int recorded(const char *path, long result)
{
    return watched() && control->record[0] && result >= 0 &&
           !strncmp(path, control->root, strlen(control->root));
}

/* A call whose arguments do not matter here but for the path. */
#define POINT(type, kind, call, path, ...)                                                         \
    uint64_t number = reach(kind, call, path);                                                     \
    type result = fails(number) ? -1 : (__VA_ARGS__);                                              \
    int kept = errno;                                                                              \
    reached(number);

#define DONE                                                                                       \
    errno = kept;                                                                                  \
    return result;

#define WRITER(name, type, call, offset, arguments, ...)                                           \
    ssize_t name arguments                                                                         \
    {                                                                                              \
        if (!watched())                                                                            \
            return REAL(name)(__VA_ARGS__);                                                        \
        char room[2 * PATH_MAX];                                                                   \
        of(file, room);                                                                            \
        type place = offset;                                                                       \
        POINT(ssize_t, room[0] == '/' ? WRITE : 0, call, room, REAL(name)(__VA_ARGS__))            \
        if (recorded(room, result))                                                                \
            put("write", room, "", place, data, result);                                           \
        DONE                                                                                       \
    }

static off_t here(int file)
{
    int flags = fcntl(file, F_GETFL);
    if (flags & O_APPEND) {
        struct stat found;
        return fstat(file, &found) ? 0 : found.st_size;
    }
    return lseek(file, 0, SEEK_CUR);
}

WRITER(write, off_t, "write", here(file), (int file, const void *data, size_t size), file, data, size)
WRITER(pwrite, off_t, "write", where, (int file, const void *data, size_t size, off_t where), file,
       data, size, where)
WRITER(pwrite64, off_t, "write", where, (int file, const void *data, size_t size, off64_t where),
       file, data, size, where)

/* What was written through a mapping (packs) is seen when it is made durable. */
static void whole(const char *path, int file)
{
    struct stat found;
    if (!strstr(path, "/objects/pack/") || fstat(file, &found) || !S_ISREG(found.st_mode))
        return;
    void *data = mmap(NULL, found.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (data != MAP_FAILED) {
        put("write", path, "", 0, data, found.st_size);
        munmap(data, found.st_size);
    }
}

#define SYNCER(name)                                                                               \
    int name(int file)                                                                             \
    {                                                                                              \
        if (!watched())                                                                            \
            return REAL(name)(file);                                                               \
        char room[2 * PATH_MAX];                                                                   \
        of(file, room);                                                                            \
        POINT(int, SYNC, #name, room, REAL(name)(file))                                            \
        if (recorded(room, result)) {                                                              \
            whole(room, file);                                                                     \
            put("sync", room, "", 0, "", 0);                                                       \
        }                                                                                          \
        DONE                                                                                       \
    }
SYNCER(fsync)
SYNCER(fdatasync)

#define RESIZER(name, type)                                                                        \
    int name(int file, type size)                                                                  \
    {                                                                                              \
        if (!watched())                                                                            \
            return REAL(name)(file, size);                                                         \
        char room[2 * PATH_MAX];                                                                   \
        of(file, room);                                                                            \
        POINT(int, WRITE, "truncate", room, REAL(name)(file, size))                                \
        if (recorded(room, result))                                                                \
            put("truncate", room, "", size, "", 0);                                                \
        DONE                                                                                       \
    }
RESIZER(ftruncate, off_t)
RESIZER(ftruncate64, off64_t)

int posix_fallocate64(int file, off64_t from, off64_t size)
{
    char room[2 * PATH_MAX];
    uint64_t number = watched() ? reach(WRITE, "allocate", of(file, room)) : 0;
    int result = fails(number) ? errno : REAL(posix_fallocate64)(file, from, size);
    reached(number);
    return result;
}
int posix_fallocate(int file, off_t from, off_t size) { return posix_fallocate64(file, from, size); }

/* One name, one more, or two: unlink, mkdir, rename... */
#define ONE(name, kind, op, folder, arguments, ...)                                                \
    int name arguments                                                                             \
    {                                                                                              \
        if (!watched())                                                                            \
            return REAL(name)(__VA_ARGS__);                                                        \
        char room[2 * PATH_MAX];                                                                   \
        const char *full = at(folder, path, room);                                                 \
        POINT(int, kind, op, full, REAL(name)(__VA_ARGS__))                                        \
        if (recorded(full, result))                                                                \
            put(op, full, "", 0, "", 0);                                                           \
        DONE                                                                                       \
    }
ONE(unlink, GONE, "unlink", AT_FDCWD, (const char *path), path)
ONE(unlinkat, GONE, "unlink", folder, (int folder, const char *path, int flags), folder, path, flags)
ONE(rmdir, GONE, "unlink", AT_FDCWD, (const char *path), path)
ONE(mkdir, NAME, "mkdir", AT_FDCWD, (const char *path, mode_t mode), path, mode)
ONE(mkdirat, NAME, "mkdir", folder, (int folder, const char *path, mode_t mode), folder, path, mode)
ONE(chmod, MODE, "mode", AT_FDCWD, (const char *path, mode_t mode), path, mode)
ONE(fchmodat, MODE, "mode", folder, (int folder, const char *path, mode_t mode, int flags), folder,
    path, mode, flags)
ONE(chown, MODE, "mode", AT_FDCWD, (const char *path, uid_t uid, gid_t gid), path, uid, gid)
ONE(lchown, MODE, "mode", AT_FDCWD, (const char *path, uid_t uid, gid_t gid), path, uid, gid)
ONE(fchownat, MODE, "mode", folder, (int folder, const char *path, uid_t uid, gid_t gid, int flags),
    folder, path, uid, gid, flags)
ONE(umount2, MOUNT, "umount", AT_FDCWD, (const char *path, int flags), path, flags)

#define TWO(name, kind, op, from_folder, to_folder, arguments, ...)                                \
    int name arguments                                                                             \
    {                                                                                              \
        if (!watched())                                                                            \
            return REAL(name)(__VA_ARGS__);                                                        \
        char room[2 * PATH_MAX], other[2 * PATH_MAX];                                              \
        const char *old = at(from_folder, from, other), *full = at(to_folder, to, room);           \
        POINT(int, kind, op, full, REAL(name)(__VA_ARGS__))                                        \
        if (recorded(full, result))                                                                \
            put(op, full, old, 0, "", 0);                                                          \
        DONE                                                                                       \
    }
TWO(rename, NAME, "rename", AT_FDCWD, AT_FDCWD, (const char *from, const char *to), from, to)
TWO(renameat, NAME, "rename", old_folder, new_folder,
    (int old_folder, const char *from, int new_folder, const char *to), old_folder, from,
    new_folder, to)
TWO(link, NAME, "link", AT_FDCWD, AT_FDCWD, (const char *from, const char *to), from, to)
TWO(linkat, NAME, "link", old_folder, new_folder,
    (int old_folder, const char *from, int new_folder, const char *to, int flags), old_folder, from,
    new_folder, to, flags)
TWO(symlink, NAME, "symlink", AT_FDCWD, AT_FDCWD, (const char *from, const char *to), from, to)
TWO(symlinkat, NAME, "symlink", AT_FDCWD, folder, (const char *from, int folder, const char *to),
    from, folder, to)

#define OPENER(name, real, folder, arguments, ...)                                                 \
    int name arguments                                                                             \
    {                                                                                              \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                    \
        va_end(more);                                                                              \
        if (!watched() || !(flags & (O_CREAT | O_TRUNC)))                                          \
            return REAL(real)(__VA_ARGS__);                                                        \
        char room[2 * PATH_MAX];                                                                   \
        struct stat found;                                                                         \
        const char *full = at(folder, path, room);                                                 \
        int fresh = lstat(full, &found) != 0;                                                      \
        if (!fresh && !(flags & O_TRUNC))                                                          \
            return REAL(real)(__VA_ARGS__);                                                        \
        POINT(int, NAME, "open", full, REAL(real)(__VA_ARGS__))                                    \
        if (recorded(full, result))                                                                \
            put(fresh ? "create" : "truncate", full, "", 0, "", 0);                                \
        DONE                                                                                       \
    }
OPENER(open, open, AT_FDCWD, (const char *path, int flags, ...), path, flags, mode)
OPENER(open64, open64, AT_FDCWD, (const char *path, int flags, ...), path, flags, mode)
OPENER(openat, openat, folder, (int folder, const char *path, int flags, ...), folder, path, flags,
       mode)
OPENER(openat64, openat64, folder, (int folder, const char *path, int flags, ...), folder, path,
       flags, mode)

/* Root's calls: mounts (by number, since glibc has no names for the newer ones) and programs. */
int mount(const char *source, const char *path, const char *type, unsigned long flags,
          const void *data)
{
    POINT(int, MOUNT, "mount", path, REAL(mount)(source, path, type, flags, data))
    DONE
}

long syscall(long what, ...)
{
    va_list more;
    va_start(more, what);
    long a[6];
    for (int each = 0; each < 6; each++)
        a[each] = va_arg(more, long);
    va_end(more);
    __typeof__(&syscall) really = REAL(syscall);
    const char *path = what == SYS_move_mount && watched() ? (const char *)a[3] : "";
    POINT(long, path[0] ? MOUNT : 0, "move_mount", path,
          really(what, a[0], a[1], a[2], a[3], a[4], a[5]))
    DONE
}

/* In the child, which shares the memory and whose parent waits: the parent dies instead. */
int execve(const char *path, char *const words[], char *const environment[])
{
    if (watched() && (control->kinds & UNIT) && words[0] && words[1]) {
        uint64_t number = __atomic_add_fetch(&control->count, 1, __ATOMIC_SEQ_CST);
        if (number <= NAMED)
            snprintf(control->names[number - 1], LENGTH, "run %s %s", words[0], words[1]);
        if (number == control->at && control->act == KILL_BEFORE) {
            kill(getppid(), SIGKILL);
            _exit(127);
        }
        if (number == control->at && control->act == KILL_AFTER)
            kill(getppid(), SIGKILL);
    }
    return REAL(execve)(path, words, environment);
}

int clock_gettime(clockid_t which, struct timespec *found)
{
    int result = REAL(clock_gettime)(which, found);
    if (control && control->shift && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        int64_t all = found->tv_sec * 1000000000LL + found->tv_nsec + control->shift;
        found->tv_sec = all / 1000000000LL;
        found->tv_nsec = all % 1000000000LL;
    }
    return result;
}

int gettimeofday(struct timeval *found, void *zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *kept)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept)
        *kept = now.tv_sec;
    return now.tv_sec;
}
